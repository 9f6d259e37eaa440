"""What this paper says of curves against r, as tests of the measurements on one data set."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from plumbline.judge.measures import Interval, LoneMean
from studies.claims.claim import NOTHING, Claim, Finding, Test, judged
from studies.claims.kinds import Curves, joined, listed, where
from studies.claims.statement import Statement, interval_over, interval_words
from studies.jiang.inversion.inversion_setting import DATA_SETS, size_of
from studies.page.elements import number_words

# What a plot's reader takes for zero and for one; for the same; for near the random guess.
NEAR_ZERO, NEAR_ONE, ALIKE, NEAR_RANDOM = 0.005, 0.97, 0.10, 0.25
# Beside what is relative: errors that differ by so little are alike.
ALIKE_AT_LEAST = 0.002
CURVES = Curves("curve", "ratio", ("dataset", "d", "ratio", "predictions", "seed", "start"))


def data_sets_of(results: pd.DataFrame) -> list[str]:
    """The data sets of a frame."""
    return [str(name) for name in results["dataset"].dropna().unique()]


def of_each(
    claims: Sequence[Claim], results: pd.DataFrame, of_paper: Sequence[str] = DATA_SETS
) -> tuple[Statement, ...]:
    """Judge claims on each data set of a frame, but for those of another one; the paper's others were not measured."""
    names = data_sets_of(results)
    own = [one for name in names for claim in claims if claim.dataset in {"", name} for one in claim.on(name)]
    missing = ", ".join(name for name in of_paper if name not in names)
    told = "They were not part of this run."
    absent = (Statement(claims[0].source, missing, "What is said of these data sets as well.", "not measured", told),)
    return (*judged(own, where(results)), *(absent if missing else ()))


def near(curves: Sequence[str], most_d: Callable[[str], int], measure: str = "mse") -> Test:
    """Whether curves are at their best (error 0, accuracy 1) up to so many passive columns of a data set."""

    def tested(rows: pd.DataFrame) -> Finding:
        few = rows[rows["d"] <= most_d(str(rows["dataset"].iloc[0]))].dropna(subset=measure)
        found = {curve: interval_over(own, measure) for curve in curves if len(own := CURVES.of(few, curve))}
        sizes = ", ".join(map(str, sorted(few["d"].unique())))
        return listed(
            f"At d = {sizes}",
            found,
            lambda one: one.mean <= NEAR_ZERO if measure == "mse" else one.mean >= NEAR_ONE,
            interval_words,
        )

    return tested


def approaches(curves: Sequence[str], guess: str) -> Test:
    """Whether errors come near those of a guess: the gap shrinks with r, and ends within a quarter of the guess's."""

    def tested(rows: pd.DataFrame) -> Finding:
        return joined(_approaches(CURVES.pairs(rows, curve, guess), curve) for curve in curves)

    return tested


def _approaches(pairs: pd.DataFrame, curve: str) -> Finding:
    if pairs["ratio"].nunique() < 2:
        return NOTHING
    ends = pairs.assign(gap=pairs["difference"].abs())
    first, last = (ends[ends["ratio"] == end] for end in (ends["ratio"].min(), ends["ratio"].max()))
    gaps = first.merge(last, on=["seed", "start"])
    shrunk = interval_over(gaps.assign(shrunk=gaps["gap_x"] - gaps["gap_y"]), "shrunk")
    final = float(last["left"].mean() / last["right"].mean())
    return Finding(
        [shrunk.low > 0, abs(final - 1) <= NEAR_RANDOM],
        f"{curve}'s distance from it shrinks by {interval_words(shrunk)}, and ends at {final:.2f} times its error.",
    )


def below(
    first: str, second: str, measure: str = "mse", *, mostly: bool = False, above: Callable[[str], int] | None = None
) -> Test:
    """Whether the first curve is the better one at every r (or at most): smaller errors, or a larger accuracy.

    Each r is judged by the interval of paired differences, and so is the mean over them. Only more passive columns than
    ``above`` says of a data set's name count, and no r at which both are at their best.
    """

    def tested(rows: pd.DataFrame) -> Finding:
        fewest = 0 if above is None else above(str(rows["dataset"].iloc[0]))
        known = rows[rows["d"] > fewest].dropna(subset=measure)
        is_error = measure == "mse"
        pairs = CURVES.pairs(known, *((second, first) if is_error else (first, second)), measure)
        both = pairs[["left", "right"]]
        short = (both > 1e-6 if is_error else both < 1).any(axis=1)
        pairs = pairs[short.groupby(pairs["ratio"]).transform("any")]
        if not len(pairs):
            return NOTHING
        how = "errs less than" if is_error else "is more accurate than"
        found = CURVES.surely(pairs, f"{first} {how} {second} by", mostly=mostly)
        if mostly and all(found.held):
            return found
        return Finding([*found.held, interval_over(pairs, "difference").low > 0], found.measured)

    return tested


def fewer_times(first: str, second: str, *, ratio: float, least: float) -> Test:
    """Whether the second curve errs so many times as much as the first at one r on average, and more for sure."""

    def tested(rows: pd.DataFrame) -> Finding:
        pairs = CURVES.pairs(rows, first, second)
        pairs = pairs[pairs["d"] == size_of(str(rows["dataset"].iloc[0]), ratio)]
        if pairs.empty:
            return NOTHING
        times = _times_of(pairs)
        return Finding(
            [times.low > 1, times.mean >= least],
            f"{second} errs {interval_words(times)} times as much as {first} at r = {pairs['ratio'].iloc[0]:.2f}.",
        )

    return tested


def _times_of(pairs: pd.DataFrame) -> Interval:
    """How many times as large the right curve is as the left: a ratio of means, over windows and seeds."""
    first, second = pairs["left"].to_numpy(), pairs["right"].to_numpy()
    if len(pairs) < 2:
        return LoneMean(float(second.mean() / first.mean()))
    rows = np.random.default_rng(0).integers(0, len(pairs), (2000, len(pairs)))
    low, high = np.quantile(second[rows].mean(axis=1) / first[rows].mean(axis=1), (0.025, 0.975))
    return Interval(float(second.mean() / first.mean()), float(low), float(high))


def all_of(*tests: Test) -> Test:
    """Whether several tests of the same rows hold."""
    return lambda rows: joined(test(rows) for test in tests)


def with_errors(test: Test, *curves: str, ratio: float | None = None) -> Test:
    """A test that tells curves' mean errors as well, over all r or at one."""

    def tested(rows: pd.DataFrame) -> Finding:
        found = test(rows)
        name = str(rows["dataset"].iloc[0])
        there = rows if ratio is None else rows[rows["d"] == size_of(name, ratio)]
        means = {curve: CURVES.of(there, curve)["mse"].mean() for curve in curves}
        said = ", ".join(f"{curve} {number_words(float(one))}" for curve, one in means.items() if not np.isnan(one))
        return Finding(found.held, f"{found.measured} Mean errors: {said}.") if found.held and said else found

    return tested
