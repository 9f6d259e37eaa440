"""Kinds of statements that this paper makes of curves, and the verdicts that measurements give them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from studies.claims.statement import Statement, Verdict, interval_over, interval_words, verdict_of
from studies.jiang.inversion.curve_comparisons import curve_of, differences, times_of, trend
from studies.jiang.inversion.inversion_setting import DATA_SETS, size_of
from studies.page.elements import number_words

# What a plot's reader takes for zero and for one; for the same; for near the random guess.
NEAR_ZERO, NEAR_ONE, ALIKE, NEAR_RANDOM = 0.005, 0.97, 0.10, 0.25
# Beside what is relative: errors that differ by so little are alike.
_ALIKE_AT_LEAST = 0.002


@dataclass(frozen=True)
class Finding:
    """What was measured of a statement, before it is put beside the paper's words.

    Attributes:
        verdict: computed.
        measured: numbers in words.
    """

    verdict: Verdict
    measured: str

    def as_statement(self, source: str, subject: str, paper: str, reason: str = "") -> Statement:
        """Put it beside the paper's words; a reason is given where something isn't as the paper says."""
        told = reason if self.verdict in ("in part", "differs") else ""
        return Statement(source, subject, paper, self.verdict, self.measured, told)


NOTHING = Finding("not measured", "No measurement of this was finished.")


def data_sets_of(results: pd.DataFrame) -> list[str]:
    """The data sets of a frame."""
    return [str(name) for name in results["dataset"].dropna().unique()]


def absent(results: pd.DataFrame, source: str, of_paper: Sequence[str] = DATA_SETS) -> tuple[Statement, ...]:
    """One statement on the paper's data sets that a frame lacks: of these nothing was measured."""
    missing = [name for name in of_paper if name not in data_sets_of(results)]
    if not missing:
        return ()
    words = "What is said of these data sets as well."
    return (Statement(source, ", ".join(missing), words, "not measured", "They were not part of this run."),)


def near(results: pd.DataFrame, name: str, curves: Sequence[str], measure: str = "mse", *, most_d: int) -> Finding:
    """Whether curves are at their best (error 0, accuracy 1) up to so many passive columns."""
    held, words = [], []
    for curve in curves:
        part = curve_of(results, name, curve)
        part = part[part["d"] <= most_d].dropna(subset=measure)
        if part.empty:
            continue
        found = interval_over(part, measure)
        held.append(found.mean <= NEAR_ZERO if measure == "mse" else found.mean >= NEAR_ONE)
        words.append(f"{curve} {interval_words(found)}")
    sizes = sorted(curve_of(results, name, curves[0]).query("d <= @most_d")["d"].unique()) if held else []
    return Finding(verdict_of(held), f"At d = {_listed(sizes)}: {'; '.join(words)}.") if held else NOTHING


def moves(results: pd.DataFrame, name: str, curves: Sequence[str], measure: str, *, up: bool) -> Finding:
    """Whether a measure rises (or falls) with r: its rank correlation with r over windows and seeds."""
    held, words = [], []
    for curve in curves:
        found = trend(curve_of(results, name, curve).dropna(subset=measure), "ratio", measure)
        if found is not None:
            held.append(found.low > 0 if up else found.high < 0)
            words.append(f"{curve} {interval_words(found)}")
    return Finding(verdict_of(held), f"Rank correlation with r: {'; '.join(words)}.") if held else NOTHING


def approaches(results: pd.DataFrame, name: str, curves: Sequence[str], guess: str) -> Finding:
    """Whether errors come near those of a guess: the gap shrinks with r, and ends within a quarter of the guess's."""
    held, words = [], []
    for curve in curves:
        pairs = differences(results, name, curve, guess)
        if pairs["ratio"].nunique() < 2:
            continue
        ends = pairs.assign(gap=pairs["difference"].abs(), times=pairs["left"] / pairs["right"])
        first, last = (ends[ends["ratio"] == end] for end in (ends["ratio"].min(), ends["ratio"].max()))
        gaps = first.merge(last, on=["seed", "start"])
        shrunk = interval_over(gaps.assign(shrunk=gaps["gap_x"] - gaps["gap_y"]), "shrunk")
        final = float(last["left"].mean() / last["right"].mean())
        held += [shrunk.low > 0, abs(final - 1) <= NEAR_RANDOM]
        words.append(
            f"{curve}'s distance from it shrinks by {interval_words(shrunk)}, and ends at {final:.2f} times its error"
        )
    return Finding(verdict_of(held), f"{'; '.join(words)}.") if held else NOTHING


def below(
    results: pd.DataFrame,
    name: str,
    first: str,
    second: str,
    measure: str = "mse",
    *,
    mostly: bool = False,
    above: int = 0,
) -> Finding:
    """Whether the first curve is the better one at every r (or at most): smaller errors, or a larger accuracy.

    Each r is judged by the interval of paired differences, and so is the mean over them. Only more than ``above``
    passive columns count, and no r at which both are at their best.
    """
    pairs = differences(results.dropna(subset=measure), name, first, second, measure)
    pairs = pairs[pairs["d"] > above]
    pairs = pairs.assign(gain=pairs["difference"] * (-1.0 if measure == "mse" else 1.0))
    points = {ratio: interval_over(part, "gain") for ratio, part in _open_points(pairs, measure)}
    if not points:
        return NOTHING
    held = [point.low > 0 for point in points.values()]
    overall = interval_over(pairs[pairs["ratio"].isin(points)], "gain")
    how = "errs less than" if measure == "mse" else "is more accurate than"
    words = (
        f"{first} {how} {second} by {interval_words(overall)} on average, and surely at {sum(held)} of {len(held)} r"
    )
    verdict: Verdict = verdict_of([*held, overall.low > 0])
    if mostly and sum(held) > len(held) / 2:
        verdict = "reproduced"
    return Finding(verdict, f"{words}.")


def _open_points(pairs: pd.DataFrame, measure: str) -> Iterable[tuple[float, pd.DataFrame]]:
    for ratio in sorted(pairs["ratio"].unique()):
        part = pairs[pairs["ratio"] == ratio]
        both = part[["left", "right"]].to_numpy()
        if not (np.all(both <= 1e-6) if measure == "mse" else np.all(both >= 1)):
            yield float(ratio), part


def fewer_times(results: pd.DataFrame, name: str, first: str, second: str, *, ratio: float, least: float) -> Finding:
    """Whether the second curve errs so many times as much as the first at one r on average, and more for sure."""
    pairs = differences(results, name, first, second)
    pairs = pairs[pairs["d"] == size_of(name, ratio)]
    if pairs.empty:
        return NOTHING
    times = times_of(pairs)
    return Finding(
        verdict_of([times.low > 1, times.mean >= least]),
        f"{second} errs {interval_words(times)} times as much as {first} at r = {pairs['ratio'].iloc[0]:.2f}.",
    )


def alike(results: pd.DataFrame, name: str, first: str, second: str) -> Finding:
    """Whether two curves are alike at each r: within a tenth of the larger."""
    pairs = differences(results, name, first, second)
    if pairs.empty:
        return NOTHING
    held = []
    for _, part in pairs.groupby("ratio"):
        larger = max(part["left"].mean(), part["right"].mean())
        held.append(abs(part["difference"].mean()) <= max(ALIKE * larger, _ALIKE_AT_LEAST))
    gap = interval_over(pairs, "difference")
    return Finding(
        verdict_of(held),
        f"{first} errs more than {second} by {interval_words(gap)} on average; within a tenth at {sum(held)} of "
        f"{len(held)} r.",
    )


def joined(findings: Sequence[Finding]) -> Finding:
    """Several findings of one statement: reproduced if all are, differs if none holds at all."""
    made = [finding for finding in findings if finding.verdict != "not measured"]
    if not made:
        return NOTHING
    held = [finding.verdict == "reproduced" for finding in made]
    some = any(finding.verdict != "differs" for finding in made)
    verdict: Verdict = "reproduced" if all(held) else "in part" if some else "differs"
    return Finding(verdict, " ".join(finding.measured for finding in made))


def mean_errors(results: pd.DataFrame, name: str, curves: Sequence[str], *, ratio: float | None = None) -> str:
    """Mean errors of curves, over all r or at one, in words; empty where none was measured."""
    parts = {curve: curve_of(results, name, curve) for curve in curves}
    if ratio is not None:
        parts = {curve: part[part["d"] == size_of(name, ratio)] for curve, part in parts.items()}
    return ", ".join(f"{curve} {number_words(float(part['mse'].mean()))}" for curve, part in parts.items() if len(part))


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(str(size) for size in sizes)
