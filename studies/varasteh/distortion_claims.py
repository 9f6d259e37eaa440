"""What Varasteh says of disclosed parameters that were moved (section V-B and VI-B), and how a run is put to it."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from studies.claims.claim import NOTHING, Claim, Finding, Test, judged
from studies.claims.kinds import FEWEST_POINTS, among
from studies.claims.statement import Statement, interval_over, interval_words
from studies.page.elements import number_words
from studies.varasteh.rivals import ADULT
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
# "Almost linear": a straight line explains so much of the error's variance.
_LINEAR = 0.95
# "A small perturbation": of the mean squared parameter.
SMALL = 0.1
_ROUNDING = 1e-9


def measured_only(data: pd.DataFrame) -> pd.DataFrame:
    """The rows that have errors."""
    return data[data[PREDICTED].notna()] if PREDICTED in data else data.iloc[:0]


def _on_curves(test: Callable[[pd.DataFrame], Finding]) -> Test:
    """A test of means over windows and seeds: a row per data set, d, case and epsilon."""
    keys = ["dataset", "classes", "d", "case", "epsilon"]
    errors = (PREDICTED, NAIVE, CLAMPED, LEAST_SQUARES, IN_BOX, HALF)

    def means(rows: pd.DataFrame) -> pd.DataFrame:
        there = [name for name in errors if name in rows]
        return rows.groupby(keys, sort=False)[there].mean().reset_index()

    return among(means, test)


def _both_cases(curves: pd.DataFrame) -> pd.DataFrame:
    """Errors of cases i and iv side by side, those of some distortion; ``ratio`` is iv's by i's."""
    here = curves[curves["epsilon"] > 0]
    table = here.pivot_table(index=["d", "epsilon"], columns="case", values=[PREDICTED, HALF])
    if not {(PREDICTED, "i"), (PREDICTED, "iv")} <= set(table.columns):
        return pd.DataFrame(columns=["d", "epsilon", "ratio", "below"])
    free, rotated = table[PREDICTED, "iv"], table[PREDICTED, "i"]
    found = pd.DataFrame({"ratio": free / rotated, "below": rotated <= table[HALF, "iv"]}).dropna()
    return found.reset_index()


def _close_where_it_matters(curves: pd.DataFrame) -> Finding:
    found = _both_cases(curves)
    below, beyond = found[found["below"].astype(bool)], found[~found["below"].astype(bool)]
    if not len(below):
        return NOTHING
    held = (below["ratio"] <= 1 + _NEAR).tolist()
    more = f"beyond it by up to {beyond['ratio'].max():.2f} times" if len(beyond) else "none is beyond it"
    return Finding(
        held,
        f"Where case i errs less than 1/2, case iv errs {below['ratio'].max():.2f} times as much at most, within a "
        f"tenth in {sum(held)} of {len(held)} pairs of d and epsilon; {more}.",
    )


def _converge_with_d(curves: pd.DataFrame) -> Finding:
    ratios = _both_cases(curves).groupby("d")["ratio"].mean()
    if len(ratios) < 2:
        return NOTHING
    said = ", ".join(f"{ratio:.2f} (d = {d:g})" for d, ratio in ratios.items())
    return Finding((ratios.diff().dropna() < 0).tolist(), f"Case iv's error by case i's, on average: {said}.")


def _free_is_better(rows: pd.DataFrame) -> Finding:
    table = rows[rows["case"].isin(["i", "iv"]) & (rows["classes"] == 2)].pivot_table(
        index=["dataset", "d", "seed", "start", "epsilon"], columns="case", values=PREDICTED
    )
    if not {"i", "iv"} <= set(table.columns):
        return NOTHING
    more = (table["iv"] - table["i"]).dropna()
    held = (more >= -_ROUNDING).tolist()
    return Finding(
        held, f"Case iv errs no less than case i in {sum(held)} of {len(held)}, by {more.mean():.4f} more on average."
    )


def _closed_form_of_two_classes(rows: pd.DataFrame) -> Finding:
    here = rows[(rows["classes"] == 2) & (rows["d"] == 1) & (rows["epsilon"] > 0) & (rows["epsilon"] < 1)]
    root = np.sqrt(here["epsilon"].astype(float))
    apart = (here[PREDICTED] / (here["second_moment"] * (root / (1 - root)) ** 2) - 1).abs()
    held = (apart < 1e-6).tolist()
    return Finding(held, f"Equal to {apart.max():.1g} of the error in {sum(held)} of {len(held)}." if held else "")


def _linear_below_half(curves: pd.DataFrame) -> Finding:
    here = curves[curves["d"] == 1]
    below = here[here[PREDICTED] <= here[HALF]]
    if len(below) < FEWEST_POINTS:
        return NOTHING
    explained = float(np.corrcoef(below["epsilon"], below[PREDICTED])[0, 1]) ** 2
    words = f"A straight line explains {explained:.1%} of the variance of {len(below)} points below 1/2's error."
    return Finding([explained >= _LINEAR], words)


def _shapes(curves: pd.DataFrame) -> Finding:
    kinds: dict[str, int] = {}
    for _, curve in curves.groupby(["dataset", "d", "case"], sort=False):
        part = curve.sort_values("epsilon")
        if len(part) > 2:
            slopes = np.diff(part[PREDICTED]) / np.diff(part["epsilon"].astype(float))
            bends = np.diff(slopes)
            limit = _ROUNDING * np.abs(slopes).max()
            kind = "convex" if (bends >= -limit).all() else "concave" if (bends <= limit).all() else "neither"
            kinds[kind] = kinds.get(kind, 0) + 1
    if not kinds:
        return NOTHING
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return Finding([kind in kinds for kind in ("convex", "concave", "neither")], f"{said}.")


def _suffers(column: str, rows: pd.DataFrame) -> Finding:
    table = rows[rows["epsilon"].isin([0.0, SMALL])].pivot_table(
        index=["dataset", "d", "seed", "start", "case"], columns="epsilon", values=column
    )
    if not {0.0, SMALL} <= set(table.columns):
        return NOTHING
    more = (table[SMALL] - table[0.0]).dropna().rename("difference").reset_index()
    held = [interval_over(part, "difference").low > 0 for _, part in more.groupby(["dataset", "d"])]
    mean = interval_over(more, "difference", by=("dataset", "seed", "start"))
    return Finding(
        held,
        f"At epsilon {SMALL:g} it errs {interval_words(mean)} more than without the defence; surely more at "
        f"{sum(held)} of {len(held)} pairs of data set and d.",
    )


def _small_is_enough(curves: pd.DataFrame) -> Finding:
    here = curves[(curves["case"] != "i") | (curves["classes"] != 2)]
    table = here.pivot_table(index="d", columns="epsilon", values=[NAIVE, HALF])
    if not {(NAIVE, 0.0), (NAIVE, SMALL)} <= set(table.columns):
        return NOTHING
    before, after, half = table[NAIVE, 0.0], table[NAIVE, SMALL], table[HALF, 0.0]
    held = ((after - before) / (half - before) >= 0.5).tolist()
    return Finding(
        held,
        f"At epsilon {SMALL:g}, half* errs by {after.mean():.3f} in place of {before.mean():.3f}; 1/2 by "
        f"{half.mean():.3f}. Half of the way to 1/2 or more at {sum(held)} of {len(held)} numbers of columns.",
    )


_EVERY = ("bank", ADULT, "satellite", "pendigits")
_TRADE_OFFS = (
    *Claim(
        "Figure 9",
        "Case i departs from case iv quickly, but stays close where the error is below that of 1/2.",
        _on_curves(_close_where_it_matters),
    ).on("bank", ADULT),
    *Claim(
        "Figure 9",
        "With more passive features the results of case i and case iv converge.",
        _on_curves(_converge_with_d),
    ).on("bank", ADULT),
    Claim(
        "Remark 15", "Free parameters offer solutions no worse than rotations.", _free_is_better, subject="two classes"
    ),
    Claim(
        "Remark 11",
        "With one feature and two classes the best moves both parameters by the root of epsilon, towards each other.",
        _closed_form_of_two_classes,
        "Only for epsilon below a quarter of their squared difference; beyond, the error has no largest value.",
        "two classes",
    ),
    *Claim(
        "Figure 10",
        "With one feature, the trade-off is almost linear below the error of 1/2.",
        _on_curves(_linear_below_half),
    ).on(*_EVERY),
    Claim(
        "Figures 9 to 11",
        "The trade-off curves are sometimes convex, sometimes concave, sometimes neither.",
        _on_curves(_shapes),
    ),
    *(
        Claim(
            "Remark 9",
            "A defence that is made against half* would likely lower other attacks as well (which it leaves open).",
            partial(_suffers, column),
            subject=words,
        )
        for words, column in (("ls, clamped", LEAST_SQUARES), ("rcc2", IN_BOX))
    ),
    *Claim(
        "Remark 16",
        "A small perturbation of the parameters improves privacy significantly.",
        _on_curves(_small_is_enough),
    ).on(*_EVERY),
)


def trade_off_statements(data: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge the claims of Figures 9 to 11 and Remarks 9, 11, 15 and 16 by measures of ``distorted_errors``."""
    return judged(_TRADE_OFFS, measured_only(data))


# --- Figures 12 and 13 ---------------------------------------------------------------------------------------------


def _two_need_more(curves: pd.DataFrame) -> Finding:
    needed = {float(str(d)): _needed(part) for d, part in curves.groupby("d")}
    if 2 not in needed or len(needed) < 2:
        return NOTHING
    said = ", ".join(
        f"{number_words(one) if np.isfinite(one) else 'more than measured'} (d = {d:g})"
        for d, one in sorted(needed.items())
    )
    return Finding(
        [needed[2] > other for d, other in needed.items() if d != 2],
        f"Least epsilon that adds a tenth of 1/2's error to half*'s: {said}.",
    )


def _needed(part: pd.DataFrame) -> float:
    """The least measured epsilon that adds a tenth of 1/2's error to half*'s."""
    added = part[PREDICTED] - part.loc[part["epsilon"] == 0, PREDICTED].min()
    enough = part[added >= _NEAR * part[HALF]]
    return float(enough["epsilon"].min()) if len(enough) else np.inf


def _gap_varies(curves: pd.DataFrame) -> Finding:
    here = curves.pivot_table(index="d", columns="epsilon", values=PREDICTED)
    if 0.0 not in here or len(here) < 2:
        return NOTHING
    distorted = [float(one) for one in here.columns if float(one) > 0]
    gaps = {epsilon: (here[epsilon] - here[0.0]).dropna() for epsilon in distorted}
    said = ", ".join(f"{gap.min():.4f} to {gap.max():.4f} (epsilon {epsilon:g})" for epsilon, gap in gaps.items())
    return Finding([bool(gap.max() > 2 * gap.min()) for gap in gaps.values()], f"Gap over d: {said}." if said else "")


def _two_unmoved(curves: pd.DataFrame) -> Finding:
    here = curves[(curves["d"] == 2) & (curves["epsilon"] > 0)]
    if len(here) < 2:
        return NOTHING
    said = ", ".join(f"{e:.4f} ({eps:g})" for eps, e in zip(here["epsilon"], here[PREDICTED], strict=True))
    return Finding(
        (here[PREDICTED] <= _NEAR * here[HALF]).tolist(),
        f"Error at each epsilon: {said}; 1/2 errs by {here[HALF].mean():.4f}.",
    )


_FEW_COLUMNS = Claim(
    "Figures 12 and 13",
    "With two features, more epsilon is needed for a noticeable change of the error than in other cases.",
    _on_curves(_two_need_more),
).on("pendigits", "satellite")
_LEVELS = (
    *Claim(
        "Figure 12",
        "For a fixed epsilon the gap between the error and that of half* without the defence varies with d.",
        _on_curves(_gap_varies),
    ).on("satellite", "bank", "pendigits", ADULT),
    *Claim("Figure 12", "With two features the error doesn't change with these epsilons.", _on_curves(_two_unmoved)).on(
        "satellite", "pendigits"
    ),
)


def few_columns_statements(data: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge Figure 13: two passive columns need more epsilon than others."""
    return judged(_FEW_COLUMNS, measured_only(data))


def level_statements(data: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge Figure 12, from measures of ``distorted_errors`` at some epsilons and many d."""
    return judged(_LEVELS, measured_only(data))


# --- secrets -------------------------------------------------------------------------------------------------------


def _averaging(found: pd.DataFrame) -> Finding:
    return Finding(
        (found[AVERAGES] >= found[MEAN_OF_BOTH] - _ROUNDING).tolist(),
        f"The average errs by {found[AVERAGES].mean():.4f}, both on average by {found[MEAN_OF_BOTH].mean():.4f}.",
    )


def _repeating(found: pd.DataFrame) -> Finding:
    words = f"Who repeats it errs by {number_words(float(found[REPEATS].max()))} at most."
    return Finding((found[REPEATS] < _ROUNDING).tolist(), words)


def _repeating_secrets(found: pd.DataFrame) -> Finding:
    means = found.groupby("secret")[REPEATS].mean()
    said = ", ".join(f"{error:.4f} ({secret})" for secret, error in means.items())
    return Finding(
        (found[REPEATS] > _ROUNDING).tolist(),
        f"Who repeats it all the same errs by {said}, 1/2 by {found[HALF].mean():.4f}.",
    )


def _rescaling(found: pd.DataFrame) -> Finding:
    held = (found[RESCALES] < found[HALF]).tolist()
    means = found.groupby("dataset", sort=False)[[RESCALES, HALF]].mean()
    said = ", ".join(f"{row[RESCALES]:.4f} of {row[HALF]:.4f} ({name})" for name, row in means.iterrows())
    return Finding(
        held, f"Who divides by the extreme estimate errs less than 1/2 in {sum(held)} of {len(held)}: by {said}."
    )


def _secret(kept: bool) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Rows whose sign or epsilon is kept secret, or isn't."""
    return lambda rows: rows[rows["secret"].isin(["sign", "epsilon"]) == kept]


_SECRETS = (
    Claim(
        "Remark 10",
        "A secret sign may help: who averages the estimates of R = I and R = -I errs no less than both do on average.",
        among(_secret(False), _averaging),
        "Needs no data: the mean squared error is convex, so an average errs by the average of the errors at most.",
        "one feature",
        possible=True,
    ),
    Claim(
        "Remark 13",
        "It doesn't depend on the data, so the active party can repeat the optimisation, and undo it.",
        among(_secret(False), _repeating),
        subject="one feature, no secret",
    ),
    Claim(
        "Remarks 10 and 13",
        "A secret sign or a secret epsilon may prevent that.",
        among(_secret(True), _repeating_secrets),
        subject="one feature",
        possible=True,
    ),
    Claim(
        "Remark 14",
        "Parameters that were only scaled don't stay secret.",
        _rescaling,
        "It takes a record with the column's largest value among those that are predicted.",
        "one feature",
    ),
)


def secret_statements(data: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge Remarks 10, 13 and 14, from measures of ``secret_errors``."""
    return judged(_SECRETS, data[data[REPEATS].notna()] if REPEATS in data else data.iloc[:0])
