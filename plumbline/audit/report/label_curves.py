"""How well labels are told apart: by the model's own scores, and by attacks on training."""

from collections.abc import Sequence

import numpy as np

from plumbline.charts.drawings import Series, roc
from plumbline.charts.marks import Chart
from plumbline.judge.findings import Findings
from services.common.identity import Role
from services.common.run_folder import RunFolder
from vfl.arrays import FloatArray, IntArray

# Curves that a chart can tell apart, and points of each.
_MOST_CURVES, _POINTS = 6, 60


def label_curves(folder: RunFolder, findings: Findings) -> Chart | None:
    """Draw the model's ROC curve over the test records, and of two classes each attack on labels as a point.

    An attack that names classes and gives no scores has one point: of the records that it gave an answer for. None
    where the test records have one class only. Raises RunFolderError for a broken file.
    """
    record = folder.record(Role.ACTIVE)
    labels = np.array(record.test_labels or (), dtype=np.int64)
    scores = np.array(record.test_scores or (), dtype=np.float64)
    if scores.ndim != 2 or len(np.unique(labels)) < 2 or not np.isfinite(scores).all():
        return None
    names = findings.summary.class_names
    points = _points(folder, findings) if scores.shape[1] == 2 else []
    title = f"Who tells {names[1]} from {names[0]}" if len(names) == 2 else "The model: each class against the rest"
    return roc(title, _curves(labels, scores, names), points)


def _curves(labels: IntArray, scores: FloatArray, names: Sequence[str]) -> list[Series]:
    if scores.shape[1] == 2:
        return [_curve("the model's own scores", labels == 1, scores[:, 1], 1)]
    frequency = np.bincount(labels, minlength=scores.shape[1])
    shown = [
        int(one) for one in np.argsort(-frequency, kind="stable")[:_MOST_CURVES] if 0 < frequency[one] < len(labels)
    ]
    return [_curve(names[one], labels == one, scores[:, one], number) for number, one in enumerate(shown, start=1)]


def _curve(name: str, positive: FloatArray | IntArray, scores: FloatArray, number: int) -> Series:
    from sklearn.metrics import roc_curve  # slow to import

    false, true, _ = roc_curve(positive, scores)
    # What a screen can show: equal steps along the curve keep its corners.
    length = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(false)) + np.abs(np.diff(true)))])
    kept = np.unique(np.searchsorted(length, np.linspace(0, length[-1], _POINTS)))
    return Series(name, tuple(map(float, false[kept])), tuple(map(float, true[kept])), f"s{number}")


def _points(folder: RunFolder, findings: Findings) -> list[tuple[str, float, float]]:
    truth, points = folder.labels(), []
    several = len(findings.summary.parties) > 2
    for finding in findings.training:
        if finding.kind != "labels" or not finding.is_scored:
            continue
        found = folder.found_labels(finding.party, finding.attack)
        rows = np.unique(found.step_rows)
        rows = rows[found.labels[rows] >= 0]
        positive = truth[rows] == 1
        if not positive.any() or positive.all():
            continue
        named = found.labels[rows] == 1
        name = f"{finding.attack} by {finding.party}" if several else finding.attack
        points.append((name, float(named[~positive].mean()), float(named[positive].mean())))
    return points
