"""What a paper states, what a run measured, and the verdict that follows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from plumbline.judge.measures import Interval, LoneMean
from studies.number_words import number_words

Verdict = Literal["reproduced", "in part", "differs", "not seen", "empty", "not measured"]
_RESAMPLES = 2000
# Nothing but rounding of float64.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Statement:
    """One thing that a paper says of its experiments.

    Attributes:
        source: where: "Figure 4, Remark 8".
        subject: of what: a data set, or several.
        paper: what it says, in our words.
        verdict: computed from the run.
        measured: this run's numbers, with intervals over windows and seeds.
        reason: why it differs, where that is known.
    """

    source: str
    subject: str
    paper: str
    verdict: Verdict
    measured: str
    reason: str = ""


def verdict_of(held: Sequence[bool]) -> Verdict:
    """All held: reproduced; some: in part; none: differs. Nothing was there to hold: not measured."""
    if not held:
        return "not measured"
    return "reproduced" if all(held) else "in part" if any(held) else "differs"


def interval_over(frame: pd.DataFrame, measure: str, by: Sequence[str] = ("seed", "start")) -> Interval:
    """Mean of a measure, and its 95 % bootstrap interval over the groups that ``by`` makes (windows and seeds).

    One group has no interval: its ends are the mean, and words must say so (``Interval.alone``). Groups in which
    nothing was measured (NaN) don't count: one of them would make every comparison with the mean false. NaN of none.
    """
    means = frame.groupby(list(by))[measure].mean().dropna().to_numpy(dtype=np.float64)
    if not len(means):
        return Interval(np.nan, np.nan, np.nan)
    if len(means) < 2:
        return LoneMean(float(means.mean()))
    generator = np.random.default_rng(0)
    drawn = means[generator.integers(0, len(means), (_RESAMPLES, len(means)))].mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Interval(float(means.mean()), float(low), float(high))


def interval_of(values: pd.Series, by: Sequence[str] = ("seed",)) -> Interval:
    """As ``interval_over``, of numbers whose index has ``by``."""
    return interval_over(values.rename("value").reset_index(), "value", by)


def interval_words(interval: Interval, digits: int = 3, *, decimals: int | None = None, signed: bool = False) -> str:
    """Write a mean with its interval: ``0.0123 (0.0118 to 0.0128)``; one measurement has none, and says so.

    Arguments:
        interval: of a mean; nothing is written of NaN.
        digits: how many count.
        decimals: so many behind the point instead, for shares that are close to 1.
        signed: whether a sign stands before every number, as of differences.
    """
    if np.isnan(interval.mean):
        return ""
    ends = (interval.mean, interval.low, interval.high)
    mean, low, high = (_end_words(0.0 if abs(end) < _ROUNDING else end, digits, decimals, signed) for end in ends)
    return f"{mean} (no interval)" if interval.alone else f"{mean} ({low} to {high})"


def _end_words(value: float, digits: int, decimals: int | None, signed: bool) -> str:
    plus = "+" if signed and value >= 0 else ""
    return plus + (number_words(value, digits) if decimals is None else f"{value:.{decimals}f}")
