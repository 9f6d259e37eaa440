"""How long an audit will take: how many operations a run has, times what each costs on a usual processor.

Nothing is timed, so that the same tables have the same plan, however busy the machine is. The operations of the
protocols and of the alignment are counted; what costs Python and messages more than arithmetic was measured once.
``python -m scripts.forecast_check`` compares forecasts with runs, and ``docs/how-to/how-long.md`` has what came out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from plumbline.job_progress import span_words
from services.common.agreement import Agreement
from services.common.errors import InvalidMessage
from services.protocol1.formats import CipherFormats
from services.shared_layer.layer_messages import LayerSizes
from services.shared_layer.layer_terms import LayerTerms
from services.shared_weights.share_messages import Kind, MessageSizes
from services.shared_weights.shared_terms import SharedTerms
from vfl.cores import available_cores
from vfl.crypto import PackingImpossible
from vfl.crypto.ciphers import spec_of
from vfl.crypto.kernels import best_kernel
from vfl.crypto.kernels.counts import DECRYPT_PRODUCTS, ENCRYPT_PRODUCTS, RERANDOMISE_PRODUCTS, product_cost
from vfl.crypto.messages import MessageFormats
from vfl.crypto.widths import ColumnFormats

# Seconds of processor time on an x86-64 server of 2020: of a product modulo n**2 at 2,048 bits, in lanes, in limbs and
# by gmpy2; of a key pair with its proofs; of an id.
_IN_LANES, _IN_LIMBS, _PORTABLE = 1.2e-6, 4.2e-6, 7e-6
_KEY = 0.25
_BLINDED_ID, _REBLINDED_ID = 55e-6, 50e-6
# The stage of attacks that send other messages: all that the audited session does, once more.
MALICIOUS_SESSION = "malicious session"
# A run takes between a share of what is foretold and so many times as much.
_LEAST, _MOST = 0.5, 1.7


@dataclass(frozen=True)
class CipherSeconds:
    """Seconds of single operations under one session's keys and packing, on one core.

    Attributes:
        key: to make a key pair and prove it well-formed.
        encryption: of one ciphertext, by the key's owner.
        multiplication: of one modular product of an encrypted matrix product.
        answer: to mask one answer, decrypt it and take the mask off.
    """

    key: float
    encryption: float
    multiplication: float
    answer: float


@dataclass(frozen=True)
class Calibration:
    """Seconds of single operations, and the cores that they go over.

    Attributes:
        blinded_id: to map an id to the curve and put a key on it.
        reblinded_id: to put a second key on it.
        cores: that processes can share.
        cipher: of operations under Paillier; None where nobody asks for them.
        workers: cores that one party's work goes over.
    """

    blinded_id: float
    reblinded_id: float
    cores: int
    cipher: CipherSeconds | None = None
    workers: int = 1


def usual_calibration(agreement: Agreement) -> Calibration:
    """Say what operations of a session cost on a usual processor of this one's kind. Nothing is timed."""
    longer, kernel, cores = agreement.plan.key_bits / 2048, best_kernel(), available_cores()
    product = _IN_LANES if kernel.batch > 1 else _IN_LIMBS if kernel.releases_gil else _PORTABLE
    product *= longer**1.75
    cipher = CipherSeconds(
        key=_KEY * longer**4,
        encryption=ENCRYPT_PRODUCTS * product,
        multiplication=product,
        answer=(RERANDOMISE_PRODUCTS + DECRYPT_PRODUCTS) * product,
    )
    return Calibration(_BLINDED_ID, _REBLINDED_ID, cores, cipher, workers=cores)


def products_of(formats: MessageFormats, rows: int, columns: ColumnFormats) -> int:
    """Count the modular products of encrypted residuals of so many rows and columns of these formats."""
    layout = formats.layout
    if layout is None:
        return formats.columns * product_cost(rows, columns.digits, columns.digits)
    horner_bits = sum(bits * count for bits, count in layout.fillings(columns))
    return product_cost(layout.ciphertexts_for(rows), columns.digits * layout.rows_per_ciphertext, horner_bits)


# What follows was measured where an id was blinded in that time: a slower machine takes longer by as much.
_PROCESS_START = 2.0
_STEP_MESSAGES = 0.006
_EPOCH_MESSAGES = 0.04
_JUDGE_PER_CELL = 6e-6
_REPORT = 4.0
_PREDICTED_RECORD = 8e-6
_CLEAR_SESSION = 0.03


@dataclass(frozen=True)
class Span:
    """A range of seconds.

    Attributes:
        low: the least.
        high: the most.
    """

    low: float
    high: float

    @classmethod
    def about(cls, seconds: float) -> "Span":
        """Give the range of what is foretold to take so many seconds."""
        return cls(_LEAST * seconds, _MOST * seconds)

    def __str__(self) -> str:
        return span_words(self.low, self.high)


@dataclass(frozen=True)
class StageForecast:
    """One stage of a run.

    Attributes:
        name: what happens.
        seconds: how long it will take where this machine's cores are free.
        amount: how much of it there is, in words.
        processor_seconds: what it takes of the processor, of all processes together.
    """

    name: str
    seconds: float
    amount: str
    processor_seconds: float = 0.0


@dataclass(frozen=True)
class Forecast:
    """How long a run will take.

    Attributes:
        stages: in their order.
    """

    stages: tuple[StageForecast, ...]

    @property
    def seconds(self) -> float:
        """Of the whole run, where this machine's cores are free."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def processor_seconds(self) -> float:
        """Of the whole run and all of its processes: what a busy machine changes little."""
        return sum(stage.processor_seconds for stage in self.stages)


@dataclass(frozen=True)
class Workload:
    """How much a run has to do.

    Attributes:
        agreement: the terms, with a batch size; its cipher doesn't matter here.
        ids: records of each party's own table, the active party's first.
        attacks: seconds that each attack is thought to take on the reference machine, by its label.
        attacked_records: how many records attacks on predictions reconstruct.
        passive_features: how many features these records have at the passive parties.
        sessions: after how many sessions the verdict holds.
        at_the_limit: as ``attacks``, of those on all of these sessions.
        malicious: names of the attacks that get a session of their own, as they send other messages.
    """

    agreement: Agreement
    ids: tuple[int, ...]
    attacks: Mapping[str, float]
    attacked_records: int
    passive_features: int
    sessions: int = 1
    at_the_limit: Mapping[str, float] = field(default_factory=dict)
    malicious: tuple[str, ...] = ()

    @property
    def steps(self) -> int:
        """Steps of all epochs; 0 where a model is installed."""
        plan = self.agreement.plan
        return 0 if not plan.family.spec.trains else plan.epochs * plan.steps_per_epoch(self.agreement.training_rows)

    @property
    def batches(self) -> int:
        """How many batches differ: those of one epoch, where all epochs have the same."""
        plan = self.agreement.plan
        return self.steps if plan.batches == "reshuffled" or not plan.epochs else self.steps // plan.epochs


def forecast(work: Workload, calibration: Calibration, cipher: str) -> Forecast:
    """Foretell a run under a cipher, ``paillier`` or ``plain``; for the first the calibration has its operations."""
    # One core does one thing after the other: as long as that takes is what all cores take together.
    alone = _stages(work, replace(calibration, cores=1, workers=1), cipher)
    together = zip(_stages(work, calibration, cipher), alone, strict=True)
    return Forecast(tuple(replace(stage, processor_seconds=one.seconds) for stage, one in together))


def _stages(work: Workload, calibration: Calibration, cipher: str) -> list[StageForecast]:
    speed = calibration.blinded_id / _BLINDED_ID
    plan = work.agreement.plan
    cells = work.attacked_records * work.passive_features * (len(work.attacks) + len(work.at_the_limit))
    attacking, ids = speed * sum(work.attacks.values()), " and ".join(f"{count:,}" for count in work.ids)
    processes = len(work.ids) + 1
    # The auditor's own counts as well.
    rounds = math.ceil((processes + 1) / calibration.cores)
    stages = [
        StageForecast("starting", speed * _PROCESS_START * rounds, f"{processes} processes"),
        StageForecast("aligning", alignment_seconds(work.ids, calibration), f"{ids} ids"),
    ]
    if work.steps and plan.shares_weights and not plan.family.spec.forwards:
        stages.append(sharing_stage(work.agreement, calibration))
    if work.steps:
        seconds = training_seconds(work, calibration, cipher)
        stages.append(StageForecast("training", seconds, f"{plan.epochs} epochs, {work.steps:,} steps"))
    if work.malicious:
        again = sum(stage.seconds for stage in stages)
        stages.append(StageForecast(MALICIOUS_SESSION, again, f"for {', '.join(work.malicious)}"))
    if work.attacks:
        amount = f"{len(work.attacks)} attacks, {work.attacked_records:,} records"
        stages.append(StageForecast("attacking", attacking, amount))
    if work.at_the_limit:
        trained, amount = (work.sessions - 1) * _CLEAR_SESSION, f"{work.sessions} sessions at the owner's limit"
        seconds = speed * (trained + sum(work.at_the_limit.values()))
        stages.append(StageForecast("further sessions", seconds, amount))
    stages.append(StageForecast("judging", speed * (_REPORT + _JUDGE_PER_CELL * cells), "and the report"))
    return stages


def alignment_seconds(ids: Sequence[int], calibration: Calibration) -> float:
    """Seconds of aligning an active party's table, the first, with each other one in turn.

    A passive party's ids stream to the active party, which keeps pace where there are two cores. Then the active party
    asks for its own, which are answered once all of them are there.
    """
    own, *others = ids
    once, again = calibration.blinded_id, calibration.reblinded_id
    total, remaining = 0.0, own
    for other in others:
        streamed = other * (once if calibration.cores > 1 else once + again)
        total += streamed + remaining * (once + again)
        remaining = min(remaining, other)
    return total


def training_seconds(work: Workload, calibration: Calibration, cipher: str) -> float:
    """Foretell the seconds of all steps and epochs, keys included."""
    speed = calibration.blinded_id / _BLINDED_ID
    peers = len(work.agreement.parties) - 1
    messages = work.steps * peers * _STEP_MESSAGES + work.agreement.plan.epochs * _EPOCH_MESSAGES
    if not spec_of(cipher).is_encrypted:
        return speed * messages
    assert calibration.cipher is not None  # noqa: S101 - whoever asks for ciphertexts has timed it
    keys = calibration.cipher.key * math.ceil((peers + 1) / calibration.cores)
    plan = work.agreement.plan
    of_shares = layer_step_seconds if plan.family.spec.forwards else shared_step_seconds
    of_a_step = of_shares if plan.shares_weights else step_seconds
    step = of_a_step(work.agreement, calibration.cipher, calibration.cores, calibration.workers)
    return speed * messages + keys + work.steps * step


def prediction_seconds(records: int, calibration: Calibration) -> float:
    """Foretell the seconds of scores for so many records, asked for in bulk."""
    return calibration.blinded_id / _BLINDED_ID * records * _PREDICTED_RECORD


def step_seconds(agreement: Agreement, seconds: CipherSeconds, cores: int, workers: int = 1) -> float:
    """Seconds of one step's arithmetic: the busiest party's on its workers, or all parties' on the cores they share."""
    encrypted = replace(agreement, plan=agreement.plan.encrypted())
    formats, rows = CipherFormats(encrypted), agreement.plan.batch_size
    encryptions = formats.residual_ciphertexts(rows) * seconds.encryption
    sends_alone = agreement.plan.family.spec.senders == "active"
    senders = {agreement.active.name} if sends_alone else {party.name for party in agreement.parties}
    busy = [
        (encryptions if party.name in senders else 0.0)
        + len(senders - {party.name})
        * (
            products_of(formats.messages_of(party.name), rows, formats.columns_of(party.name)) * seconds.multiplication
            + formats.sum_ciphertexts(party.name) * seconds.answer
        )
        for party in agreement.parties
    ]
    return _shared_out(busy, cores, workers)


def _shared_out(busy: Sequence[float], cores: int, workers: int) -> float:
    """Seconds until all parties are done, of the seconds of work that each has."""
    return max(max(busy) / min(workers, cores), sum(busy) / cores)


def sharing_stage(agreement: Agreement, calibration: Calibration) -> StageForecast:
    """Foretell what comes before the first step on shared weights: each party encrypts its features, others keep them.

    Raises:
        ValueError: where they don't fit a key or a party's memory.
    """
    assert calibration.cipher is not None  # noqa: S101 - shared weights are never in the clear
    sizes, names = MessageSizes(SharedTerms(agreement)), [party.name for party in agreement.parties]
    try:
        sizes.check()
    except (InvalidMessage, PackingImpossible) as error:
        raise ValueError(str(error)) from error
    made = [sum(sizes.features(kind, name) for kind in (Kind.ROWS, Kind.BLOCKS)) for name in names]
    seconds = _shared_out([one * calibration.cipher.encryption for one in made], calibration.cores, calibration.workers)
    kept = {name: sizes.kept_bytes(name) for name in names}
    most = max(kept, key=lambda name: kept[name])
    megabytes = math.ceil(kept[most] / 1e6)
    amount = f"{sum(made):,} ciphertexts; {most} keeps {megabytes:,} MB of them in memory, nothing on disk"
    return StageForecast("encrypting features", seconds, amount)


def shared_step_seconds(agreement: Agreement, seconds: CipherSeconds, cores: int, workers: int = 1) -> float:
    """``step_seconds`` on shared weights: a party answers about its V of others, and about others' gradients."""
    terms, rows, outputs = SharedTerms(agreement), agreement.plan.batch_size, agreement.residual_columns
    forward, backward = outputs * terms.formats.ring, outputs * terms.formats.residual_bits
    blocks = terms.schedule.blocks_of_step(0)
    busy = []
    for party in agreement.parties:
        held, peers = terms.held_by(party.name), agreement.peers_of(party.name)
        groups = sum(terms.groups(peer.name) for peer in peers)
        products = sum(blocks * product_cost(terms.columns(owner), forward, forward) for owner in held)
        products += groups * product_cost(rows, backward, backward)
        answers = outputs * (blocks * len(held) + groups)
        busy.append(products * seconds.multiplication + answers * seconds.answer)
    return _shared_out(busy, cores, workers)


def layer_step_seconds(agreement: Agreement, seconds: CipherSeconds, cores: int, workers: int = 1) -> float:
    """``step_seconds`` of a first layer on shared weights, where the label party and the others wait for each other.

    Raises ValueError where numbers don't fit a key, or a step's messages are too large.
    """
    terms, rows = LayerTerms(agreement), agreement.plan.batch_size
    try:
        LayerSizes(terms).check()
    except (InvalidMessage, PackingImpossible) as error:
        raise ValueError(str(error)) from error
    forward, backward = terms.forward, terms.backward
    active, passive = backward.pads(rows) * seconds.encryption, list[float]()
    for name in terms.passive:
        columns = terms.columns(name)
        active += forward.pads(columns) * seconds.encryption
        products = product_cost(columns, rows * forward.digits, rows * forward.digits) * len(forward.groups)
        products += product_cost(rows, columns * backward.digits, columns * backward.digits) * len(backward.groups)
        answers = forward.answers(rows) + backward.answers(columns)
        passive.append(products * seconds.multiplication + answers * seconds.answer)
    return max((active + max(passive)) / min(workers, cores), (active + sum(passive)) / cores)
