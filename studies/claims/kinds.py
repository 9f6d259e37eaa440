"""The kinds of tests that claims are put to: what holds of every row, of numbers in a list, of curves side by side."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pandas as pd
from scipy.stats import spearmanr

from plumbline.judge.measures import Interval
from studies.claims.claim import NOTHING, Finding, Test
from studies.claims.statement import interval_of, interval_over, interval_words

_T = TypeVar("_T")
# Of a rank correlation.
FEWEST_POINTS = 4


def where(frame: pd.DataFrame, **values: object) -> pd.DataFrame:
    """The measured rows that have these values; none where a column isn't there."""
    if "status" in frame.columns:
        frame = frame[frame["status"] == "done"]
    for column, value in values.items():
        if column not in frame.columns:
            return frame.iloc[:0]
        frame = frame[frame[column] == value]
    return frame


def among(select: Callable[[pd.DataFrame], pd.DataFrame], test: Test) -> Test:
    """A test of some of the rows alone."""

    def tested(rows: pd.DataFrame) -> Finding:
        chosen = select(rows)
        return test(chosen) if len(chosen) else NOTHING

    return tested


def every(
    holds: Callable[[pd.DataFrame], "pd.Series[bool]"],
    what: str = "windows",
    more: Callable[[pd.DataFrame], str] | None = None,
) -> Test:
    """Whether something holds of every row; ``what`` rows are, and ``more`` to say of them."""

    def tested(rows: pd.DataFrame) -> Finding:
        held = holds(rows)
        said = "" if more is None else more(rows)
        return Finding(held.tolist(), f"so in {int(held.sum())} of {len(held)} {what}{f'; {said}' if said else ''}")

    return tested


def equal(printed: Mapping[str, float], words: Callable[[Mapping[str, int]], str]) -> Test:
    """Whether counts, the same in every row that has them, are the printed ones; ``words`` say those of this run."""

    def tested(rows: pd.DataFrame) -> Finding:
        found = {name: int(rows[name].max()) for name in printed}
        return Finding([found[name] == one for name, one in printed.items()], words(found))

    return tested


def listed(
    lead: str, parts: Mapping[str, _T], holds: Callable[[_T], bool], words: Callable[[_T], str], end: str = ""
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


@dataclass(frozen=True)
class Curves:
    """How a figure's rows tell its curves, and the tests of them.

    Attributes:
        who: the column that says whose error a row has.
        along: the column along which curves run.
        place: columns in which two measurements of the same thing agree, where they have them.
        names: what curves are called in words, where that isn't what ``who`` says.
    """

    who: str
    along: str
    place: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)

    def of(self, rows: pd.DataFrame, curve: str) -> pd.DataFrame:
        """The rows of one curve."""
        return rows[rows[self.who] == curve] if self.who in rows else rows.iloc[:0]

    def pairs(self, rows: pd.DataFrame, left: str, right: str, measure: str = "mse") -> pd.DataFrame:
        """Pair two curves in the same place: ``difference`` is left less right."""
        return paired(self.of(rows, left), self.of(rows, right), self.place, measure)

    def at(self, pairs: pd.DataFrame, measure: str = "difference") -> dict[tuple[str, float], Interval]:
        """The mean of paired differences in each point of each data set's curves, with its interval."""
        points = pairs.groupby([*(name for name in ("dataset",) if name in pairs), self.along])
        found: Iterable[tuple[tuple[Any, ...], pd.DataFrame]] = points
        return {(str(key[0]), float(key[-1])): interval_over(part, measure) for key, part in found if len(part)}

    def name(self, curve: str) -> str:
        """What a curve is called in words."""
        return self.names.get(curve, curve)

    def below(self, better: str, *others: str, mostly: bool = False) -> Test:
        """Whether one errs less than each of the others at every point for certain; ``mostly``: at most of them."""

        def tested(rows: pd.DataFrame) -> Finding:
            return joined(
                self.surely(
                    self.pairs(rows, other, better),
                    f"{self.name(better)} errs less than {self.name(other)} by",
                    mostly=mostly,
                )
                for other in others
            )

        return tested

    def surely(self, pairs: pd.DataFrame, words: str, *, mostly: bool = False, measure: str = "difference") -> Finding:
        """Whether differences are above 0 at each point for certain; ``words`` lead to their mean."""
        points = self.at(pairs, measure)
        if not points:
            return NOTHING
        held = {point: one.low > 0 for point, one in points.items()}
        overall = interval_over(pairs, measure, [name for name in ("dataset", "seed", "start") if name in pairs])
        said = f"{words} {interval_words(overall)} on average, and surely at {sum(held.values())} of {len(held)} "
        said += f"values of {self.along}{self._failing(held)}"
        if alone := sum(one.alone for one in points.values()):
            said += f" (at {alone} of them there is one window and seed, no interval, and its sign decides)"
        found = Finding(list(held.values()), f"{said}.")
        return for_most(found) if mostly else found

    def alike(self, first: str, second: str, share: float, least: float = 0.0) -> Test:
        """Whether two curves are as good as the same at each point: a share of the larger error apart at most."""

        def tested(rows: pd.DataFrame) -> Finding:
            pairs = self.pairs(rows, first, second)
            means = pairs.groupby(["dataset", self.along])[["left", "right"]].mean()
            if means.empty:
                return NOTHING
            apart = (means["left"] - means["right"]).abs()
            close = apart <= (share * means.max(axis=1)).clip(lower=least)
            held: dict[tuple[str, float], bool] = dict(zip(means.index, close.tolist(), strict=True))
            gap = interval_over(pairs, "difference")
            return Finding(
                list(held.values()),
                f"{self.name(first)} errs more than {self.name(second)} by {interval_words(gap)} on average; "
                f"within {share:.0%} at {sum(held.values())} of {len(held)} values of {self.along}"
                f"{self._failing(held)}, {(apart / means.max(axis=1)).max():.1%} apart at most.",
            )

        return tested

    def grows(self, *curves: str, measure: str = "mse", falls: bool = False) -> Test:
        """Whether a measure rises (or falls) along curves: its rank correlation over windows and seeds."""

        def tested(rows: pd.DataFrame) -> Finding:
            found = {
                self.name(one): trend(self.of(rows, one).dropna(subset=measure), self.along, measure) for one in curves
            }
            known = {name: one for name, one in found.items() if one is not None}
            return listed(
                f"Rank correlation with {self.along}",
                known,
                lambda one: one.high < 0 if falls else one.low > 0,
                interval_words,
            )

        return tested

    def _failing(self, held: Mapping[tuple[str, float], bool]) -> str:
        """Where something doesn't hold, unless it is nowhere or everywhere."""
        failing = [point for point, one in held.items() if not one]
        if not failing or len(failing) == len(held):
            return ""
        several = len({name for name, _ in held}) > 1
        return f", not at {', '.join(f'{name} {at:.4g}' if several else f'{at:.4g}' for name, at in failing)}"


def joined(findings: Iterable[Finding]) -> Finding:
    """Several findings of one claim."""
    made = [one for one in findings if one.held]
    return Finding([held for one in made for held in one.held], " ".join(one.measured for one in made))


def for_most(found: Finding) -> Finding:
    """What is said of most parts is reproduced where more than half of them hold."""
    return Finding([True], found.measured) if sum(found.held) > len(found.held) / 2 else found


def trend(part: pd.DataFrame, against: str, measure: str) -> Interval | None:
    """Rank correlation of a measure with a column, for each window and seed, and its interval; None without one.

    Fewer than four points are none: three are in order by chance one time in six.
    """
    found = {
        key: 0.0 if own[measure].nunique() < 2 else float(spearmanr(own[against], own[measure]).statistic)
        for key, own in part.groupby(["seed", "start"])
        if own[against].nunique() >= FEWEST_POINTS
    }
    return interval_of(pd.Series(found).rename_axis(["seed", "start"]), ("seed", "start")) if found else None
