"""The first screen: columns ranked by what is given away, attacks by strength, how well labels are told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attacks import LEVELS, Level
from plumbline.audit.report.cards import ColumnEvidence
from plumbline.charts.axes import WHOLE, Axis
from plumbline.charts.drawings import PERCENT, Series, Share, lines, percent_words, roc, share_bar
from plumbline.charts.marks import Chart
from plumbline.judge.answer import ColumnAnswer
from plumbline.judge.federation_part import FLOOR, HEADLINE, LevelVerdict
from plumbline.judge.findings import Findings
from plumbline.judge.predictions import AttackFinding
from plumbline.judge.training import TrainingFinding
from plumbline.judge.words import LEVEL_WORDS, distinct_levels, own
from services.common.identity import Role
from services.common.run_folder import RunFolder
from vfl.arrays import FloatArray, IntArray

# Lines that a chart can tell apart.
_MOST_LINES = 5


@dataclass(frozen=True)
class RankedRow:
    """One column in the ranking of a level.

    Attributes:
        column: the verdict on it.
        number: of its card.
        part: the federation's part, in words.
        value: the same as a number, for sorting; -1 for none.
        bar: the same as a bar.
        anyway: what could be guessed anyway, and with the federation.
        attack: the best attack; empty without one.
    """

    column: ColumnAnswer
    number: int
    part: str
    value: float
    bar: Chart
    anyway: str
    attack: str


@dataclass(frozen=True)
class RankedLevel:
    """The ranking at one level of what the adversary knows beforehand.

    Attributes:
        level: its name.
        words: what the adversary knows.
        rows: the columns, most exposed first.
    """

    level: Level
    words: str
    rows: tuple[RankedRow, ...]


def ranked_levels(findings: Findings) -> list[RankedLevel]:
    """Rank the columns at every level that differs from the one before; nothing without columns."""
    columns = list(enumerate(findings.answer.columns, start=1))
    if not columns:
        return []
    return [
        RankedLevel(level, LEVEL_WORDS[level], tuple(sorted(_rows(columns, level), key=lambda row: -row.value)))
        for level in distinct_levels(findings.predictions)
    ]


def _rows(columns: Sequence[tuple[int, ColumnAnswer]], level: Level) -> list[RankedRow]:
    return [_row(column, number, level) for number, column in columns]


def _row(column: ColumnAnswer, number: int, level: Level) -> RankedRow:
    verdict = next(one for one in column.levels if one.level == level)
    part = verdict.part
    words = share_words(verdict)
    share = None if part is None else Share(part.mean, part.low, part.high)
    title = f"{column.column}: {bar_words(verdict)}"
    return RankedRow(
        column=column,
        number=number,
        part=words,
        value=-1.0 if part is None else part.mean,
        bar=share_bar(title, share, "leak" if verdict.is_exposed else "harmless"),
        anyway=_anyway(column, level),
        attack=verdict.attack,
    )


def share_words(verdict: LevelVerdict) -> str:
    """The federation's part in percent; why there is none where there isn't."""
    if verdict.part is None:
        return "known anyway" if verdict.attack else "not measured"
    return percent_words(verdict.part.mean)


def bar_words(verdict: LevelVerdict) -> str:
    """The federation's part with its interval."""
    if verdict.part is None:
        return share_words(verdict)
    part = verdict.part
    ends = f"{100 * part.low:.0f} to {100 * part.high:.0f} %"
    return f"{percent_words(part.mean)} of what was unknown, 95 % interval {ends}"


def _anyway(column: ColumnAnswer, level: Level) -> str:
    """How often the column's value is known by a guess, and with the scores."""
    known = next((one for one in column.known if one.level == level), None)
    if known is None:
        return ""
    guessed = f"{column.known_as}: {percent_words(1 - known.e0)} anyway"
    if known.error is None:
        return guessed
    # Who has the scores can still guess.
    more = percent_words(1 - known.error) if known.error < known.e0 else "no more"
    one = next((share_words(own) for own in column.one_session if own.level == level), "")
    return f"{guessed}, {more} with scores" + (f"; after one session alone the share is {one}" if one else "")


# -- labels ------------------------------------------------------------------------------------------------------------


def labels_by_epoch(training: Sequence[TrainingFinding]) -> Chart | None:
    """Draw which share of labels each attack had right after each epoch, beside guessing; None without any."""
    followed = [one for one in training if one.so_far][:_MOST_LINES]
    if not followed:
        return None
    last = max(len(one.so_far) for one in followed)
    guess = max((_guessed(one) for one in followed if one.levels), default=None)
    series = [
        Series(_attack_by(one), tuple(map(float, range(1, len(one.so_far) + 1))), one.so_far, f"s{number}")
        for number, one in enumerate(followed, start=1)
    ]
    across = Axis(1, max(2, last), "epoch", WHOLE)
    if guess is not None:
        series.append(Series("guessing the most frequent class", (1.0, float(max(2, last))), (guess, guess), "guess"))
    return lines("Labels told right so far, by epoch", series, across, Axis(0, 1, values=PERCENT), height=170)


def _guessed(finding: TrainingFinding) -> float:
    return 1 - next(one.e0 for one in finding.levels if one.level == HEADLINE)


def _attack_by(finding: TrainingFinding) -> str:
    return f"{finding.attack} by {finding.party}"


@dataclass(frozen=True)
class Strength:
    """What one attack on predictions gave away.

    Attributes:
        finding: what it reconstructed.
        parts: the federation's part of each column by this attack alone; None where there is nothing to give away.
        exposed: number of columns of which it told more than chance.
    """

    finding: AttackFinding
    parts: tuple[float | None, ...]
    exposed: int

    @property
    def mean(self) -> float:
        """Mean part over the columns that had something to give away."""
        measured = [part for part in self.parts if part is not None]
        return sum(measured) / len(measured) if measured else 0.0

    @property
    def largest(self) -> float:
        """The largest part of any column."""
        return max((part for part in self.parts if part is not None), default=0.0)

    @property
    def knows_more(self) -> bool:
        """Whether it needs to know more beforehand than the headline's level allows."""
        return LEVELS.index(self.finding.level) > LEVELS.index(HEADLINE)


def by_strength(
    found: Sequence[AttackFinding],
    columns: Sequence[ColumnAnswer],
    evidence: Mapping[ColumnAnswer, ColumnEvidence],
) -> list[Strength]:
    """Sort the attacks that saw scores and ran, the strongest first; its parts are in the order of ``columns``."""
    done = [one for one in found if one.mse is not None and one.sees_scores]
    strengths = [
        Strength(one, tuple(_part(one, column, evidence.get(column)) for column in columns), _exposed(one))
        for one in done
    ]
    return sorted(strengths, key=lambda one: (-one.mean, one.finding.attack))


def _part(finding: AttackFinding, column: ColumnAnswer, evidence: ColumnEvidence | None) -> float | None:
    """The part of one column by one attack, at the headline's level or at its own where that is higher."""
    if evidence is not None and evidence.is_category and finding.attack in evidence.estimates:
        level = max(finding.level, HEADLINE, key=LEVELS.index)
        e0 = next(one.e0 for one in column.levels if one.level == level)
        return max(0.0, 1 - evidence.error(evidence.estimates[finding.attack]) / e0) if e0 >= FLOOR else None
    feature = column.features[0]
    if feature >= len(finding.columns) or not finding.columns[feature].levels:
        return None
    part = own(finding.columns[feature].levels).part
    return None if part is None else part.mean


def _exposed(finding: AttackFinding) -> int:
    return sum(own(column.levels).is_exposed for column in finding.columns if column.levels)


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
