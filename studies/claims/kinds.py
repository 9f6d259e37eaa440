"""The kinds of tests that claims are put to: counts as printed, numbers in a list, differences."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import pandas as pd

from plumbline.judge.measures import Interval
from studies.claims.claim import NOTHING, Finding, Test
from studies.claims.statement import interval_words

_T = TypeVar("_T")


def among(select: Callable[[pd.DataFrame], pd.DataFrame], test: Test) -> Test:
    """A test of some of the rows alone."""

    def tested(rows: pd.DataFrame) -> Finding:
        chosen = select(rows)
        return test(chosen) if len(chosen) else NOTHING

    return tested


def equal(printed: Mapping[str, float], words: Callable[[Mapping[str, int]], str]) -> Test:
    """Whether counts, the same in every row that has them, are the printed ones; ``words`` say those of this run."""

    def tested(rows: pd.DataFrame) -> Finding:
        found = {name: int(rows[name].max()) for name in printed}
        return Finding([found[name] == one for name, one in printed.items()], words(found))

    return tested


def listed(
    lead: str,
    parts: Mapping[str, _T],
    holds: Callable[[_T], bool],
    words: Callable[[_T], str],
    end: str = "",
) -> Finding:
    """Whether something holds of each of some numbers, which are told by their names."""
    if not parts:
        return NOTHING
    said = "; ".join(f"{name} {words(value)}" for name, value in parts.items())
    return Finding([bool(holds(value)) for value in parts.values()], f"{lead}: {said}.{f' {end}' if end else ''}")


def ahead(lead: str, leads: Mapping[str, Interval], end: str = "", *, decimals: int = 4) -> Finding:
    """Whether differences are above 0: for certain where their intervals are, in part where only their means are.

    One window and seed has no interval, and no more than its mean.
    """
    found = listed(lead, leads, lambda one: one.mean > 0, in_decimals(decimals), end)
    return Finding([*found.held, *(one.low > 0 and not one.alone for one in leads.values())], found.measured)


def within(limit: float) -> Callable[[Interval], bool]:
    """Whether a whole interval of a difference is nearer to 0 than a limit."""
    return lambda one: max(abs(one.low), abs(one.high)) < limit


def in_decimals(decimals: int) -> Callable[[Interval], str]:
    """Words for intervals with so many decimals."""
    return lambda one: interval_words(one, decimals=decimals)


def paired(left: pd.DataFrame, right: pd.DataFrame, by: Sequence[str], measure: str = "mse") -> pd.DataFrame:
    """Pair measurements that agree in the columns ``by``, those of them that both frames have.

    Returns these columns, ``left`` and ``right``, and ``difference``, left less right; without rows where no two agree.
    """
    keys = [name for name in by if name in left and name in right]
    if left.empty or right.empty:
        return pd.DataFrame(columns=[*keys, "left", "right", "difference"])
    sides = [
        side[[*keys, measure]].rename(columns={measure: name}) for name, side in (("left", left), ("right", right))
    ]
    joined = sides[0].merge(sides[1], on=keys)
    return joined.assign(difference=joined["left"] - joined["right"]).dropna(subset=["difference"])
