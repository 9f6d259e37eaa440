"""Comparisons of two curves window by window and seed by seed, and of one curve's ends, with intervals."""

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from plumbline.judge.measures import Interval, LoneMean
from studies.claims.paired_differences import paired
from studies.claims.statement import interval_over

# What two measurements of the same thing share, where they have it.
_PLACE = ("dataset", "d", "ratio", "predictions", "seed", "start")


def curve_of(results: pd.DataFrame, dataset: str, curve: str) -> pd.DataFrame:
    """The finished measurements of one curve on one data set."""
    return results[(results["dataset"] == dataset) & (results["curve"] == curve) & (results["status"] == "done")]


def differences(results: pd.DataFrame, dataset: str, first: str, second: str, measure: str = "mse") -> pd.DataFrame:
    """Pair two curves on one data set: ``left`` is the first one's measure, ``difference`` what it has more."""
    one, other = (curve_of(results, dataset, curve) for curve in (first, second))
    return paired(one, other, _PLACE, measure)


def times_of(pairs: pd.DataFrame) -> Interval:
    """How many times as large the right curve is as the left: a ratio of means, over windows and seeds."""
    first, second = pairs["left"].to_numpy(), pairs["right"].to_numpy()
    if len(pairs) < 2:
        return LoneMean(float(second.mean() / first.mean()))
    rows = np.random.default_rng(0).integers(0, len(pairs), (2000, len(pairs)))
    low, high = np.quantile(second[rows].mean(axis=1) / first[rows].mean(axis=1), (0.025, 0.975))
    return Interval(float(second.mean() / first.mean()), float(low), float(high))


def trend(part: pd.DataFrame, against: str, measure: str) -> Interval | None:
    """Rank correlation of a measure with a column, for each window and seed, and its interval; None without one."""
    found = [
        {"seed": seed, "start": start, "trend": _spearman(own[against], own[measure])}
        for (seed, start), own in part.groupby(["seed", "start"])
        if own[against].nunique() > 1
    ]
    frame = pd.DataFrame(found, columns=["seed", "start", "trend"])
    return interval_over(frame, "trend") if len(frame) else None


def _spearman(one: pd.Series, other: pd.Series) -> float:
    if other.nunique() < 2:
        return 0.0
    return float(spearmanr(one, other).statistic)
