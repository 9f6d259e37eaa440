"""What Hu, section 2.1 and appendices E and F, state of other expansions, and whether a run bears it out."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from plumbline.judge.measures import Interval
from studies.claims.statement import Statement, interval_over, verdict_of
from studies.hu.expansions import UNIQUE_FROM
from studies.hu.statements import SIMILAR, words
from studies.page.elements import number_words
from vfl.theory.expansions import minimax_coefficients
from vfl.theory.training import minimax_polynomial, sign_threshold

_CUBIC, _PIECEWISE, _TAYLOR = "minimax cubic", "piecewise", "taylor"
_THEOREMS = {"first_order": "Theorem 3.5", "minimax": "Theorem E.2", "piecewise": "Theorem F.1"}


def expansion_statements(results: pd.DataFrame, features: pd.DataFrame) -> list[Statement]:
    """Judge what the paper states of expansions.

    Args:
        results: a row per data set, reading, expansion, initialisation, seed and epoch.
        features: a row per approximation and seed of the attack on a single feature.
    """
    return [
        *_minimal_effect(results),
        cubic_is_minimax(),
        sign_range(),
        *_guarantees(results),
        _unique(results),
        _always_right(results),
        _silent(results),
        *(_single(features, approximation) for approximation in _THEOREMS),
    ]


def _minimal_effect(results: pd.DataFrame) -> Iterator[Statement]:
    """A statement per data set and reading."""
    for (dataset, reading), part in _parts(results):
        gaps, lost = {}, []
        for kind in ("zero", "xavier"):
            ends = part[(part["initialisation"] == kind) & (part["epoch"] == part["epoch"].max())]
            by_seed = ends.pivot_table(index="seed", columns="expansion", values="success_step")
            for name in [one for one in by_seed.columns if one != _TAYLOR and _TAYLOR in by_seed.columns]:
                gaps[name, kind] = _over_seeds((by_seed[name] - by_seed[_TAYLOR]).dropna())
            lost += [f"{name} from {kind}" for name in ends["expansion"].unique() if name not in by_seed.columns]
        yield Statement(
            "section 2.1",
            f"{dataset}, {reading}",
            "The choice of the approximation has minimal effect on the privacy analysis.",
            verdict_of(
                [*(max(abs(gap.low), abs(gap.high)) < SIMILAR for gap in gaps.values()), *(False for _ in lost)]
            ),
            f"Success by step in epoch {part['epoch'].max()}, less the Taylor expansion's with the same seed: "
            + "; ".join(f"{name} from {kind} {words(gap)}" for (name, kind), gap in gaps.items())
            + f". Minimal means within {SIMILAR}."
            + "".join(f" {one} diverges in every seed." for one in lost),
            "A record beyond the piecewise line's ends has f = 0, and shows nothing until it comes back."
            if any(gap.high < -SIMILAR for (name, _), gap in gaps.items() if name == _PIECEWISE)
            else "",
        )


def cubic_is_minimax() -> Statement:
    """Judge (122) by the minimax polynomial itself; no run is needed."""
    coefficients, least = minimax_coefficients(3)
    points = np.linspace(-5.0, 5.0, 4001)
    own = float(np.abs(1 / (1 + np.exp(-points)) - 0.5 - minimax_polynomial(points)).max())
    printed = (0.197, -0.004)
    return Statement(
        "appendix E, (122)",
        "S(z) on [-5, 5]",
        "-0.004 z^3 + 0.197 z + 0.5 is the minimax polynomial of degree 3.",
        verdict_of([np.abs(coefficients - printed).max() < 1e-3, own < 1.01 * least]),
        f"The minimax polynomial is {coefficients[1]:.5f} z^3 + {coefficients[0]:.5f} z + 0.5 with a largest error of "
        f"{least:.4f}; the printed one's is {own:.4f}.",
        "Three decimals are too few for the cubic term, which z^3 = 125 multiplies at the ends.",
    )


def sign_range() -> Statement:
    """Judge the range of (131) by the roots of n(z) = 1/2; no run is needed."""
    roots = np.roots([-0.004, 0.0, 0.197, -0.5])
    first = float(np.sort(roots[np.isreal(roots) & (roots.real > 0)].real)[0])
    return Statement(
        "appendix E.2, (131)",
        "n(z)",
        "|n(z)| < 0.5 for all |z| < 3.2, so that there the sign of f tells the label.",
        verdict_of([sign_threshold("minimax") <= first]),
        f"n(z) = 0.5 first at z = {first:.4f}.",
    )


def _guarantees(results: pd.DataFrame) -> Iterator[Statement]:
    for (dataset, reading), part in _parts(results):
        runs = part[(part["expansion"] == _CUBIC) & (part["epoch"] == 1)]
        in_time = (runs["first_wrong_step"] >= 0) & (runs["first_wrong_step"] < runs["guaranteed_steps"])
        yield Statement(
            "Theorem E.3",
            f"{dataset}, {reading}",
            "With the cubic, the criterion is right for the first T_eps iterations.",
            verdict_of((~in_time).tolist()),
            "T_eps, and the first step (from 0) that errs in any seed: "
            + "; ".join(
                f"{kind} {one['guaranteed_steps'].min()}, {_first(one['first_wrong_step'])}"
                for kind, one in runs.groupby("initialisation", sort=False)
            )
            + ".",
        )


def _first(steps: pd.Series) -> str:
    happened = steps[steps >= 0]
    return f"{int(happened.min())}" if len(happened) else "none"


def _unique(results: pd.DataFrame) -> Statement:
    runs = results[(results["expansion"] == _CUBIC) & results["largest_product"].notna()] if len(results) else results
    largest = {key: float(part["largest_product"].max()) for key, part in _parts(runs)}
    return Statement(
        "appendix E.1",
        "all data sets",
        "Party A reads g^B off r uniquely for the records outside of an interval, and sorts those (C_t).",
        verdict_of([bool(value > UNIQUE_FROM) for value in largest.values()]),
        ""
        if not largest
        else "Outside of it means |theta^T x| > "
        f"{UNIQUE_FROM:.2f}; the largest of any training that stays finite is "
        + "; ".join(f"{' '.join(key)} {value:.2f}" for key, value in largest.items())
        + ".",
        "The interval holds the values with several roots, (128) means those outside. They are far from the [-5, 5] "
        "that the cubic is for; inside, the root below its turning point is the one, as long as |theta^T x| < 4.05.",
    )


def _always_right(results: pd.DataFrame) -> Statement:
    runs = results[results["expansion"] == _PIECEWISE] if len(results) else results
    return Statement(
        "Theorem F.2",
        "all data sets",
        "With the piecewise line, -sign(f) is the label wherever f isn't 0, at every iteration.",
        verdict_of((runs.groupby(["dataset", "reading"])["right_of_answered"].min() == 1).tolist())
        if len(runs)
        else "not measured",
        f"Lowest share of any epoch: {runs['right_of_answered'].min():.4f}." if len(runs) else "",
    )


def _silent(results: pd.DataFrame) -> Statement:
    runs = (
        results[(results["expansion"] == _PIECEWISE) & (results["initialisation"] == "zero")]
        if len(results)
        else results
    )
    ends = {
        key: [interval_over(part[part["epoch"] == epoch], "answered", ("seed",)) for epoch in (1, part["epoch"].max())]
        for key, part in _parts(runs)
    }
    told = {key: part.loc[part["epoch"] == part["epoch"].max(), "told_so_far"].mean() for key, part in _parts(runs)}
    return Statement(
        "appendix F.2 (3)",
        "all data sets",
        "A record with f = 0 says little of its label.",
        verdict_of([last.mean < 1 for _, last in ends.values()]),
        "Share of records with an answer from zero, in the first epoch and the last, and share of labels told by then: "
        + "; ".join(
            f"{' '.join(key)} {words(first)}, {words(last)}, {told[key]:.4f}" for key, (first, last) in ends.items()
        )
        + "."
        if ends
        else "",
        "Every record is told when it is first used, close to zero weights: silence comes too late.",
    )


def _single(features: pd.DataFrame, approximation: str) -> Statement:
    runs = features[features["approximation"] == approximation] if len(features) else features
    sorted_runs = runs[runs["sortable"].astype(bool)] if len(runs) else runs
    paper = "With d_B = 1 and s <= d_A, Party A learns the feature up to a sign, once its batches are sortable."
    if not len(runs):
        return Statement(_THEOREMS[approximation], "credit", paper, "not measured", "")
    return Statement(
        _THEOREMS[approximation],
        "credit, rows of norm 1 at most",
        paper,
        verdict_of((sorted_runs["exact"] == 1).tolist()),
        f"{len(sorted_runs)} of {len(runs)} trainings were sortable after {runs['epochs'].iloc[0]:.0f} epochs of "
        f"{runs['batches'].iloc[0]:.0f} batches; share of values exact "
        f"{words(interval_over(runs, 'exact', ('seed',)))}, "
        f"of those that were sortable {number_words(sorted_runs['exact'].mean()) if len(sorted_runs) else 'none'}.",
    )


def _parts(results: pd.DataFrame) -> Iterator[tuple[tuple[str, str], pd.DataFrame]]:
    for (dataset, reading), part in results.groupby(["dataset", "reading"], sort=False) if len(results) else ():
        yield (str(dataset), str(reading)), part


def _over_seeds(values: pd.Series) -> Interval:
    if not len(values):
        return Interval(float("nan"), float("nan"), float("nan"))
    return interval_over(values.rename("gap").reset_index(), "gap", ("seed",))
