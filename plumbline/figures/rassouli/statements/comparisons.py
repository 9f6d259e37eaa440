"""Comparisons of two attacks on the same windows of the same models, and their words."""

from collections.abc import Sequence

import pandas as pd

from plumbline.figures.page.elements import number_words
from plumbline.figures.page.statement import interval_over
from plumbline.judge.measures import Interval

# Nothing but rounding of float64.
_ROUNDING = 1e-12
PAIRED = ("dataset", "trainer", "seed", "d", "start")


def paired(frame: pd.DataFrame, lower: str, higher: str) -> pd.DataFrame:
    """Join the rows of two attacks on the same window: columns mse_lower, mse_higher, and difference, the latter less
    the former.
    """
    keys = [key for key in PAIRED if key in frame]
    sides = [
        frame.loc[frame["attack"] == name, [*keys, *(["k"] if "k" in frame else []), "mse"]] for name in (lower, higher)
    ]
    joined = sides[0].merge(sides[1].drop(columns="k", errors="ignore"), on=keys, suffixes=("_lower", "_higher"))
    return joined.assign(difference=joined["mse_higher"] - joined["mse_lower"])


def difference_by_d(pairs: pd.DataFrame) -> dict[int, Interval]:
    """The mean of paired differences at each d, with its interval over windows and splits."""
    return {d: interval_over(pairs[pairs["d"] == d], "difference") for d in sorted(pairs["d"].unique().tolist())}


def below_at(pairs: pd.DataFrame) -> list[bool]:
    """For each d, whether the lower side is below the higher one: the mean difference is over 0, its interval too."""
    return [found.low > 0 for found in difference_by_d(pairs).values()]


def below_words(pairs: pd.DataFrame) -> str:
    """At how many d the lower side is below, and by how much on average."""
    held = below_at(pairs)
    overall = interval_words(interval_over(pairs, "difference"))
    return f"below at {sum(held)} of {len(held)} values of d, by {overall} on average"


def interval_words(found: Interval) -> str:
    """A number with its interval: ``0.0123 (0.0118 to 0.0128)``."""
    mean, low, high = (
        number_words(0.0 if abs(end) < _ROUNDING else end, 3) for end in (found.mean, found.low, found.high)
    )
    return f"{mean} ({low} to {high})"


def each(frame: pd.DataFrame, names: Sequence[str]) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each of these data sets that was measured."""
    return [(name, frame[frame["dataset"] == name]) for name in names if (frame["dataset"] == name).any()]


def hidden(frame: pd.DataFrame) -> pd.DataFrame:
    """The windows where equations leave something open: d >= k."""
    return frame[frame["d"] >= frame["k"]]
