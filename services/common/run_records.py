"""What a run folder holds, as types: keys of its JSON records and arrays of its .npz files are these fields.

A field whose default is None stands in the file only when there is something to say. All of them are described for
readers of other languages in `docs/reference/run-folder.md`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from services.common import limits
from services.common.agreement import Agreement, TrainingPlan
from services.common.run_files import ArraySpec
from vfl.adversary_words import Conduct, Level
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.data.columns import ROLES, ColumnPlan, EncodedColumn, FeatureKind
from vfl.data.grids import WIDTHS

# Grows when a key or an array changes its name, its type or its meaning.
SCHEMA = 1
# Parts of a training step, in their order: keys of a step's seconds.
STAGES = ("encrypt", "wait", "product", "mask", "decrypt", "update")
_NAMES = ArraySpec("d", "U")
# What an attack's status says.
DONE: Final = "done"
NOT_APPLICABLE: Final = "not applicable"
FAILED: Final = "failed"
AttackStatus = Literal["done", "not applicable", "failed"]

# Of what a file says: no count is negative or beyond 64 bits, and no duration endless.
Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Label = Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"^[^/\\\x00]*$")]


@dataclass(frozen=True)
class StepRecord:
    """What one training step took.

    Attributes:
        step: number of the step, from 0, over all epochs.
        seconds: by stage, see STAGES; a stage that this party doesn't go through is absent. Inline.
    """

    step: Count
    seconds: dict[str, Seconds]


@dataclass(frozen=True)
class EpochRecord:
    """How one epoch went.

    Attributes:
        epoch: number of the epoch, from 0.
        validation_loss: mean log loss over the validation rows, in nats; NaN where the epoch wasn't validated.
        seconds: duration.
    """

    epoch: Count
    validation_loss: float
    seconds: Seconds


@dataclass(frozen=True)
class CalibrationRecord:
    """What became of the calibration of scores that a session's plan asks for.

    Attributes:
        slope: what every party has multiplied its weights by; absent where scores are as trained.
        intercepts: added to the logits, one per class; the active party's, absent where only the slope was fitted.
        loss: mean log loss over the validation rows after it, in nats; the active party's.
        reason: why scores are as trained, a sentence.
    """

    slope: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    intercepts: tuple[float, ...] | None = None
    loss: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class ChannelRecord:
    """The decryption channel of one step towards one peer: what honest answers need, and what they have room for.

    Attributes:
        key_holder: the party that decrypts.
        peer: the party that it answers.
        rows: records of the smallest batch.
        answers: number of decrypted integers.
        answer_bits: bits of all answers together.
        sums: number of honest sums in them.
        sum_bits: bits of one honest sum.
        residual_bits: bits of one residual.
        equations: linear equations about the residuals for which answers have room.
        spare_bits: bits of the answers that honest sums don't use.
        spare_equations: equations beyond the honest ones.
    """

    key_holder: str
    peer: str
    rows: Count
    answers: Count
    answer_bits: Count
    sums: Count
    sum_bits: Count
    residual_bits: Count
    equations: Count
    spare_bits: Count
    spare_equations: Count


@dataclass(frozen=True)
class DefencePrediction:
    """What theory expects of one defence in this session.

    Attributes:
        defence: name of the defence.
        facts: the defence's own numbers, notes and assumptions. Inline.
    """

    defence: str
    facts: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class PartyRecord:
    """What one party says of its session. A party that never began one says its traffic and memory only.

    Attributes:
        schema: version of this format.
        agreement: the session's public terms.
        steps: every training step of this party, in order; after a restart in mid-training those since.
        skipped_steps: numbers of the steps that all parties passed over after an interruption; absent without one.
        interruptions: after which the training went on, by who had this party go back; absent without one.
        warnings: sentences about insecure settings; the active party's.
        simulation: sentences about what is simulated; the active party's.
        class_names: names of the classes, in the order of scores; the active party's.
        transport: ``mtls`` or ``insecure``; the active party's.
        attacks: attacks switched on at this party; the active party's.
        defences: defences that this party applied, in order.
        predictions: what theory expects of them.
        channels: decryption channels of the keys that this party holds.
        guard: sentences about channels with room for too much.
        remarks: sentences about promises of this party's defences that the training didn't keep.
        discloses: whether this party tells its parameters when training has ended; a passive party's, absent from older
            runs.
        epochs: every epoch in order; the active party's.
        kept_epoch: number of the epoch whose weights were kept; the active party's.
        validation_rows: number of validation rows; the active party's.
        calibration: what became of the scores' calibration; absent where the plan doesn't ask for one.
        bytes_by_message: bytes that this party sent and received, by call and message, as serialised.
        peak_memory_bytes: largest resident size of the process.
    """

    schema: int = SCHEMA
    agreement: Agreement | None = None
    steps: tuple[StepRecord, ...] | None = None
    skipped_steps: tuple[Count, ...] | None = None
    interruptions: Mapping[str, Count] | None = None
    warnings: tuple[str, ...] | None = None
    simulation: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None
    transport: str | None = None
    attacks: tuple[str, ...] | None = None
    defences: tuple[str, ...] | None = None
    predictions: tuple[DefencePrediction, ...] | None = None
    channels: tuple[ChannelRecord, ...] | None = None
    guard: tuple[str, ...] | None = None
    remarks: tuple[str, ...] | None = None
    discloses: bool | None = None
    epochs: tuple[EpochRecord, ...] | None = None
    kept_epoch: Count | None = None
    validation_rows: Count | None = None
    calibration: CalibrationRecord | None = None
    bytes_by_message: dict[str, Count]
    peak_memory_bytes: Count

    def check(self) -> None:
        """Raise ValueError, a sentence, where terms can't be or what is said contradicts them."""
        if self.agreement is None:
            return
        self.agreement.check_all()
        if not (self.agreement.plan.batch_size and self.agreement.plan.epochs):
            raise ValueError("Its session has no batch size, or no epochs.")
        if self.class_names is not None and len(self.class_names) != self.agreement.classes:
            raise ValueError(f"It names {len(self.class_names)} classes, and the session has {self.agreement.classes}.")
        if self.kept_epoch and self.kept_epoch >= len(self.epochs or ()):
            raise ValueError("It kept an epoch that wasn't trained.")


@dataclass(frozen=True, kw_only=True)
class PredictionAttackOutcome:
    """How one attack on one batch of predictions went.

    Attributes:
        schema: version of this format.
        attack: label of the attack: its name, with its options where it is mounted several times, and with
            ``knowing=`` the defences that it has taken off what it saw.
        batch: number of the batch, from 0; 0 is the test records.
        records: number of attacked records.
        status: ``done``, ``not applicable`` or ``failed``.
        reason: why it is not done, a sentence.
        level: what its adversary knew beforehand of the passive columns: ``nothing``, ``marginals``, ``covariance`` or
            ``records``; absent from older runs.
        sees_scores: false for a guess that no score or parameter enters; absent from older runs.
        sees_parameters: whether the passive parties' parameters, which they disclosed, entered; absent from older runs.
        notes: what the attack says of how its estimates came about, such as the solver that settled each record.
        sessions: after how many sessions about these records; absent for one.
        seconds: duration.
    """

    schema: int = SCHEMA
    attack: str
    batch: Count
    records: Count
    status: AttackStatus
    reason: str | None = None
    level: Level | None = None
    sees_scores: bool | None = None
    sees_parameters: bool | None = None
    notes: tuple[str, ...] | None = None
    sessions: int | None = None
    seconds: Seconds

    @property
    def is_done(self) -> bool:
        """Whether the attack ran to its end."""
        return self.status == DONE


@dataclass(frozen=True, kw_only=True)
class TrainingAttackOutcome:
    """How one attack on training went.

    Attributes:
        schema: version of this format.
        attack: name of the attack.
        party: name of the party that mounted it.
        kind: what it found, such as ``labels``, ``features`` or ``readings``; only when it is done.
        facts: the attack's own numbers. Inline.
        reason: why it is not done, or found less than it might; a sentence.
        status: ``done``, ``not applicable`` or ``failed``.
        conduct: ``listens``, or which of messages, features and shares it replaces, such as ``replaces_messages``;
            absent from older runs.
        seconds: duration.
    """

    schema: int = SCHEMA
    attack: _Label
    party: _Label
    kind: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    status: AttackStatus
    conduct: Conduct | None = None
    seconds: Seconds

    @property
    def is_done(self) -> bool:
        """Whether the attack ran to its end."""
        return self.status == DONE


@dataclass(frozen=True, eq=False)
class PartyWeights:
    """A party's own part of the trained model.

    Attributes:
        weights: (d, columns) float64, one row per feature; one column for two classes, else one per class.
        features: (d,) names of the features; the active party's bias is the last.
    """

    weights: Annotated[FloatArray, ArraySpec("d columns")]
    features: Annotated[NDArray[np.str_], _NAMES]


@dataclass(frozen=True, eq=False)
class DeliveredScores:
    """``<party>-test-scores.npz``: the active party's test records, as the coordinator scored them.

    Attributes:
        rows: (n,) of the common order.
        scores: (n, classes) confidence scores, as delivered.
        labels: (n,) classes, as indices into ``class_names``.
    """

    rows: Annotated[IntArray, ArraySpec("n", "iu", 0, limits.ALIGNED_ROWS)]
    scores: Annotated[FloatArray, ArraySpec("n classes")]
    labels: Annotated[IntArray, ArraySpec("n", "iu", 0, limits.CLASSES)]


@dataclass(frozen=True, eq=False)
class PartyFeatures:
    """A party's own encoded table, for an auditor: rows are the aligned records in the common order.

    Attributes:
        features: (n, d) float64.
        names: (d,) names of the features.
        labels: (n,) classes as indices, -1 of a record without a label; the active party's.
        sources: (d,) the column of the party's own table that each feature is of; absent from older runs.
        kinds: (d,) what each tells of it, see ``vfl.data.columns.FeatureKind``; likewise.
        offsets: (d,) float64: the source's value is ``offsets + scales * features``; likewise.
        scales: (d,) float64; NaN where a feature has no unit; likewise.
        widths: (d,) how many digits each has in encrypted products: ``binary``, ``byte`` or ``full``; likewise.
        steps: (d,) float64: each feature is a whole number times its step; likewise.
        roles: (d,) what its owner says of each one's column, see ``vfl.data.columns.ColumnRole``; likewise.
        dropped: (k,) names of the table's columns that became no feature; likewise.
    """

    features: Annotated[FloatArray, ArraySpec("n d", most=2.0**limits.FEATURE_INTEGER_BITS)]
    names: Annotated[NDArray[np.str_], _NAMES]
    labels: Annotated[IntArray, ArraySpec("n", "iu", -1, limits.CLASSES)] | None = None
    sources: Annotated[NDArray[np.str_], _NAMES] | None = None
    kinds: Annotated[NDArray[np.str_], ArraySpec("d", "U", words=get_args(FeatureKind))] | None = None
    offsets: Annotated[FloatArray, ArraySpec("d")] | None = None
    scales: Annotated[FloatArray, ArraySpec("d", gaps=True)] | None = None
    widths: Annotated[NDArray[np.str_], ArraySpec("d", "U", words=WIDTHS)] | None = None
    steps: Annotated[FloatArray, ArraySpec("d", gaps=True)] | None = None
    roles: Annotated[NDArray[np.str_], ArraySpec("d", "U", words=ROLES)] | None = None
    dropped: Annotated[NDArray[np.str_], ArraySpec("k", "U")] | None = None

    @classmethod
    def of(
        cls, features: FloatArray, columns: Sequence[EncodedColumn], plans: Sequence[ColumnPlan], **more: Any
    ) -> "PartyFeatures":
        """Describe (n, d) features by their columns and by what became of the table's; ``more``: the other fields."""
        roles = {plan.name: plan.role for plan in plans}
        return cls(
            features,
            np.array([one.name for one in columns], dtype=np.str_),
            sources=np.array([one.source for one in columns]),
            kinds=np.array([one.kind for one in columns]),
            offsets=np.array([one.offset for one in columns], dtype=np.float64),
            scales=np.array([one.scale for one in columns], dtype=np.float64),
            roles=np.array([roles.get(one.source, "") for one in columns], dtype=np.str_),
            dropped=np.array([plan.name for plan in plans if plan.encoding == "drop"], dtype=np.str_),
            **more,
        )


@dataclass(frozen=True, eq=False)
class Estimates:
    """What attacks reconstructed from one batch of predictions.

    Attributes:
        rows: (n,) attacked records, as rows of the common order.
        by_attack: (n, d) estimates of the passive parties' features, by the attack's label; one array each. Beside
            an attack's own may stand ``low: <label>`` and ``high: <label>``, the ends of a 90 % interval of each cell,
            ``densest: <label>``, where each cell most likely is, and ``withheld: <label>``, what it would estimate had
            it seen no score.
        auxiliary_rows: (t,) records that the adversary holds in full, as rows of the common order; none is attacked.
    """

    rows: IntArray
    by_attack: dict[str, FloatArray]
    auxiliary_rows: IntArray | None = None


@dataclass(frozen=True, eq=False)
class FoundLabels:
    """What an attack of the kind ``labels`` found.

    Attributes:
        labels: (n,) a class index per record of the common order; -1 without an answer.
        step_epoch: (m,) epoch of each answer that a step gave.
        step_rows: (m,) its record, as a row of the common order.
        step_labels: (m,) its label; -1 without an answer.
        guaranteed: (n,) whether the label is certain; absent where the attack doesn't say.
        probabilities: (n, k) how likely each class is to the attack, NaN where it says nothing; likewise.
        known: (t,) records whose labels the adversary knew beforehand; absent for none.
    """

    labels: Annotated[IntArray, ArraySpec("n", "iu", -1, limits.CLASSES)]
    step_epoch: Annotated[IntArray, ArraySpec("m", "iu", 0, limits.EPOCHS)]
    step_rows: Annotated[IntArray, ArraySpec("m", "iu", 0, limits.ALIGNED_ROWS)]
    step_labels: Annotated[IntArray, ArraySpec("m", "iu", -1, limits.CLASSES)]
    guaranteed: Annotated[BoolArray, ArraySpec("n", "b")] | None = None
    probabilities: Annotated[FloatArray, ArraySpec("n k", least=0, most=1, gaps=True)] | None = None
    known: Annotated[IntArray, ArraySpec("t", "iu", 0, limits.ALIGNED_ROWS)] | None = None

    @property
    def judged_rows(self) -> IntArray:
        """The records that training told of, as rows of the common order, but for those known beforehand."""
        rows: IntArray = np.unique(self.step_rows)
        return rows if self.known is None else np.setdiff1d(rows, self.known)


@dataclass(frozen=True, eq=False)
class FoundTrigger:
    """What an attack of the kind ``backdoor`` has planted.

    Attributes:
        column: (1,) the party's column that holds the trigger, counted as columns travel.
        trigger: (1,) the whole number that means the class, in steps of the column.
        rows: (m,) the known records of the class, as rows of the common order.
    """

    column: Annotated[IntArray, ArraySpec("one", "iu", 0, limits.FEATURES)]
    trigger: Annotated[FloatArray, ArraySpec("one", least=-limits.LARGEST_SHARE, most=limits.LARGEST_SHARE)]
    rows: Annotated[IntArray, ArraySpec("m", "iu", 0, limits.ALIGNED_ROWS)]


@dataclass(frozen=True, eq=False)
class FoundValues:
    """What an attack of the kind ``features``, ``readings``, ``estimates`` or ``products`` found of one peer.

    Attributes:
        values: ``features``: (n,) one column in the common order, up to sign, NaN without an answer. ``readings``:
            (m, d) rows of the peer's features. ``estimates``: likewise, as they are believed. ``products``: (n,
            columns), the peer's part of the logits.
        rows: ``readings``, ``estimates``: (m,) which records, as rows of the common order.
        guesses: ``estimates``: (m, d), what is guessed of them without the federation.
    """

    values: FloatArray
    rows: IntArray | None = None
    guesses: FloatArray | None = None


# A mapping whose entries stand beside the other keys of its record.
INLINE: dict[type, str] = {
    TrainingPlan: "learner_options",
    StepRecord: "seconds",
    DefencePrediction: "facts",
    TrainingAttackOutcome: "facts",
}


def content_of(value: Any) -> Any:
    """Write a value as JSON stores it: dataclasses as objects, inline mappings among their keys, absent ones not."""
    if is_dataclass(value) and not isinstance(value, type):
        content: dict[str, Any] = {}
        for one in fields(value):
            held = getattr(value, one.name)
            if one.name == INLINE.get(type(value)):
                content |= content_of(held)
            elif held is not None or one.default is not None:
                content[one.name] = content_of(held)
        return content
    if isinstance(value, Mapping):
        return {key: content_of(held) for key, held in value.items()}
    return [content_of(one) for one in value] if isinstance(value, list | tuple) else value


def gathered(kind: type[Any], content: Any) -> Any:
    """Undo ``content_of`` for a class with an inline mapping."""
    inline = INLINE.get(kind)
    if inline is None or not isinstance(content, dict):
        return content
    own = {one.name for one in fields(kind)} - {inline}
    return {key: content[key] for key in content if key in own} | {
        inline: {key: content[key] for key in content if key not in own}
    }
