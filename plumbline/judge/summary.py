"""What a run amounts to, computed from the records that each party wrote: quality, time by stage, bytes by message."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plumbline.telling.numbers import percent
from services.common.agreement import Agreement, PartyDescription
from services.common.identity import Role
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.run_records import (
    STAGES,
    CalibrationRecord,
    ChannelRecord,
    DefencePrediction,
    EpochRecord,
    PartyRecord,
    StepRecord,
)
from vfl.data.faults import counted
from vfl.learning.score_quality import FEW_POSITIVES, accuracy, area_under_curve, area_words

# Of an area under the ROC curve, what scores at random have.
_BY_CHANCE = 0.5


@dataclass(frozen=True)
class PartyTiming:
    """How long one party's training steps took.

    Attributes:
        name: the party's name.
        seconds: mean over all steps, by stage.
        pace: median time of the last quarter of steps over that of the first quarter; 1 is constant.
        peak_memory_bytes: largest resident size of the party's process.
    """

    name: str
    seconds: dict[str, float]
    pace: float
    peak_memory_bytes: int

    @property
    def total(self) -> float:
        """Seconds per step."""
        return sum(self.seconds.values())


@dataclass(frozen=True)
class RunSummary:
    """Results of one run.

    Attributes:
        name: name of the run.
        aligned_rows: records that all parties have.
        test_rows: number of test records.
        accuracy: share of test records whose largest score is their class; NaN without test records.
        auc: area under the ROC curve over test records; NaN when a class is absent.
        majority: share of the largest class among test records.
        epochs: every trained epoch, in order; none for an installed model.
        kept_epoch: the epoch whose weights were kept, from 0.
        steps: number of training steps.
        timings: one per party that trained.
        bytes_by_message: bytes by call and message over all parties, largest first.
        agreement: the session's public terms.
        class_names: names of the classes, in the order of scores.
        warnings: sentences about insecure settings, answers with room for too much, and promises not kept.
        simulation: sentences about what is simulated.
        transport: ``mtls`` or ``insecure``.
        defences: names of the applied defences, by service.
        channels: every decryption channel of a step.
        predictions: what theory expects of defences, by party.
        calibration: what became of the scores' calibration; None where the plan doesn't ask for one.
        tested_by_class: test records of each class.
    """

    name: str
    aligned_rows: int
    test_rows: int
    accuracy: float
    auc: float
    majority: float
    epochs: tuple[EpochRecord, ...]
    kept_epoch: int
    steps: int
    timings: tuple[PartyTiming, ...]
    bytes_by_message: dict[str, int]
    agreement: Agreement
    class_names: tuple[str, ...]
    warnings: tuple[str, ...]
    simulation: tuple[str, ...]
    transport: str
    defences: dict[str, tuple[str, ...]]
    channels: tuple[ChannelRecord, ...]
    predictions: dict[str, tuple[DefencePrediction, ...]]
    calibration: CalibrationRecord | None = None
    tested_by_class: tuple[int, ...] = ()

    @property
    def area_words(self) -> str:
        """The area under the ROC curve, with its interval and the records that carry it."""
        return area_words(self.auc, self.tested_by_class)

    @property
    def quality_notes(self) -> tuple[str, ...]:
        """Sentences on a model that is of no use, and on figures that a few records carry."""
        fewest = min(self.tested_by_class, default=0)
        notes = []
        if self.test_rows and not fewest:
            notes.append("The test records are of one class, or lack one: no AUC was measured. Test more of them.")
        elif self.test_rows and fewest < FEW_POSITIVES:
            notes.append(f"Test AUC {self.area_words}: so few carry it that it says little. Test more of them.")
        if self.test_rows and self.accuracy < self.majority:
            notes.append(
                f"The model labels {percent(self.accuracy, 1)} of the test records right, and who always says the "
                f"largest class {percent(self.majority, 1)}: as it stands, it is of no use for labels."
            )
        if fewest and self.auc < _BY_CHANCE:
            notes.append(
                f"The test AUC is {self.auc:.2f}, below 1/2: scores order the classes the wrong way round. Train "
                "longer, or check the label."
            )
        return tuple(notes)

    @property
    def parties(self) -> tuple[PartyDescription, ...]:
        """What the agreement says of each party; the active one is first."""
        return self.agreement.parties

    @property
    def total_bytes(self) -> int:
        """Bytes of all messages."""
        return sum(self.bytes_by_message.values())

    @property
    def epoch_seconds(self) -> float:
        """Mean seconds per epoch."""
        return float(np.mean([epoch.seconds for epoch in self.epochs])) if self.epochs else 0.0


def read_summary(folder: RunFolder, name: str) -> RunSummary:
    """Compute a run's results from all parties' records; ``name`` is the run's.

    Raises RunFolderError when the active party's record is missing or broken, or tells of no session.
    """
    active, records = folder.record(Role.ACTIVE), folder.records()
    if active.agreement is None:
        raise RunFolderError(
            f"The active party's record in {folder.path} tells of no session: none began. "
            "See that party's log for why, and run it again."
        )
    traffic: Counter[str] = Counter()
    for record in records.values():
        traffic.update(record.bytes_by_message)
    tested = folder.delivered_scores(active.agreement)
    labels, scores = tested.labels, tested.scores
    return RunSummary(
        name=name,
        aligned_rows=active.agreement.active.aligned_rows,
        test_rows=len(labels),
        accuracy=accuracy(scores, labels),
        auc=area_under_curve(scores, labels),
        majority=float(np.bincount(labels).max() / len(labels)) if len(labels) else float("nan"),
        epochs=active.epochs or (),
        kept_epoch=active.kept_epoch or 0,
        steps=len(active.steps or ()),
        timings=tuple(_timing(party, record, record.steps) for party, record in records.items() if record.steps),
        bytes_by_message={message: size for message, size in traffic.most_common() if size},
        agreement=active.agreement,
        class_names=active.class_names or (),
        # Also what answers have room for, and by the party that says it which of a defence's promises weren't kept.
        warnings=(
            *(active.warnings or ()),
            *(text for record in records.values() for text in record.guard or ()),
            *(f"{name}: {text}" for name, record in records.items() for text in record.remarks or ()),
        ),
        simulation=active.simulation or (),
        transport=active.transport or "",
        defences=_defences(active.agreement, records),
        predictions={name: record.predictions for name, record in records.items() if record.predictions},
        channels=tuple(channel for record in records.values() for channel in record.channels or ()),
        calibration=active.calibration,
        tested_by_class=tuple(np.bincount(labels, minlength=active.agreement.classes).tolist()),
    )


def expectations(prediction: DefencePrediction) -> list[tuple[str, str]]:
    """Put the numbers of a defence's prediction in words, one level deep: (what, value)."""
    numbers = []
    for key, value in prediction.facts.items():
        inner = value if isinstance(value, dict) else {key: value}
        numbers += [
            (name.replace("_", " "), f"{number:.4g}")
            for name, number in inner.items()
            # A whole number may be beyond what can be written as a fraction.
            if isinstance(number, float) or (type(number) is int and abs(number) < 1 << 1_000)
        ]
    return numbers


def assumptions(prediction: DefencePrediction) -> list[str]:
    """List sentences that a prediction rests on, wherever in it; first, what doesn't hold in this session."""
    inner = [value for value in prediction.facts.values() if isinstance(value, dict)]
    notes = [prediction.facts["note"]] if prediction.facts.get("note") else []
    return [*notes, *(text for part in (prediction.facts, *inner) for text in part.get("assumptions", ()))]


def _defences(agreement: Agreement, records: dict[str, PartyRecord]) -> dict[str, tuple[str, ...]]:
    """List what each service applied, where it applied anything."""
    applied = {str(Role.COORDINATOR): agreement.score_defences}
    applied |= {name: record.defences or () for name, record in records.items()}
    return {name: names for name, names in applied.items() if names}


def _timing(name: str, record: PartyRecord, steps: Sequence[StepRecord]) -> PartyTiming:
    seconds = {stage: float(np.mean([step.seconds.get(stage, 0.0) for step in steps])) for stage in STAGES}
    totals = [sum(step.seconds.values()) for step in steps]
    quarter = max(1, len(totals) // 4)
    pace = float(np.median(totals[-quarter:]) / np.median(totals[:quarter]))
    return PartyTiming(name, seconds, pace, record.peak_memory_bytes)


def narrow_words(binary: int, byte: int) -> str:
    """Say how many features take few digits: ``4 binary, 9 byte``; empty where none does."""
    return ", ".join(f"{count} {name}" for count, name in ((binary, "binary"), (byte, "byte")) if count)


def calibration_words(summary: RunSummary) -> str:
    """Say what became of the scores' calibration, a sentence; empty where the plan doesn't ask for one."""
    calibration = summary.calibration
    if calibration is None:
        return ""
    if calibration.slope is None:
        return f"Scores are as trained. {calibration.reason}"
    before = summary.epochs[summary.kept_epoch].validation_loss
    return (
        f"All weights were multiplied by {calibration.slope:.3g}, which every party is told: the validation records' "
        f"log loss went from {before:.4f} to {calibration.loss:.4f}."
    )


def seen_words(party: PartyDescription) -> str:
    """Say what every other party and the coordinator learn of a party's columns before training."""
    count = counted(party.feature_count, "feature")
    narrow = narrow_words(party.binary_features, party.byte_features)
    if not narrow:
        return f"all others see their number: {count}, of one width"
    return (
        f"all others see their number: {count}; and how many take 1 or 8 binary digits in place of all: {narrow}. "
        "PLUMBLINE_PAD_WIDTHS=true keeps the latter"
    )
