"""How long an audit will take: arithmetic on what single operations cost here, and how many a run has.

The operations of Protocol 1 and of the alignment are counted. What costs Python and messages more than arithmetic is
measured once and scaled by this machine's speed. ``docs/how-to/how-long.md`` compares forecasts with runs.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from services.common.agreement import Agreement
from services.common.errors import InvalidMessage
from services.protocol1.arithmetic import Arithmetic, EngineArithmetic
from services.protocol1.formats import CipherFormats
from services.shared_layer.layer_messages import LayerSizes
from services.shared_layer.layer_terms import LayerTerms
from services.shared_weights.share_messages import Kind, MessageSizes
from services.shared_weights.shared_terms import SharedTerms
from vfl.arrays import FloatArray
from vfl.cores import available_cores
from vfl.crypto import CipherVector, PackingImpossible, PackingLayout, ciphertext_count, decrypt_integers
from vfl.crypto.ciphers import spec_of
from vfl.crypto.kernels.counts import product_cost
from vfl.crypto.messages import MessageFormats, Messages
from vfl.crypto.widths import ColumnFormats, ColumnWidths
from vfl.data import PsiClient, PsiServer

_IDS = 128
# Encryptions that are timed; a batch repeats their ciphertexts.
_ENCRYPTIONS = 16
# Of a product that is timed: enough that what is beside modular products doesn't count.
_ROWS, _COLUMNS = 256, 24

T = TypeVar("T")


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
    """Seconds of single operations on this machine.

    Attributes:
        blinded_id: to map an id to the curve and put a key on it.
        reblinded_id: to put a second key on it.
        cores: that processes can share.
        cipher: of operations under Paillier; None where no session would use it.
        workers: cores that one party's work goes over.
    """

    blinded_id: float
    reblinded_id: float
    cores: int
    cipher: CipherSeconds | None = None
    workers: int = 1


def calibrate(
    agreement: Agreement,
    *,
    with_cipher: bool = True,
    arithmetic: Arithmetic | None = None,
    workers: int | None = None,
) -> Calibration:
    """Time the operations of a session of these terms.

    Args:
        agreement: the terms, with a batch size.
        with_cipher: whether to time Paillier as well.
        arithmetic: what computes ciphertexts; by default the best kernel there is.
        workers: cores that a party is given; None for all there are.

    Raises:
        ValueError: for terms that no ciphertext fits.
    """
    blinded, reblinded = _seconds_per_id()
    cores = available_cores()
    calibration = Calibration(blinded, reblinded, cores, workers=min(workers or cores, cores))
    if not with_cipher:
        return calibration
    return replace(calibration, cipher=_cipher_seconds(agreement, arithmetic or EngineArithmetic()))


def products_of(formats: MessageFormats, rows: int, columns: ColumnFormats) -> int:
    """Count the modular products of encrypted residuals of so many rows and columns of these formats."""
    layout = formats.layout
    if layout is None:
        return formats.columns * product_cost(rows, columns.digits, columns.digits)
    horner_bits = sum(bits * count for bits, count in layout.fillings(columns))
    return product_cost(layout.ciphertexts_for(rows), columns.digits * layout.rows_per_ciphertext, horner_bits)


def _seconds_per_id() -> tuple[float, float]:
    ids = [f"calibration-{number}" for number in range(_IDS)]
    client, server = PsiClient(ids, "calibration"), PsiServer(ids, "calibration")
    setup = server.setup(_IDS)
    blinded, chunks = _timed(lambda: list(setup.chunks))
    reblinded, _ = _timed(lambda: client.receive_setup(replace(setup, chunks=chunks)))
    return blinded / _IDS, reblinded / _IDS


def _cipher_seconds(agreement: Agreement, arithmetic: Arithmetic) -> CipherSeconds:
    """One exchange of the active party with a passive one, by itself, of a few ciphertexts and columns."""
    me, peer = agreement.parties[0], agreement.parties[1]
    rows, columns = min(agreement.plan.batch_size, _ROWS), agreement.residual_columns
    formats = replace(CipherFormats(agreement).messages_of(me.name), widths=_few(me.widths))
    key, private_key = _timed(lambda: arithmetic.new_key(agreement.plan.key_bits))
    messages = arithmetic.messages(formats, private_key)
    messages.encrypt(0, np.zeros((1, columns)))  # builds the owner's tables: once per key
    encryption, residuals = _some_residuals(messages, formats.layout, rows, columns)
    features = _features(formats.own, rows)
    product, combination = _timed(lambda: messages.combine(0, peer.name, features, residuals))
    answers = len(combination.encrypted.ciphertexts)
    mask, question = _timed(lambda: messages.mask(0, peer.name, combination))
    decrypt, _ = _timed(lambda: decrypt_integers(private_key, question.masked))
    multiplication = product / products_of(formats, rows, formats.own)
    return CipherSeconds(key, encryption, multiplication, (mask + decrypt) / answers)


def _few(widths: ColumnWidths) -> ColumnWidths:
    """Some columns of every width that there is."""
    return ColumnWidths(*(min(count, _COLUMNS) for count in (widths.binary, widths.byte, widths.full)))


def _some_residuals(
    messages: Messages, layout: PackingLayout | None, rows: int, columns: int
) -> tuple[float, CipherVector]:
    """Seconds per encryption, and a batch whose ciphertexts repeat the few that were timed."""
    count = ciphertext_count((rows, columns), layout)
    per_row = max(count / rows, 1 / rows)
    few = min(rows, max(1, round(_ENCRYPTIONS / per_row)))
    draw = np.random.default_rng(1)
    seconds, some = _timed(lambda: messages.encrypt(0, draw.uniform(-1, 1, (few, columns))))
    repeated = tuple(some.ciphertexts[index % len(some.ciphertexts)] for index in range(count))
    return seconds / len(some.ciphertexts), replace(some, ciphertexts=repeated, shape=(rows, columns))


def _features(columns: ColumnFormats, rows: int) -> FloatArray:
    """Whole numbers of every column's format."""
    draw = np.random.default_rng(2)
    made = [draw.integers(-one.offset, one.bound + 1, size=rows) for one in columns.each()]
    return np.stack(made, axis=1).astype(np.float64)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


# What follows was measured where an id was blinded in this time: a slower machine takes longer by as much.
_REFERENCE_ID = 55e-6
_PROCESS_START = 3.0
_STEP_MESSAGES = 0.006
_EPOCH_MESSAGES = 0.04
_JUDGE_PER_CELL = 6e-6
_REPORT = 4.0
_PREDICTED_RECORD = 8e-6
_CLEAR_SESSION = 0.03


@dataclass(frozen=True)
class StageForecast:
    """One stage of a run.

    Attributes:
        name: what happens.
        seconds: how long it will take.
        amount: how much of it there is, in words.
    """

    name: str
    seconds: float
    amount: str


@dataclass(frozen=True)
class Forecast:
    """How long a run will take.

    Attributes:
        stages: in their order.
    """

    stages: tuple[StageForecast, ...]

    @property
    def seconds(self) -> float:
        """Of the whole run."""
        return sum(stage.seconds for stage in self.stages)


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
    """

    agreement: Agreement
    ids: tuple[int, ...]
    attacks: Mapping[str, float]
    attacked_records: int
    passive_features: int
    sessions: int = 1
    at_the_limit: Mapping[str, float] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Steps of all epochs; 0 where a model is installed."""
        plan = self.agreement.plan
        return 0 if not plan.family.spec.trains else plan.epochs * -(-self.agreement.training_rows // plan.batch_size)

    @property
    def batches(self) -> int:
        """How many batches differ: those of one epoch, where all epochs have the same."""
        plan = self.agreement.plan
        return self.steps if plan.batches == "reshuffled" or not plan.epochs else self.steps // plan.epochs


def forecast(work: Workload, calibration: Calibration, cipher: str) -> Forecast:
    """Foretell a run under a cipher, ``paillier`` or ``plain``; for the first the calibration has its operations."""
    speed = calibration.blinded_id / _REFERENCE_ID
    plan = work.agreement.plan
    cells = work.attacked_records * work.passive_features * (len(work.attacks) + len(work.at_the_limit))
    attacking, ids = speed * sum(work.attacks.values()), " and ".join(f"{count:,}" for count in work.ids)
    stages = [
        StageForecast("starting", speed * _PROCESS_START, f"{len(work.ids) + 1} processes"),
        StageForecast("aligning", alignment_seconds(work.ids, calibration), f"{ids} ids"),
    ]
    if work.steps and plan.shares_weights and not plan.family.spec.forwards:
        stages.append(sharing_stage(work.agreement, calibration))
    if work.steps:
        seconds = training_seconds(work, calibration, cipher)
        stages.append(StageForecast("training", seconds, f"{plan.epochs} epochs, {work.steps:,} steps"))
    if work.attacks:
        amount = f"{len(work.attacks)} attacks, {work.attacked_records:,} records"
        stages.append(StageForecast("attacking", attacking, amount))
    if work.at_the_limit:
        trained, amount = (work.sessions - 1) * _CLEAR_SESSION, f"{work.sessions} sessions at the owner's limit"
        seconds = speed * (trained + sum(work.at_the_limit.values()))
        stages.append(StageForecast("further sessions", seconds, amount))
    stages.append(StageForecast("judging", speed * (_REPORT + _JUDGE_PER_CELL * cells), "and the report"))
    return Forecast(tuple(stages))


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
    """Seconds of all steps and epochs, keys included."""
    speed = calibration.blinded_id / _REFERENCE_ID
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
    """Seconds of scores for so many records, asked for in bulk."""
    return calibration.blinded_id / _REFERENCE_ID * records * _PREDICTED_RECORD


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
    """What comes before the first step on shared weights: each party encrypts its features once, others keep them.

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
