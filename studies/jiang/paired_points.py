"""Points of figures: measurements measured under labels of their own, compared where windows and seeds are the same."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from plumbline.judge.measures import Interval
from studies.claims.claim import Claim, Finding, judged
from studies.claims.kinds import listed, paired, where
from studies.claims.statement import Statement, interval_over, interval_words
from studies.measurements import Measurement
from studies.page.plots import Curve, mean_curve
from studies.study import StudyRun

# What kinds of models are called.
KINDS = {"linear": "LR", "network": "networks"}
# What two measurements must share for their difference to be that of what was asked about.
_PAIRED = ("dataset", "model", "r", "seed", "start")

# What describes an attack of ``changed_situations`` beside its labels; tables have no room for tuples of pairs.
_OF_TASKS = ("function", "attack_options", "passive", "noise_seed")


@dataclass(frozen=True)
class Point:
    """One measurement of a figure.

    Attributes:
        labels: columns that say where it is drawn; they replace columns of the measurement's description.
        measurement: what is measured.
    """

    labels: Mapping[str, object]
    measurement: Measurement


def measured(run: StudyRun, points: Sequence[Point]) -> pd.DataFrame:
    """Measure points: a row each, the labels first; empty without points."""
    if not points:
        return pd.DataFrame()
    labels = pd.DataFrame([dict(point.labels) for point in points])
    found = run.measure([point.measurement for point in points])
    return labels.join(found.drop(columns=[*labels.columns, *_OF_TASKS], errors="ignore"))


@dataclass(frozen=True)
class Difference:
    """What one measurement has more than another, over pairs of the same data set, model, ratio, seed and window.

    Attributes:
        mean: the mean of left less right, with its interval over pairs.
        share: that mean as a share of the right's mean.
    """

    mean: Interval
    share: float

    @property
    def is_below(self) -> bool:
        """Whether the left is less for certain: the interval's upper end is below 0."""
        return self.mean.high < 0

    @property
    def is_above(self) -> bool:
        """Whether the left is more for certain."""
        return self.mean.low > 0

    @property
    def words(self) -> str:
        """With its sign and interval: +0.012 (+0.003 to +0.02)."""
        return interval_words(self.mean, signed=True)


def difference(left: pd.DataFrame, right: pd.DataFrame, measure: str) -> Difference | None:
    """Compare a measure of paired rows, left less right; None where no two rows make a pair."""
    pairs = paired(left, right, _PAIRED, measure)
    if pairs.empty:
        return None
    mean = interval_over(pairs, "difference", [name for name in _PAIRED if name in pairs])
    return Difference(mean, mean.mean / float(pairs["right"].mean()))


def told(
    lead: str,
    found: Mapping[str, Difference | None],
    holds: Callable[[Difference], bool],
    words: Callable[[Difference], str] = lambda change: change.words,
) -> Finding:
    """Whether something holds of each difference that was measured, told by their names."""
    return listed(lead, {name: change for name, change in found.items() if change is not None}, holds, words)


def names_in(rows: pd.DataFrame) -> list[str]:
    """The data sets of rows; none of an empty frame."""
    return list(dict.fromkeys(rows["dataset"])) if len(rows) else []


def judged_on(model: str, claims: Iterable[Claim], rows: pd.DataFrame, source: str = "") -> tuple[Statement, ...]:
    """Judge claims whose subject is a kind of model on the data sets that were measured; ``source`` is of them all."""
    subject = ", ".join([model, *names_in(rows)])
    return judged([replace(one, subject=subject, source=source or one.source) for one in claims], rows)


def curve(rows: pd.DataFrame, measure: str, label: str, *, ours: bool = False) -> Curve:
    """Draw a measure against r: means and intervals over seeds and windows."""
    return mean_curve(rows, "r", label, measure=measure, ours=ours) if len(rows) else Curve(label, (), ())


def by_data_set(data: pd.DataFrame) -> Iterator[tuple[str, int, pd.DataFrame]]:
    """The measured rows of each data set, with its count n of auxiliary records."""
    for name in dict.fromkeys(data["dataset"]):
        part = where(data, dataset=name)
        yield name, int(part["n"].iloc[0]), part


def mean_error(rows: pd.DataFrame) -> float:
    """The mean error of some rows; NaN without any."""
    return float(rows["mse"].mean()) if len(rows) else float("nan")


def mean_table(data: pd.DataFrame, *keys: str, measures: Sequence[str]) -> pd.DataFrame:
    """Means of measures for reading, a row for each of what ``keys`` tell apart."""
    if data.empty:
        return data
    return where(data).groupby(list(keys), sort=False)[list(measures)].mean().reset_index().round(4)
