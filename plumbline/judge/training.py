"""Scores what training attacks found, where truth may be seen: labels by epoch, single features, read features."""

import json
import reprlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import FloatArray


@dataclass(frozen=True)
class TrainingFinding:
    """One training attack by one party, or why it couldn't be mounted.

    Attributes:
        attack: its name.
        party: who mounted it.
        reason: why it found nothing; empty when it found something.
        seconds: how long it took once training was over.
        kind: what it found; empty when it couldn't be mounted. Labels, features and readings are scored.
        success: the share of what it attacked that it got right: labels of training rows; single features of a peer
            to 1e-4, up to sign; features read exactly.
        resolved: the share that it gave an answer for.
        by_epoch: for labels, success of each epoch's own estimates (no answer counts as wrong).
        details: what the attack itself says.
    """

    attack: str
    party: str
    reason: str
    seconds: float
    kind: str = ""
    success: float = float("nan")
    resolved: float = float("nan")
    by_epoch: tuple[float, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def is_scored(self) -> bool:
        """Whether its result was compared with the truth."""
        return not np.isnan(self.success)

    @property
    def facts(self) -> str:
        """What the attack itself says, in one line."""
        return "; ".join(f"{name.replace('_', ' ')}: {reprlib.repr(value)}" for name, value in self.details.items())


def read_training_leakage(folder: Path) -> list[TrainingFinding]:
    """Score all training attacks that ran in a run's party ``folder``; empty when none was switched on."""
    findings = []
    for path in sorted((folder / "attacks").glob("training-*.json")):
        for outcome in json.loads(path.read_text()):
            findings.append(_judge(folder, outcome))
    return findings


def _judge(folder: Path, outcome: dict[str, Any]) -> TrainingFinding:
    attack, party = outcome["attack"], outcome["party"]
    if outcome["status"] != "done":
        return TrainingFinding(attack, party, outcome["reason"], outcome["seconds"])
    kind = outcome["kind"]
    details = {
        key: value
        for key, value in outcome.items()
        if key not in ("attack", "party", "status", "reason", "seconds", "kind")
    }
    finding = TrainingFinding(attack, party, outcome.get("reason", ""), outcome["seconds"], kind, details=details)
    if kind not in _SCORES:
        return finding
    with np.load(folder / "attacks" / f"training-{party}-{attack}.npz", allow_pickle=False) as content:
        found = dict(content)
    try:
        return replace(finding, **_SCORES[kind](folder, found))
    except (KeyError, IndexError, ValueError) as error:  # another package's arrays may be anything
        return replace(finding, reason=f"{attack} found {kind}, but its arrays can't be scored as such: {error}")


def _labels(folder: Path, found: dict[str, NDArray[Any]]) -> dict[str, Any]:
    with np.load(folder / "active-features.npz", allow_pickle=False) as content:
        truth = content["labels"]
    rows = np.unique(found["step_rows"])
    right = found["step_labels"] == truth[found["step_rows"]]
    epochs = np.unique(found["step_epoch"])
    return {
        "success": float((found["labels"][rows] == truth[rows]).mean()),
        "resolved": float((found["labels"][rows] >= 0).mean()),
        "by_epoch": tuple(float(right[found["step_epoch"] == epoch].mean()) for epoch in epochs),
    }


def _features(folder: Path, found: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """A peer's single feature follows up to sign; the constant bias of the active party isn't one."""
    right, resolved, total = 0, 0, 0
    for name, values in found.items():
        truth = _truth(folder, name.removeprefix("values-"))
        if truth.shape[1] != 1:
            continue
        known = np.isfinite(values)
        errors = [np.abs(values[known] - sign * truth[known, 0]) for sign in (1, -1)]
        right += max(int((error < 1e-4).sum()) for error in errors)
        resolved += int(known.sum())
        total += len(values)
    return {"success": right / total if total else 0.0, "resolved": resolved / total if total else 0.0}


def _readings(folder: Path, found: dict[str, NDArray[Any]]) -> dict[str, Any]:
    right, read, total = 0, 0, 0
    for name, values in found.items():
        if not name.startswith("values-"):
            continue
        peer = name.removeprefix("values-")
        truth = _truth(folder, peer)
        right += int((values == truth[found[f"rows-{peer}"]]).sum())
        read += values.size
        total += truth.size
    return {"success": right / read if read else 0.0, "resolved": read / total}


_SCORES: dict[str, Callable[[Path, dict[str, NDArray[Any]]], dict[str, Any]]] = {
    "labels": _labels,
    "features": _features,
    "readings": _readings,
}


def _truth(folder: Path, party: str) -> FloatArray:
    with np.load(folder / f"{party}-features.npz", allow_pickle=False) as content:
        features: FloatArray = content["features"]
    return features
