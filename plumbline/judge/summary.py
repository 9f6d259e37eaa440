"""What a run amounts to, computed from the records that each party wrote: quality, time by stage, bytes by message."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, roc_auc_score

STAGES = ("encrypt", "wait", "product", "mask", "decrypt", "update")


@dataclass(frozen=True)
class PartyTiming:
    """Seconds per iteration of one party, mean over all steps, by stage; and whether the pace held.

    ``pace``: median step time of the last quarter of steps over that of the first quarter; 1 is constant.
    """

    name: str
    seconds: dict[str, float]
    pace: float
    peak_memory_bytes: int

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


@dataclass(frozen=True)
class RunSummary:
    """Results of one run; ``accuracy`` and ``auc`` are on the test rows (NaN without any)."""

    name: str
    aligned_rows: int
    test_rows: int
    accuracy: float
    auc: float
    majority: float
    epochs: list[dict[str, float]]
    kept_epoch: int
    steps: int
    timings: list[PartyTiming]
    bytes_by_message: dict[str, int]
    agreement: dict[str, Any]
    class_names: list[str]
    warnings: list[str]
    simulation: list[str]
    transport: str
    defences: dict[str, list[str]]
    channels: list[dict[str, Any]]
    predictions: dict[str, list[dict[str, Any]]]

    @property
    def parties(self) -> list[dict[str, Any]]:
        parties: list[dict[str, Any]] = self.agreement["parties"]
        return parties

    @property
    def total_bytes(self) -> int:
        return sum(self.bytes_by_message.values())

    @property
    def epoch_seconds(self) -> float:
        """Mean seconds per epoch."""
        return float(np.mean([epoch["seconds"] for epoch in self.epochs])) if self.epochs else 0.0


def read_summary(folder: Path, name: str) -> RunSummary:
    """Read the records of all parties in ``folder``; raises OSError or KeyError when the active party's is missing."""
    records = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    active = records["active"]
    trained = {party: record for party, record in records.items() if record.get("steps")}
    traffic: Counter[str] = Counter()
    for record in records.values():
        traffic.update(record["bytes_by_message"])
    labels = np.array(active.get("test_labels", []), dtype=np.int64)
    scores = np.array(active.get("test_scores", []), dtype=np.float64)
    return RunSummary(
        name=name,
        aligned_rows=active["agreement"]["parties"][0]["aligned_rows"],
        test_rows=len(labels),
        accuracy=float(accuracy_score(labels, scores.argmax(axis=1))) if len(labels) else float("nan"),
        auc=_auc(labels, scores),
        majority=float(np.bincount(labels).max() / len(labels)) if len(labels) else float("nan"),
        epochs=active["epochs"],
        kept_epoch=active["kept_epoch"],
        steps=len(active["steps"]),
        timings=[_timing(party, record) for party, record in trained.items()],
        bytes_by_message={message: size for message, size in traffic.most_common() if size},
        agreement=active["agreement"],
        class_names=active["class_names"],
        warnings=[*active["warnings"], *(text for record in records.values() for text in record.get("guard", []))],
        simulation=active["simulation"],
        transport=active["transport"],
        defences=_defences(records),
        predictions={name: record["predictions"] for name, record in records.items() if record.get("predictions")},
        channels=[channel for record in records.values() for channel in record.get("channels", [])],
    )


def expectations(prediction: dict[str, Any]) -> list[tuple[str, str]]:
    """The numbers of a defence's prediction in words, one level deep: (what, value)."""
    numbers = []
    for key, value in prediction.items():
        inner = value if isinstance(value, dict) else {key: value}
        numbers += [
            (name.replace("_", " "), f"{number:.4g}")
            for name, number in inner.items()
            if isinstance(number, int | float) and not isinstance(number, bool)
        ]
    return numbers


def assumptions(prediction: dict[str, Any]) -> list[str]:
    """The sentences that a prediction rests on, wherever in it they stand; first, what doesn't hold in this session."""
    inner = [value for value in prediction.values() if isinstance(value, dict)]
    notes = [prediction["note"]] if prediction.get("note") else []
    return [*notes, *(text for part in (prediction, *inner) for text in part.get("assumptions", ()))]


def _defences(records: dict[str, Any]) -> dict[str, list[str]]:
    """What each service applied, where it applied anything."""
    applied = {"coordinator": records["active"]["agreement"]["score_defences"]}
    applied |= {name: record.get("defences", []) for name, record in records.items()}
    return {name: list(names) for name, names in applied.items() if names}


def _auc(labels: np.ndarray[Any, Any], scores: np.ndarray[Any, Any]) -> float:
    """Area under the ROC curve; one class against the rest, averaged, for more than two; NaN when a class is absent."""
    classes = scores.shape[1] if scores.ndim == 2 else 0
    if len(np.unique(labels)) < max(2, classes):
        return float("nan")
    return float(
        roc_auc_score(labels, scores[:, 1]) if classes == 2 else roc_auc_score(labels, scores, multi_class="ovr")
    )


def _timing(name: str, record: dict[str, Any]) -> PartyTiming:
    steps = [{key: value for key, value in step.items() if key != "step"} for step in record["steps"]]
    seconds = {stage: float(np.mean([step.get(stage, 0.0) for step in steps])) for stage in STAGES}
    totals = [sum(step.values()) for step in steps]
    quarter = max(1, len(totals) // 4)
    pace = float(np.median(totals[-quarter:]) / np.median(totals[:quarter]))
    return PartyTiming(name, seconds, pace, record["peak_memory_bytes"])
