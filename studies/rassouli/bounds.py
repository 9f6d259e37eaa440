"""Figure 5 and Theorems 1 and 2: what theory says on every window, and whether it happens there.

SIMULATION: models are trained in one place, on all parties' columns; no service runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import attacks
from plumbline.judge.measures import mse_per_feature
from studies.claims.claim import judged_here
from studies.measurements.descriptions import Measurement, TaskMeasurement
from studies.page.plots import Curve, Panel, Plot
from studies.page.section import Section
from studies.rassouli.claims.guarantees import GUARANTEES
from studies.rassouli.windowed import (
    DATASETS,
    SYNTHETIC,
    Windows,
    classes_over,
    columns_of,
    measured_on,
    model_of,
    window_options,
)
from studies.simulation.error_theory import sample_ordering
from studies.simulation.linear_models import TrainedModel
from studies.study import StudyRun
from vfl.arrays import FloatArray
from vfl.theory.prediction import equations, moments, prediction_errors, preflight_bounds, row_space

# How many predictions an empirical error is averaged over, how often, and what counts as near the closed form.
COUNTS = (10, 30, 100, 300, 1000)
_DRAWS = 200
NEAR = 0.1
_ROUNDING = 1e-6


@dataclass(frozen=True)
class _Plan:
    """How much is run. rows: most that are used; centres: of how many windows per d rcc1 is checked as well."""

    datasets: tuple[str, ...]
    rows: int | None
    windows: Windows
    centres: int
    records: int


_FULL = _Plan(DATASETS, None, Windows(), centres=4, records=1000)
_QUICK = _Plan(("satellite", SYNTHETIC), 4000, Windows(sizes=5, count=4), centres=1, records=100)


def bounds_section(run: StudyRun) -> Section:
    """Evaluate Theorems 1 and 2, Remark 4 and Propositions 2 and 3 on every window.

    ``data``: a row per data set and window, the measures of ``theory_at``, and ``k``.
    """
    plan = _QUICK if run.quick else _FULL
    names, skipped = run.available(plan.datasets)
    data = measured_on(run, names, partial(_measurements, run, plan))
    data = data.assign(k=classes_over(data))
    return Section(
        name="bounds",
        title="Theorems 1 and 2 on every window (Figure 5, Remark 4)",
        data=data,
        summary=_summary(data),
        plots=(_plot(data), _convergence_plot(data)),
        notes=(
            *skipped,
            "Closed forms and bounds are of all records of a data set, as in the paper; empirical errors of "
            f"{plan.records} held-out predictions. Theorem 1 is checked record by record, Theorem 2's bounds and "
            "Remark 4 window by window: the bounds are those of plumbline preflight, from the passive party's columns "
            "alone.",
            "The closed forms are exact for the records whose moments they are from; held-out predictions differ by "
            "sampling alone, as the second drawing shows.",
        ),
        statements=judged_here(GUARANTEES, data),
    )


def _measurements(run: StudyRun, plan: _Plan, name: str) -> list[Measurement]:
    model = model_of(name, run.seed, rows=plan.rows)
    few = set(Windows(plan.windows.sizes, plan.centres).of(name))
    return [
        TaskMeasurement.of(
            f"{__name__}:theory_at", model, **window_options(window), records=plan.records, centres=window in few
        )
        for window in plan.windows.of(name)
    ]


# --- one window ---------------------------------------------------------------------------------------------------


def theory_at(model: TrainedModel, *, d: int, start: int, records: int, centres: bool) -> Mapping[str, Any]:
    """Evaluate what the paper proves on one window, and what happens there.

    ls, half_star: closed forms of Theorem 2, of all records of the data set, each with ``_lower`` and ``_upper``, and
    ``floor`` of eq. 52; ``_empirical``: of the first held-out records. rank: of A. out_of_bounds: closed forms outside
    what the passive party can say before training (Remark 4), of 2. violations: held-out records that break Theorem 1,
    and the largest amount, ``violation``. infeasible: the largest distance of rcc2 (and rcc1, where ``centres``) from
    [0, 1] and from solving the equations (Propositions 2 and 3). far: of each of ``COUNTS`` predictions, the share of
    draws whose error of half* is further than ``NEAR`` from the closed form, relative to it; chebyshev: its bound.
    """
    columns = columns_of(d, start, model.weights.shape[1])
    whole = np.vstack([model.features_train, model.features])[:, columns]
    matrix = equations(model.weights[:, columns])
    theory, before = prediction_errors(matrix, moments(whole)), preflight_bounds(whole, len(model.weights))
    view, truth = model.view(columns, records)
    half_star, rcc2 = (attacks.load_prediction(name).reconstruct(view) for name in ("half_star", "rcc2"))
    ordering = sample_ordering(truth, rcc2, half_star)
    ls = attacks.load_prediction("ls").reconstruct(view)
    found: dict[str, Any] = {"floor": theory.floor, "rank": row_space(matrix).rank}
    for name, bounded, estimate in (("ls", theory.least_squares, ls), ("half_star", theory.half_star, half_star)):
        found |= {name: bounded.value, f"{name}_lower": bounded.lower, f"{name}_upper": bounded.upper}
        found[f"{name}_empirical"] = mse_per_feature(truth, estimate)
    limits = ((theory.least_squares, before.least_squares), (theory.half_star, before.half_star))
    found["out_of_bounds"] = sum(
        not limit.lower - _ROUNDING <= one.value <= limit.upper + _ROUNDING for one, limit in limits
    )
    excess = np.maximum(ordering.rcc2 - ordering.half_star, ordering.half_star - ordering.half)
    found["violations"] = int((excess > _ROUNDING).sum())
    found["violation"] = ordering.violation()
    chosen = [rcc2, attacks.load_prediction("rcc1").reconstruct(view)] if centres else [rcc2]
    sides = truth @ matrix.T
    found["infeasible"] = max(_infeasible(estimate, matrix, sides) for estimate in chosen)
    return found | _convergence(matrix, whole)


def _infeasible(estimate: FloatArray, matrix: FloatArray, sides: FloatArray) -> float:
    """The largest distance of (n, d) estimates from the box, or from solving equations whose rows have length 1."""
    outside = max(float(-estimate.min()), float(estimate.max()) - 1, 0.0)
    lengths = np.maximum(np.linalg.norm(matrix, axis=1), np.finfo(np.float64).tiny)
    return max(outside, float(np.abs((estimate @ matrix.T - sides) / lengths).max()))


def _convergence(matrix: FloatArray, features: FloatArray) -> dict[str, list[float]]:
    """How often an average over N predictions is far from the closed form, and Chebyshev's bound of that."""
    silent = row_space(matrix).null_projector
    errors = (((features - 0.5) @ silent) ** 2).mean(axis=1)
    mean, variance = float(errors.mean()), float(errors.var())
    if mean < _ROUNDING:
        return {"far": [0.0] * len(COUNTS), "chebyshev": [0.0] * len(COUNTS)}
    generator = np.random.default_rng(0)
    drawn = errors[generator.integers(0, len(errors), (_DRAWS, max(COUNTS)))]
    means = np.cumsum(drawn, axis=1)[:, [count - 1 for count in COUNTS]] / np.array(COUNTS)
    bound = np.minimum(variance / (np.array(COUNTS) * (NEAR * mean) ** 2), 1.0)
    return {"far": (np.abs(means - mean) > NEAR * mean).mean(axis=0).tolist(), "chebyshev": bound.tolist()}


# --- what is shown ------------------------------------------------------------------------------------------------


def _summary(data: pd.DataFrame) -> pd.DataFrame:
    """Means over windows with d >= k, and what never happens, counted."""
    own = data[data["d"] >= data["k"]].groupby("dataset", sort=False)
    shown = ["ls_lower", "ls", "ls_empirical", "ls_upper"]
    shown += ["half_star_lower", "half_star", "half_star_empirical", "half_star_upper", "floor"]
    counted = data.groupby("dataset", sort=False)[["out_of_bounds", "violations"]].sum()
    return own[shown].mean().round(4).join(counted).reset_index()


_CURVES = {
    "ls_empirical": "LS, empirical",
    "ls": "LS, closed form",
    "ls_upper": "LS, upper bound",
    "ls_lower": "LS, lower bound",
    "half_star_empirical": "Half*, empirical",
    "half_star": "Half*, closed form",
    "half_star_upper": "Half*, upper bound",
    "half_star_lower": "Half*, lower bound",
    "floor": "lower bound of both (eq. 52)",
}


def _plot(data: pd.DataFrame) -> Plot:
    panels = []
    for name in data["dataset"].unique():
        for attack, title in (("ls", "LS"), ("half_star", "Half*")):
            own = data[data["dataset"] == name].groupby(["d", "k"])[list(_CURVES)].mean()
            x = tuple(d / k for d, k in own.index)
            curves = [
                Curve(label.replace("LS, ", "").replace("Half*, ", ""), x, tuple(own[column].tolist()))
                for column, label in _CURVES.items()
                if column.startswith(attack) or column == "floor"
            ]
            panels.append(Panel(f"{name}: {title}", "d / k", "MSE per feature", tuple(curves), ((1.0, "d = k"),)))
    return Plot(
        "bounds",
        panels,
        "Figure 5: closed forms of Theorem 2 over all records, with the bounds that the passive party can compute "
        "before training, and what held-out predictions give. Means over windows.",
    )


def _convergence_plot(data: pd.DataFrame) -> Plot:
    panels = []
    for name in data["dataset"].unique():
        own = data[(data["dataset"] == name) & (data["d"] >= data["k"])]
        if not len(own):
            continue
        curves = [
            Curve(label, COUNTS, tuple(np.mean(own[column].tolist(), axis=0).tolist()))
            for column, label in (("far", "share of draws"), ("chebyshev", "Chebyshev's bound"))
        ]
        panels.append(Panel(name, "predictions N", f"share over {NEAR:.0%} off", tuple(curves), log_x=True))
    return Plot(
        "convergence",
        panels,
        f"How often the error of half* over N predictions is more than {NEAR:.0%} away from Theorem 2's value, and "
        "what its variance allows. Means over windows with d >= k.",
    )
