"""What a paper states, what a run measured, and the verdict that follows; no verdict is written by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from plumbline.judge.measures import Interval, LoneMean

Verdict = Literal["reproduced", "in part", "differs", "not measured"]
_RESAMPLES = 2000


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
