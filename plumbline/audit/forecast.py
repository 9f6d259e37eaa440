"""How long an audit will take: how many operations a run has, times what each costs on a usual processor.

Nothing is timed, so that the same tables have the same plan, however busy the machine is. The operations of the
protocols and of the alignment are counted; what costs Python and messages more than arithmetic was measured once.
``python -m scripts.forecast_check`` compares forecasts with runs, and ``docs/how-to/how-long.md`` has what came out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from plumbline.telling.numbers import span_words
from services.common.agreement import Agreement
from services.common.costs import Cost, Operations
from services.common.errors import InvalidMessage
from vfl.cores import available_cores
from vfl.crypto import PackingImpossible
from vfl.crypto.ciphers import spec_of
from vfl.crypto.kernels import best_kernel
from vfl.crypto.kernels.counts import DECRYPT_PRODUCTS, ENCRYPT_PRODUCTS, RERANDOMISE_PRODUCTS

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
    if work.steps:
        if spec_of(cipher).is_encrypted and (cost := cost_of(work.agreement)).before:
            stages.append(_before_steps(cost, calibration))
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
    active_ids, *passive_ids = ids
    once, again = calibration.blinded_id, calibration.reblinded_id
    total, remaining = 0.0, active_ids
    for other in passive_ids:
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
    step = step_seconds(cost_of(work.agreement), calibration.cipher, calibration.cores, calibration.workers)
    return speed * messages + keys + work.steps * step


def prediction_seconds(records: int, calibration: Calibration) -> float:
    """Foretell the seconds of scores for so many records, asked for in bulk."""
    return calibration.blinded_id / _BLINDED_ID * records * _PREDICTED_RECORD


def step_seconds(cost: Cost, seconds: CipherSeconds, cores: int, workers: int = 1) -> float:
    """Seconds of one step's arithmetic: the busiest party's on its workers, or all parties' on the cores they share."""
    busy = {name: _seconds(one, seconds) for name, one in cost.of_step.items()}
    if (first := busy.pop(cost.awaited, None)) is None:
        return _shared_out([*busy.values()], cores, workers)
    return max((first + max(busy.values())) / min(workers, cores), (first + sum(busy.values())) / cores)


def _seconds(work: Operations, seconds: CipherSeconds) -> float:
    return (
        work.encryptions * seconds.encryption
        + work.multiplications * seconds.multiplication
        + work.answers * seconds.answer
    )


def _shared_out(busy: Sequence[float], cores: int, workers: int) -> float:
    """Seconds until all parties are done, of the seconds of work that each has."""
    return max(max(busy) / min(workers, cores), sum(busy) / cores)


def cost_of(agreement: Agreement) -> Cost:
    """Count what a training computes; raises ValueError where it doesn't fit a key, a message or a memory."""
    try:
        return agreement.plan.training.cost(agreement)
    except (InvalidMessage, PackingImpossible) as error:
        raise ValueError(str(error)) from error


def _before_steps(cost: Cost, calibration: Calibration) -> StageForecast:
    """Foretell what comes before the first step: each party encrypts its features, and others keep them."""
    assert calibration.cipher is not None  # noqa: S101 - who encrypts features trains under a cipher
    cipher = calibration.cipher
    busy = [_seconds(work, cipher) for work in cost.before.values()]
    most = max(cost.kept_bytes, key=lambda name: cost.kept_bytes[name])
    count, megabytes = sum(work.encryptions for work in cost.before.values()), math.ceil(cost.kept_bytes[most] / 1e6)
    amount = f"{count:,} ciphertexts; {most} keeps {megabytes:,} MB of them in memory, nothing on disk"
    return StageForecast("encrypting features", _shared_out(busy, calibration.cores, calibration.workers), amount)
