"""How long an audit will take: arithmetic on what single operations cost here, and how many a run has.

The operations of Protocol 1 and of the alignment are counted. What costs Python and messages more than arithmetic is
measured once and scaled by this machine's speed. ``docs/how-to/how-long.md`` compares forecasts with runs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from plumbline.audit.planning.calibration import Calibration, CipherSeconds, products_of
from services.common.agreement import Agreement
from services.protocol1.formats import CipherFormats
from vfl.crypto.ciphers import spec_of

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
        return 0 if plan.installed_model else plan.epochs * -(-self.agreement.training_rows // plan.batch_size)


def forecast(work: Workload, calibration: Calibration, cipher: str) -> Forecast:
    """Foretell a run under a cipher, ``paillier`` or ``plain``; for the first the calibration has its operations."""
    speed = calibration.blinded_id / _REFERENCE_ID
    plan = work.agreement.plan
    cells = work.attacked_records * work.passive_features * (len(work.attacks) + len(work.at_the_limit))
    attacking = speed * sum(work.attacks.values())
    stages = [
        StageForecast("starting", speed * _PROCESS_START, f"{len(work.ids) + 1} processes"),
        StageForecast("aligning", alignment_seconds(work.ids, calibration), _amount_of_ids(work.ids)),
    ]
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
    step = step_seconds(work.agreement, calibration.cipher, calibration.cores, calibration.workers)
    return speed * messages + keys + work.steps * step


def prediction_seconds(records: int, calibration: Calibration) -> float:
    """Seconds of scores for so many records, asked for in bulk."""
    return calibration.blinded_id / _REFERENCE_ID * records * _PREDICTED_RECORD


def step_seconds(agreement: Agreement, seconds: CipherSeconds, cores: int, workers: int = 1) -> float:
    """Seconds of one step's arithmetic: the busiest party's on its workers, or all parties' on the cores they share."""
    encrypted = replace(agreement, plan=agreement.plan.encrypted())
    formats, rows = CipherFormats(encrypted), agreement.plan.batch_size
    encryptions = formats.residual_ciphertexts(rows) * seconds.encryption
    peers = len(agreement.parties) - 1
    busy = [
        encryptions
        + peers
        * (
            products_of(formats.messages_of(party.name), rows, formats.columns_of(party.name)) * seconds.multiplication
            + formats.sum_ciphertexts(party.name) * seconds.answer
        )
        for party in agreement.parties
    ]
    return max(max(busy) / min(workers, cores), sum(busy) / cores)


def _amount_of_ids(ids: Sequence[int]) -> str:
    return " and ".join(f"{count:,}" for count in ids) + " ids"
