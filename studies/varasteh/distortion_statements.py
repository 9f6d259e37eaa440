"""What Varasteh says of disclosed parameters that were moved (section V-B and VI-B), and whether a run bears it out."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from studies.claims.statement import Statement, interval_over, interval_words
from studies.page.elements import number_words
from studies.varasteh.comparing import stated
from studies.varasteh.rotation import (
    AVERAGES,
    CLAMPED,
    HALF,
    IN_BOX,
    LEAST_SQUARES,
    MEAN_OF_BOTH,
    NAIVE,
    PREDICTED,
    REPEATS,
    RESCALES,
)

# "Close", "unaffected": by a tenth at most.
_NEAR = 0.1
# "Almost linear": correlation with epsilon.
_LINEAR = 0.99
# "A small perturbation": of the mean squared parameter.
SMALL = 0.1
_ROUNDING = 1e-9


def measured_only(data: pd.DataFrame) -> pd.DataFrame:
    """The rows that have errors."""
    return data[data[PREDICTED].notna()] if PREDICTED in data else data.iloc[:0]


def curves_of(data: pd.DataFrame) -> pd.DataFrame:
    """Means over windows and seeds of every curve: a row per data set, d, case and epsilon."""
    keys = ["dataset", "classes", "d", "case", "epsilon"]
    errors = [name for name in data.columns if name in (PREDICTED, NAIVE, CLAMPED, LEAST_SQUARES, IN_BOX, HALF)]
    means: pd.DataFrame = measured_only(data).groupby(keys, sort=False)[errors].mean().reset_index()
    return means


def trade_off_statements(data: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge Figures 9 to 11 and Remarks 9, 11, 15 and 16, from measures of ``distorted_errors``."""
    if not len(measured_only(data)):
        data = _nothing()
    curves = curves_of(data)
    return (
        *(_close_where_it_matters(curves, name) for name in ("bank", "adult")),
        *(_converge_with_d(curves, name) for name in ("bank", "adult")),
        _free_is_better(data),
        _closed_form_of_two_classes(data),
        *(_linear_below_half(curves, name) for name in ("bank", "adult", "satellite", "pendigits")),
        _shapes(curves),
        *(_others_suffer(data, words, column) for words, column in _OTHERS.items()),
        *(_small_is_enough(curves, name) for name in ("bank", "adult", "satellite", "pendigits")),
    )


_OTHERS = {"ls, clamped": LEAST_SQUARES, "rcc2": IN_BOX}
_COLUMNS = ("dataset", "classes", "d", "seed", "start", "case", "epsilon", "second_moment")


def _nothing() -> pd.DataFrame:
    columns = (*_COLUMNS, PREDICTED, NAIVE, CLAMPED, LEAST_SQUARES, IN_BOX, HALF)
    return pd.DataFrame({name: pd.Series(dtype=object if name in ("dataset", "case") else float) for name in columns})


def _both_cases(curves: pd.DataFrame, name: str) -> pd.DataFrame:
    """Errors of cases i and iv side by side, those of some distortion; ``ratio`` is iv's by i's."""
    here = curves[(curves["dataset"] == name) & (curves["epsilon"] > 0)]
    table = here.pivot_table(index=["d", "epsilon"], columns="case", values=[PREDICTED, HALF])
    if not {(PREDICTED, "i"), (PREDICTED, "iv")} <= set(table.columns):
        return pd.DataFrame(columns=["d", "epsilon", "ratio", "below"])
    free, rotated = table[PREDICTED, "iv"], table[PREDICTED, "i"]
    found = pd.DataFrame({"ratio": free / rotated, "below": rotated <= table[HALF, "iv"]}).dropna()
    return found.reset_index()


def _close_where_it_matters(curves: pd.DataFrame, name: str) -> Statement:
    found = _both_cases(curves, name)
    below, beyond = found[found["below"].astype(bool)], found[~found["below"].astype(bool)]
    held, words = [], ""
    if len(below):
        held = [bool(ratio <= 1 + _NEAR) for ratio in below["ratio"]]
        more = f"beyond it by up to {beyond['ratio'].max():.2f} times" if len(beyond) else "none is beyond it"
        words = (
            f"Where case i errs less than 1/2, case iv errs {below['ratio'].max():.2f} times as much at most, within a "
            f"tenth in {sum(held)} of {len(held)} pairs of d and epsilon; {more}."
        )
    paper = "Case i departs from case iv quickly, but stays close where the error is below that of 1/2."
    return stated("Figure 9", name, paper, held, words)


def _converge_with_d(curves: pd.DataFrame, name: str) -> Statement:
    found = _both_cases(curves, name)
    held, words = [], ""
    if found["d"].nunique() > 1:
        ratios = found.groupby("d")["ratio"].mean()
        held = [bool(later < earlier) for earlier, later in zip(ratios, ratios.iloc[1:], strict=False)]
        words = "Case iv's error by case i's, on average: " + ", ".join(
            f"{r:.2f} (d = {d:g})" for d, r in ratios.items()
        )
    paper = "With more passive features the results of case i and case iv converge."
    return stated("Figure 9", name, paper, held, words + "." if words else "")


def _free_is_better(data: pd.DataFrame) -> Statement:
    here = measured_only(data)
    keys = ["dataset", "d", "seed", "start", "epsilon"]
    table = here[here["case"].isin(["i", "iv"]) & (here["classes"] == 2)].pivot_table(
        index=keys, columns="case", values=PREDICTED
    )
    held, words = [], ""
    if {"i", "iv"} <= set(table.columns):
        more = (table["iv"] - table["i"]).dropna()
        held = (more >= -_ROUNDING).tolist()
        words = f"Case iv errs no less than case i in {sum(held)} of {len(held)}, by {more.mean():.4f} more on average."
    paper = "Free parameters offer solutions no worse than rotations."
    return stated("Remark 15", "two classes", paper, held, words)


def _closed_form_of_two_classes(data: pd.DataFrame) -> Statement:
    here = measured_only(data)
    here = here[(here["classes"] == 2) & (here["d"] == 1) & (here["epsilon"] > 0) & (here["epsilon"] < 1)]
    root = np.sqrt(here["epsilon"].astype(float))
    expected = here["second_moment"] * (root / (1 - root)) ** 2
    apart = (here[PREDICTED] / expected - 1).abs()
    held = (apart < 1e-6).tolist()
    words = f"Equal to {apart.max():.1g} of the error in {sum(held)} of {len(held)}." if held else ""
    paper = (
        "With one feature and two classes the best moves both parameters by the root of epsilon, towards each other."
    )
    reason = "Only for epsilon below a quarter of their squared difference; beyond, the error has no largest value."
    return stated("Remark 11", "two classes", paper, held, words, reason)


def _linear_below_half(curves: pd.DataFrame, name: str) -> Statement:
    here = curves[(curves["dataset"] == name) & (curves["d"] == 1)]
    below = here[here[PREDICTED] <= here[HALF]]
    held, words = [], ""
    if len(below) > 2:
        correlation = float(np.corrcoef(below["epsilon"], below[PREDICTED])[0, 1])
        held = [correlation >= _LINEAR]
        words = f"Correlation of error and epsilon over {len(below)} points below 1/2's error: {correlation:.3f}."
    return stated(
        "Figure 10", name, "With one feature, the trade-off is almost linear below the error of 1/2.", held, words
    )


def _shapes(curves: pd.DataFrame) -> Statement:
    kinds: dict[str, int] = {}
    for _, curve in curves.groupby(["dataset", "d", "case"], sort=False):
        part = curve.sort_values("epsilon")
        if len(part) > 2:
            slopes = np.diff(part[PREDICTED]) / np.diff(part["epsilon"].astype(float))
            bends = np.diff(slopes)
            limit = _ROUNDING * np.abs(slopes).max()
            kind = "convex" if (bends >= -limit).all() else "concave" if (bends <= limit).all() else "neither"
            kinds[kind] = kinds.get(kind, 0) + 1
    held = [kind in kinds for kind in ("convex", "concave", "neither")] if kinds else []
    words = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) + "." if kinds else ""
    paper = "The trade-off curves are sometimes convex, sometimes concave, sometimes neither."
    return stated("Figures 9 to 11", "all data sets", paper, held, words)


def _others_suffer(data: pd.DataFrame, words: str, column: str) -> Statement:
    here = measured_only(data)
    table = here[here["epsilon"].isin([0.0, SMALL])].pivot_table(
        index=["dataset", "d", "seed", "start", "case"], columns="epsilon", values=column
    )
    held, said = [], ""
    if {0.0, SMALL} <= set(table.columns):
        more = (table[SMALL] - table[0.0]).dropna().rename("difference").reset_index()
        found = [interval_over(part, "difference") for _, part in more.groupby(["dataset", "d"])]
        held = [one.low > 0 for one in found]
        mean = interval_over(more, "difference", by=("dataset", "seed", "start"))
        said = (
            f"At epsilon {SMALL:g} it errs {interval_words(mean)} more than without the defence; surely more at "
            f"{sum(held)} of {len(held)} pairs of data set and d."
        )
    paper = "A defence that is made against half* would likely lower other attacks as well (which it leaves open)."
    return stated("Remark 9", words, paper, held, said)


def _small_is_enough(curves: pd.DataFrame, name: str) -> Statement:
    here = curves[(curves["dataset"] == name) & (curves["case"] != "i" if name in ("bank", "adult") else True)]
    held, words = [], ""
    table = here.pivot_table(index="d", columns="epsilon", values=[NAIVE, HALF])
    if {(NAIVE, 0.0), (NAIVE, SMALL)} <= set(table.columns):
        before, after, half = table[NAIVE, 0.0], table[NAIVE, SMALL], table[HALF, 0.0]
        way = (after - before) / (half - before)
        held = [bool(one >= 0.5) for one in way]
        words = (
            f"At epsilon {SMALL:g}, half* errs by {after.mean():.3f} in place of {before.mean():.3f}; 1/2 by "
            f"{half.mean():.3f}. Half of the way to 1/2 or more at {sum(held)} of {len(held)} numbers of columns."
        )
    paper = "A small perturbation of the parameters improves privacy significantly."
    return stated("Remark 16", name, paper, held, words)


# --- Figures 12 and 13 ---------------------------------------------------------------------------------------------


def few_columns_statements(data: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge Figure 13: two passive columns need more epsilon than others."""
    curves = curves_of(data if len(measured_only(data)) else _nothing())
    return tuple(_two_need_more(curves, name) for name in ("pendigits", "satellite"))


def _two_need_more(curves: pd.DataFrame, name: str) -> Statement:
    here = curves[curves["dataset"] == name]
    held, words = [], ""
    needed = {float(str(d)): _needed(part) for d, part in here.groupby("d")}
    if 2 in needed and len(needed) > 1:
        held = [needed[2] > other for d, other in needed.items() if d != 2]
        said = ", ".join(f"{_epsilon_words(one)} (d = {d:g})" for d, one in sorted(needed.items()))
        words = f"Least epsilon that adds a tenth of 1/2's error to half*'s: {said}."
    paper = "With two features, more epsilon is needed for a noticeable change of the error than in other cases."
    return stated("Figures 12 and 13", name, paper, held, words)


def _needed(part: pd.DataFrame) -> float:
    """The least measured epsilon that adds a tenth of 1/2's error to half*'s."""
    added = part[PREDICTED] - part.loc[part["epsilon"] == 0, PREDICTED].min()
    enough = part[added >= _NEAR * part[HALF]]
    return float(enough["epsilon"].min()) if len(enough) else np.inf


def _epsilon_words(value: float) -> str:
    return number_words(value) if np.isfinite(value) else "more than measured"


def level_statements(data: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge Figure 12, from measures of ``distorted_errors`` at some epsilons and many d."""
    curves = curves_of(data if len(measured_only(data)) else _nothing())
    names = ("satellite", "bank", "pendigits", "adult")
    return (
        *(statement for name in names for statement in _gap_varies(curves, name)),
        *(_two_unmoved(curves, name) for name in ("satellite", "pendigits")),
    )


def _gap_varies(curves: pd.DataFrame, name: str) -> Iterator[Statement]:
    here = curves[curves["dataset"] == name].pivot_table(index="d", columns="epsilon", values=PREDICTED)
    held, words = [], []
    if 0.0 in here and len(here) > 1:
        for epsilon in (float(one) for one in here.columns if float(one) > 0):
            gap = (here[epsilon] - here[0.0]).dropna()
            held.append(bool(gap.max() > 2 * gap.min()))
            words.append(f"{gap.min():.4f} to {gap.max():.4f} (epsilon {epsilon:g})")
    paper = "For a fixed epsilon the gap between the error and that of half* without the defence varies with d."
    yield stated("Figure 12", name, paper, held, f"Gap over d: {', '.join(words)}.")


def _two_unmoved(curves: pd.DataFrame, name: str) -> Statement:
    here = curves[(curves["dataset"] == name) & (curves["d"] == 2) & (curves["epsilon"] > 0)]
    held, words = [], ""
    if len(here) > 1:
        limit = _NEAR * here[HALF]
        held = (here[PREDICTED] <= limit).tolist()
        said = ", ".join(f"{e:.4f} ({eps:g})" for eps, e in zip(here["epsilon"], here[PREDICTED], strict=True))
        words = f"Error at each epsilon: {said}; 1/2 errs by {here[HALF].mean():.4f}."
    return stated("Figure 12", name, "With two features the error doesn't change with these epsilons.", held, words)


# --- secrets -------------------------------------------------------------------------------------------------------


def secret_statements(data: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge Remarks 10, 13 and 14, from measures of ``secret_errors``."""
    there = data[data[REPEATS].notna()] if REPEATS in data else _without_secrets()
    secret = there["secret"].isin(["sign", "epsilon"])
    return (
        _averaging(there[~secret]),
        _repeating(there[~secret]),
        _repeating_secrets(there[secret]),
        _rescaling(there),
    )


def _without_secrets() -> pd.DataFrame:
    return pd.DataFrame(columns=["dataset", "secret", REPEATS, RESCALES, HALF, AVERAGES, MEAN_OF_BOTH])


def _averaging(found: pd.DataFrame) -> Statement:
    held = (found[AVERAGES] >= found[MEAN_OF_BOTH] - _ROUNDING).tolist()
    words = f"The average errs by {found[AVERAGES].mean():.4f}, both on average by {found[MEAN_OF_BOTH].mean():.4f}."
    paper = "Who averages the estimates of R = I and R = -I can't err less than both do on average."
    reason = (
        "The mean squared error is convex: an average errs by the average of the errors at most, here by much less."
    )
    return stated("Remark 10", "one feature", paper, held, words, reason)


def _repeating(found: pd.DataFrame) -> Statement:
    held = (found[REPEATS] < _ROUNDING).tolist()
    words = f"Who repeats it errs by {number_words(float(found[REPEATS].max()))} at most." if held else ""
    paper = "It doesn't depend on the data, so the active party can repeat the optimisation, and undo it."
    return stated("Remark 13", "one feature, no secret", paper, held, words)


def _repeating_secrets(found: pd.DataFrame) -> Statement:
    held = (found[REPEATS] > _ROUNDING).tolist()
    means = found.groupby("secret")[[REPEATS, HALF]].mean()
    said = ", ".join(f"{row[REPEATS]:.4f} ({secret})" for secret, row in means.iterrows())
    words = f"Who repeats it all the same errs by {said}, 1/2 by {found[HALF].mean():.4f}."
    return stated("Remarks 10 and 13", "one feature", "A secret sign or a secret epsilon prevents that.", held, words)


def _rescaling(found: pd.DataFrame) -> Statement:
    held = (found[RESCALES] < found[HALF]).tolist()
    means = found.groupby("dataset", sort=False)[[RESCALES, HALF]].mean()
    said = ", ".join(f"{row[RESCALES]:.4f} of {row[HALF]:.4f} ({name})" for name, row in means.iterrows())
    words = f"Who divides by the extreme estimate errs less than 1/2 in {sum(held)} of {len(held)}: by {said}."
    paper = "Parameters that were only scaled don't stay secret."
    reason = "It takes a record with the column's largest value among those that are predicted."
    return stated("Remark 14", "one feature", paper, held, words, reason)
