"""Comparisons of two attacks on the same windows of the same models, and their words."""

from collections.abc import Sequence

import pandas as pd

from plumbline.judge.measures import Interval
from studies.claims.paired_differences import paired as paired_differences
from studies.claims.statement import interval_over, interval_words

PAIRED = ("dataset", "trainer", "seed", "d", "start")


def paired(frame: pd.DataFrame, lower: str, higher: str) -> pd.DataFrame:
    """Pair two attacks' rows on the same window: ``left`` is the higher one's error, ``right`` the lower one's."""
    sides = [frame[frame["attack"] == name] for name in (higher, lower)]
    return paired_differences(sides[0], sides[1], PAIRED)


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


def each(frame: pd.DataFrame, names: Sequence[str]) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each of these data sets that was measured."""
    return [(name, frame[frame["dataset"] == name]) for name in names if (frame["dataset"] == name).any()]


def hidden(frame: pd.DataFrame) -> pd.DataFrame:
    """The windows where equations leave something open: d >= k."""
    return frame[frame["d"] >= frame["k"]]
