"""A run's folder as services write it, of a made-up federation: for what reads truth and estimates from there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from attacks import Level
from plumbline.judge.findings import Findings, read_findings
from services.common.agreement import TrainingPlan
from services.common.run_folder import RunFolder
from services.common.run_records import (
    DONE,
    FAILED,
    STAGES,
    AttackStatus,
    DeliveredScores,
    EpochRecord,
    Estimates,
    PartyFeatures,
    PartyRecord,
    PredictionAttackOutcome,
    StepRecord,
    TrainingAttackOutcome,
)
from services.protocols.hu.guard import channels_of
from tests.harness.agreements import agreed, trained_on
from vfl.arrays import FloatArray, IntArray

RECORDS, JUDGED = 200, 60
FACTS = {"seconds": 12.5, "versions": {"python": "3.11.7"}, "request": {"data": "made up", "black_box": False}}


@dataclass(frozen=True)
class MadeColumn:
    """A feature of a made-up passive party: as ``EncodedColumn`` describes one."""

    name: str
    source: str = ""
    kind: str = "number"
    offset: float = 0.0
    scale: float = 1.0


PLAIN = (MadeColumn("age", offset=18, scale=60), MadeColumn("income", offset=0, scale=90_000))


def _outcome(
    attack: str, status: AttackStatus = DONE, level: Level = "nothing", reason: str | None = None
) -> PredictionAttackOutcome:
    return PredictionAttackOutcome(
        attack=attack,
        batch=0,
        records=JUDGED,
        status=status,
        reason=reason,
        level=level,
        sees_scores=not attack.startswith("half("),
        notes=(f"{attack} found its way.",) if attack == "rcc2" else None,
        seconds=0.25,
    )


def made_run(
    path: Path,
    columns: Sequence[MadeColumn] = PLAIN,
    *,
    attacks: Sequence[str] = ("half_star", "rcc2"),
    classes: int = 2,
    plan: TrainingPlan | None = None,
    class_names: Sequence[str] = (),
    warnings: tuple[str, ...] = (),
) -> RunFolder:
    """Write what parties would: the first attack is near the truth, each further one is twice as far off."""
    generator = np.random.default_rng(3)
    folder, d = RunFolder(path), len(columns)
    labels = np.arange(RECORDS) % classes
    truth = _truth(columns, generator)
    active = np.column_stack([labels + generator.normal(size=RECORDS), np.ones(RECORDS)])
    folder.write_features("active", PartyFeatures((active - active.min(0)) / 10, np.array(["y", "bias"]), labels))
    folder.write_features(
        "passive",
        PartyFeatures(
            truth,
            np.array([one.name for one in columns]),
            sources=np.array([one.source or one.name for one in columns]),
            kinds=np.array([one.kind for one in columns]),
            offsets=np.array([one.offset for one in columns]),
            scales=np.array([one.scale for one in columns]),
        ),
    )
    rows = np.arange(JUDGED)
    noise = generator.normal(size=(JUDGED, d))
    estimates = {name: truth[rows] + 0.05 * 2**number * noise for number, name in enumerate(attacks)}
    folder.write_estimates(0, Estimates(rows, estimates))
    folder.write_prediction_outcomes(
        [*map(_outcome, attacks), _outcome("gia", FAILED, reason="gia failed with <b>TypeError</b>.")]
    )
    _write_training(folder, labels)
    agreement = agreed(plan or TrainingPlan(batch_size=64, epochs=3), features=(2, d), rows=RECORDS, classes=classes)
    agreement = trained_on(agreement, RECORDS)
    scores = np.eye(classes)[labels[rows]] * 0.5 + generator.random((JUDGED, classes)) * 0.6
    names = tuple(class_names) or tuple(f"class {number}" for number in range(classes))
    record = PartyRecord(agreement=agreement, bytes_by_message={"Train: Step": 1234}, peak_memory_bytes=10**8)
    steps = tuple(StepRecord(number, dict.fromkeys(STAGES, 0.01)) for number in range(4))
    channels = [tuple(one.facts() for one in channels_of(agreement, party)) for party in ("active", "passive")]
    folder.write_record("passive", replace(record, steps=steps, channels=channels[1]))
    folder.write_record(
        "active",
        replace(
            record,
            steps=steps,
            channels=channels[0],
            warnings=warnings,
            transport="mtls",
            class_names=names,
            epochs=tuple(EpochRecord(number, 0.7 - 0.1 * number, 1.0) for number in range(3)),
        ),
    )
    chances = scores / scores.sum(axis=1, keepdims=True)
    folder.write_delivered_scores("active", DeliveredScores(rows, chances, labels[rows]))
    return folder


def _truth(columns: Sequence[MadeColumn], generator: np.random.Generator) -> FloatArray:
    """Numbers spread over [0, 1]; of a source's categories one is there in each record; a gap in every tenth."""
    truth = generator.random((RECORDS, len(columns)))
    for number, one in enumerate(columns):
        if one.kind == "category":
            group = [
                place for place, other in enumerate(columns) if (other.source, other.kind) == (one.source, one.kind)
            ]
            truth[:, number] = np.arange(RECORDS) * 7 % len(group) == group.index(number)
        elif one.kind == "missing":
            truth[:, number] = np.arange(RECORDS) % 10 == 0
    return truth


def _write_training(folder: RunFolder, labels: IntArray) -> None:
    """An attack on labels that answers for the first hundred records, nine of ten rightly in each of three epochs."""
    found = np.full(RECORDS, -1)
    found[:100] = np.where(np.arange(100) % 10 == 0, 1 - np.minimum(labels[:100], 1), labels[:100])
    epochs = np.repeat(np.arange(3), 100)
    arrays = {
        "labels": found,
        "step_epoch": epochs,
        "step_rows": np.tile(np.arange(100), 3),
        "step_labels": np.tile(found[:100], 3),
    }
    done = TrainingAttackOutcome(attack="label_recovery", party="passive", kind="labels", status=DONE, seconds=0.1)
    not_done = TrainingAttackOutcome(
        attack="feature_order",
        party="passive",
        status="not applicable",
        reason="feature_order needs one column.",
        seconds=0.0,
    )
    folder.write_training_outcomes("passive", [done, not_done])
    folder.write_training_arrays("passive", "label_recovery", arrays)


def findings_of(folder: RunFolder) -> Findings:
    """What the judge says of such a run."""
    return read_findings(folder, ["passive"], "made up")
