"""``plumbline bench --estimate``: how long a federation of tables of such sizes takes, by the audit's own forecast."""

from dataclasses import dataclass, replace

from plumbline.audit.forecast import (
    Calibration,
    Workload,
    alignment_seconds,
    cost_of,
    prediction_seconds,
    step_seconds,
    training_seconds,
)
from plumbline.recipe import party_names
from services.ciphers.arithmetic import EngineArithmetic
from services.ciphers.default_plan import with_open_terms
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from studies.speed.timed_operations import timed_calibration
from vfl.crypto.engine import Engine
from vfl.crypto.kernels import kernel_named

# Nobody opens this session: its terms are only counted.
_NO_SESSION = "0" * 32


@dataclass(frozen=True)
class EstimateAsked:
    """Tables that nobody has to have.

    Attributes:
        rows: records of every party.
        columns: features of all parties together, dealt out evenly.
        one_hot: share of them that are 0 or 1.
        byte: share of them that are whole numbers from 0 to 255.
        parties: how many.
        classes: of the labels.
        batch: rows of a batch; 0 for as many as a session takes by itself.
        epochs: of the training; 0 for as many as a session takes by itself.
        key_bits: length of the moduli.
        kernel: auto, native or portable.
        workers: cores of each party; None for all there are.

    Raises:
        ValueError: for tables that nobody can have.
    """

    rows: int
    columns: int
    one_hot: float = 0.0
    byte: float = 0.0
    parties: int = 2
    classes: int = 2
    batch: int = 0
    epochs: int = 0
    key_bits: int = 2048
    kernel: str = "auto"
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.rows < 10:
            raise ValueError(f"Expected at least 10 rows, got {self.rows}.")
        if self.columns < self.parties:
            raise ValueError(f"Expected at least a column for each of the {self.parties} parties, got {self.columns}.")
        if min(self.one_hot, self.byte) < 0 or self.one_hot + self.byte > 1:
            raise ValueError(
                f"Shares of columns are 1 together at most, got {self.one_hot:g} one-hot and {self.byte:g} byte."
            )

    @property
    def agreement(self) -> Agreement:
        """The terms of a session about such tables."""
        plan = TrainingPlan(self.epochs, self.batch, key_bits=self.key_bits, learner_options={"steps": "own_moments"})
        names = party_names(self.parties)
        parties = tuple(self._party(name, number) for number, name in enumerate(names))
        return with_open_terms(Agreement(_NO_SESSION, plan, self.classes, parties))

    def _party(self, name: str, number: int) -> PartyDescription:
        own = self.columns // self.parties + (number < self.columns % self.parties)
        binary, byte = round(own * self.one_hot), round(own * self.byte)
        return PartyDescription(
            name=name,
            # The active party's constant is a column of 0 and 1.
            feature_count=own + (number == 0),
            feature_integer_bits=1,
            features_signed=False,
            aligned_rows=self.rows,
            truncates_answers=True,
            binary_features=min(binary, own) + (number == 0),
            byte_features=min(byte, own - min(binary, own)),
        )


@dataclass(frozen=True)
class Estimate:
    """Seconds that a federation takes here.

    Attributes:
        rows: records.
        columns: features of all parties together.
        batch: rows of a batch.
        steps: of an epoch.
        alignment: of the tables.
        step: of one batch.
        epoch: of all batches.
        training: of all epochs, keys included.
        prediction: of scores for all records, in bulk.
        kernel: what computes.
        cores: that the parties share.
        workers: of each party.
    """

    rows: int
    columns: int
    batch: int
    steps: int
    alignment: float
    step: float
    epoch: float
    training: float
    prediction: float
    kernel: str
    cores: int
    workers: int


def estimate(asked: EstimateAsked) -> Estimate:
    """Foretell a federation after timing this machine for about a second. Raises ValueError for what can't work."""
    arithmetic = EngineArithmetic(Engine(kernel_named(asked.kernel)))
    agreement = asked.agreement
    calibration = timed_calibration(agreement, arithmetic, asked.workers)
    return estimated(asked, agreement, calibration, arithmetic.engine.kernel.name)


def estimated(asked: EstimateAsked, agreement: Agreement, calibration: Calibration, kernel: str) -> Estimate:
    """Foretell a federation by what single operations cost."""
    work = Workload(agreement, tuple(party.aligned_rows for party in agreement.parties), {}, 0, 0)
    steps, training = work.steps // agreement.plan.epochs, training_seconds(work, calibration, "paillier")
    assert calibration.cipher is not None  # noqa: S101 - it was asked for
    return Estimate(
        rows=asked.rows,
        columns=asked.columns,
        batch=agreement.plan.batch_size,
        steps=steps,
        alignment=alignment_seconds(work.ids, calibration),
        step=step_seconds(cost_of(agreement), calibration.cipher, calibration.cores, calibration.workers),
        epoch=(training - _keys(work, calibration)) / agreement.plan.epochs,
        training=training,
        prediction=prediction_seconds(asked.rows, calibration),
        kernel=kernel,
        cores=calibration.cores,
        workers=calibration.workers,
    )


def _keys(work: Workload, calibration: Calibration) -> float:
    """Seconds of a training of no epoch: of its keys."""
    agreement = replace(work.agreement, plan=replace(work.agreement.plan, epochs=0))
    return training_seconds(replace(work, agreement=agreement), calibration, "paillier")
