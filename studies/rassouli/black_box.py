"""Figure 7 and section VI: one passive feature read without its parameters, against the number of predictions.

SIMULATION: models are trained in one place, on all parties' columns; no service runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import attacks
from plumbline.judge.measures import mse_per_feature
from studies.claims.claim import judged
from studies.measurements.descriptions import Measurement, TaskMeasurement
from studies.page.elements import number_words
from studies.page.plots import Curve, Panel, Plot
from studies.page.section import Section
from studies.rassouli.claims.guessing import GUESSING_CLAIMS
from studies.rassouli.windowed import measured_on, model_of, size_of
from studies.simulation.linear_models import TrainedModel
from studies.study import StudyRun
from vfl.arrays import FloatArray, IntArray

# Bank's 14th feature, counted from 0 as the published code does: the employment variation rate.
EMPLOYMENT = 14
# Predictions that no instance has, whose bound tells where the error goes.
LATER = 10_000
_COUNTS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50, 70)


@dataclass(frozen=True)
class _Plan:
    """How much is run. instances: how many draws of N predictions; most: the largest N; models: splits."""

    datasets: tuple[str, ...]
    instances: int
    most: int
    models: int
    rows: int | None


_FULL = _Plan(("bank", "robot", "satellite", "synthetic"), instances=100, most=100, models=2, rows=None)
_QUICK = _Plan(("bank", "synthetic"), instances=20, most=100, models=1, rows=4000)


def black_box_section(run: StudyRun, plan: _Plan | None = None) -> Section:
    """Read every column of every data set as the only passive one, in the case of section VI that it is in.

    ``data``: a row per data set, split, column and case, with the measures of ``error_of_case``: ``predictions``,
    ``error``, ``low``, ``high`` and ``bound`` are lists over N.
    """
    plan = plan or (_QUICK if run.quick else _FULL)
    names, skipped = run.available(plan.datasets)
    data = measured_on(run, names, partial(_measurements, run, plan))
    return Section(
        name="black_box",
        title="One passive feature in the black box (Figure 7)",
        data=data,
        summary=_summary(data),
        plots=(_plot(data),),
        notes=(*skipped, *_notes(data, plan)),
        statements=judged(GUESSING_CLAIMS, data),
    )


def _measurements(run: StudyRun, plan: _Plan, name: str) -> list[Measurement]:
    return [
        TaskMeasurement.of(
            f"{__name__}:error_of_case",
            model_of(name, run.seed + number, rows=plan.rows),
            column=column,
            knows=knows,
            instances=plan.instances,
            most=plan.most,
        )
        for number in range(plan.models)
        for column in range(size_of(name).columns)
        # Who knows b takes it off: case 1.
        for knows in ("sign of omega b", "b", "signs")
    ]


# --- one column ---------------------------------------------------------------------------------------------------


def case_of(omega: float, shift: float, observed: FloatArray) -> str:
    """The case of section VI that parameters are in: "1", "2", "3, one sign" or "3, both signs"."""
    if shift == 0:
        return "1"
    if omega * shift > 0:
        return "2"
    return "3, one sign" if (observed > 0).all() or (observed < 0).all() else "3, both signs"


def error_of_case(
    model: TrainedModel, *, column: int, knows: str, instances: int, most: int, pair: int = 0
) -> Mapping[str, Any]:
    """Attack one column by ``one_feature`` with 1 to ``most`` held-out predictions, many times.

    The adversary knows its own parameters and, as ``knows`` says, the sign of omega b alone, b itself (which makes it
    case 1), or the signs of both.

    case: of the whole data set. omega, b: of the pair's log ratio. values: how many the column takes. predictions: N.
    error: mean over instances of the mean squared error of N predictions; low, high: its quantiles 5 % and 95 %.
    bound: the expectation of eq. 65 or 71, which no instance exceeds on average, in closed form from the column's
    distribution; empty where the paper has none. bound_later: the same after ``LATER`` predictions. exceeded: how many
    instances err more than eq. 65 or 71 allows.
    half: the error of a guess of 1/2.
    """
    omega = float(model.weights[pair + 1, column] - model.weights[pair, column])
    shift = 0.0 if knows == "b" else float(model.bias[pair + 1] - model.bias[pair])
    bare = replace(model, bias=np.zeros_like(model.bias)) if knows == "b" else model
    feature = model.features[:, column]
    case = case_of(omega, shift, omega * feature + shift)
    options: dict[str, Any] = {"case": int(case[0]), "pair": pair}
    if knows == "signs":
        options["omega_sign"] = "positive" if omega > 0 else "negative"
    attack = attacks.load_prediction("one_feature", **options)
    view = replace(bare.view([column], len(feature))[0], weights_passive=None, passive_features=1)
    generator = np.random.default_rng([model.features.shape[1], column])
    counts = predictions(most)
    errors = np.empty((instances, len(counts)))
    exceeded = 0
    for instance in range(instances):
        drawn = generator.integers(0, len(feature), most)
        for place, count in enumerate(counts):
            rows = drawn[:count]
            errors[instance, place] = mse_per_feature(feature[rows, None], attack.reconstruct(_rows(view, rows)))
            # Eq. 65 and 71 are for observations that differ: one value alone is answered by 1/2.
            if len(np.unique(feature[rows])) > 1:
                exceeded += int(errors[instance, place] > _limit(feature[rows], case, knows) + 1e-9)
    low, high = np.quantile(errors, (0.05, 0.95), axis=0)
    return {
        "case": case,
        "omega": omega,
        "b": shift,
        "name": column + 1,
        "values": len(np.unique(feature)),
        "predictions": counts.tolist(),
        "error": errors.mean(axis=0).tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
        "bound": expected_limit(feature, case, knows, counts),
        "bound_later": (expected_limit(feature, case, knows, np.array([LATER])) or [np.nan])[0],
        "exceeded": exceeded,
        "half": float(((feature - 0.5) ** 2).mean()),
    }


def predictions(most: int) -> IntArray:
    """The numbers of predictions that are measured, from 1 to the most: close to each other where they are few."""
    return np.array([*(count for count in _COUNTS if count < most), most])


def _rows(view: attacks.PredictionView, rows: IntArray) -> attacks.PredictionView:
    if view.scores is None:
        raise AssertionError  # this view has scores; this tells the type checker
    return replace(view, features_active=view.features_active[rows], scores=view.scores[rows])


def _ends(case: str, knows: str) -> tuple[bool, bool]:
    """Whether 1, and whether 0, is guessed for an extreme observation; neither where 1/2 is said for all."""
    if case == "1":
        return True, False
    return (False, False) if case == "3, both signs" and knows != "signs" else (True, True)


def _limit(feature: FloatArray, case: str, knows: str) -> float:
    """Eq. 65 or 71 of the drawn (n,) values: (X_M - 1)^2, + X_m^2 where 0 is guessed as well; infinite without."""
    one, zero = _ends(case, knows)
    limit = (1 - float(feature.max())) ** 2 + (float(feature.min()) ** 2 if zero else 0.0)
    return limit if one else np.inf


def expected_limit(feature: FloatArray, case: str, knows: str, counts: IntArray) -> list[float]:
    """The expectation of eq. 65 or 71 over N independent draws of a column's values, for each N; empty without one.

    Pr(max <= x) = F(x)^N, so E[(1 - max)^2] is a sum over the distinct values.
    """
    one, zero = _ends(case, knows)
    if not one:
        return []
    found = _of_the_largest(feature, counts)
    both = found + _of_the_largest(1 - feature, counts) if zero else found
    return [float(expected) for expected in both]


def _of_the_largest(feature: FloatArray, counts: IntArray) -> FloatArray:
    """E[(1 - max of N draws)^2] for each N."""
    values, frequency = np.unique(feature, return_counts=True)
    reached = np.cumsum(frequency)[:, None] / len(feature)
    powers = reached ** counts[None, :]
    probability = np.diff(powers, axis=0, prepend=0.0)
    expected: FloatArray = ((1 - values[:, None]) ** 2 * probability).sum(axis=0)
    return expected


# --- what is shown ------------------------------------------------------------------------------------------------


def _summary(data: pd.DataFrame) -> pd.DataFrame:
    """Mean errors with all predictions, by data set, what is known and case; and how many columns are in each."""
    last = data.assign(error=data["error"].str[-1], first=data["error"].str[0])
    table = last.groupby(["dataset", "knows", "case"], sort=False).agg(
        columns=("column", "size"), first=("first", "mean"), error=("error", "mean"), half=("half", "mean")
    )
    return table.round(5).reset_index()


_SHOWN = (
    ("sign of omega b", "2", "case 2: the sign of omega b is known"),
    ("b", "1", "case 1: b is known, or 0"),
    ("sign of omega b", "3, one sign", "case 3, observations of one sign"),
    ("sign of omega b", "3, both signs", "case 3, observations of both signs"),
    ("signs", "3, both signs", "case 3, both signs known"),
)


def _plot(data: pd.DataFrame) -> Plot:
    """Figure 7's own column first, then every case as a mean over the columns that are in it."""
    panels = []
    own = employment(data)
    if len(own):
        row = own.iloc[0]
        x = tuple(map(float, row["predictions"]))
        curves = (
            Curve("one_feature", x, tuple(row["error"]), tuple(row["low"]), tuple(row["high"])),
            Curve("expectation of eq. 71", x, tuple(row["bound"])),
            Curve("a guess of 1/2", (x[0], x[-1]), (row["half"], row["half"]), ours=True),
        )
        panels.append(Panel("bank, employment variation rate", "predictions N", "MSE", curves))
    for name in data["dataset"].unique():
        shown = (_case_curve(data[data["dataset"] == name], *one) for one in _SHOWN)
        cases = tuple(curve for curve in shown if curve is not None)
        half = float(data.loc[data["dataset"] == name, "half"].mean())
        ends = (cases[0].x[0], cases[0].x[-1])
        guess = Curve("a guess of 1/2", ends, (half, half), ours=True)
        panels.append(Panel(f"{name}: all columns by case", "predictions N", "MSE", (*cases, guess)))
    return Plot(
        "black-box",
        panels,
        "Figure 7: the error of one passive feature against the number of predictions, means over instances; shaded: "
        "where 90 % of them lie. The other panels have every column of each data set in its case, means over columns.",
    )


def _case_curve(own: pd.DataFrame, knows: str, case: str, label: str) -> Curve | None:
    rows = own[(own["knows"] == knows) & (own["case"] == case)]
    if not len(rows):
        return None
    means = np.mean(rows["error"].tolist(), axis=0)
    return Curve(label, tuple(map(float, rows.iloc[0]["predictions"])), tuple(means.tolist()))


def employment(data: pd.DataFrame) -> pd.DataFrame:
    """The rows of the column that the paper attacks, by an adversary that knows what the paper's does."""
    own = (data["dataset"] == "bank") & (data["column"] == EMPLOYMENT) & (data["knows"] == "sign of omega b")
    return data[own]


def _notes(data: pd.DataFrame, plan: _Plan) -> list[str]:
    binary = data[(data["values"] == 2) & data["case"].isin(("2", "3, one sign"))]
    said = [
        f"{plan.instances} instances of up to {plan.most} held-out predictions. b is the bias of the pair of classes: "
        "who knows it, as a white-box adversary of the bias does, is in case 1. The first pair of classes is observed.",
        "The employment variation rate is the 14th feature where the first is the 0th, as in the published code; "
        "counted from 1 it is the 15th of the 19.",
        "The bound is exact: the expectation of eq. 65 or 71 under the column's own distribution, from "
        "Pr(max <= x) = F(x)^N.",
    ]
    if len(binary):
        last = float(np.mean([row[-1] for row in binary["error"]]))
        said.append(
            "A column of two values is read without an error as soon as both were seen, and 1/2 is said until then: "
            f"after {plan.most} predictions {len(binary)} such columns err by {number_words(last)} on average."
        )
    return said
