"""Figure 6: whether features that correlate with the attacker's are reconstructed better (Jiang 5.2.1.1, eq. 25)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from plumbline.judge.measures import correlation_with_active
from studies.claims.claim import NOTHING, Claim, Finding
from studies.claims.kinds import trend
from studies.claims.statement import interval_words
from studies.jiang.inversion.contenders import GIA, MOMENTS, bayesian, inversion
from studies.jiang.inversion.curve_tests import data_sets_of, of_each
from studies.jiang.inversion.inversion_setting import (
    QUICK_ROWS,
    QUICK_STEPS,
    Contender,
    Grid,
    InversionPlan,
    Target,
    contests,
    linear_targets,
    measured,
    plugged_in,
    usable,
)
from studies.measurements import Choice, TaskMeasurement
from studies.page.elements import HeatMap, number_words
from studies.page.section import Section
from studies.study import StudyRun

_HERE = "studies.jiang.inversion.correlated_columns"
OF_PAPER = ("bank_all", "drive")
HALF, IMPUTED = "guess 1/2", "no score, 100 records"
# The paper shows the first eight features.
_SHOWN = 8


# Grids of one ratio.
_FULL = InversionPlan(Grid(OF_PAPER, ratios=(0.3,), windows=10, seeds=2), draws=100)
_QUICK = InversionPlan(Grid(OF_PAPER, ratios=(0.3,), windows=3, rows=QUICK_ROWS), steps=QUICK_STEPS, draws=20)


def correlations_of(shared: Any, *, passive: Sequence[int]) -> dict[str, Any]:
    """Correlate each passive column of a model's training records with the active ones (eq. 25): ``correlations``."""
    columns = np.asarray(passive)
    active = np.setdiff1d(np.arange(shared.features_train.shape[1]), columns)
    own = shared.features_train
    return {"correlations": correlation_with_active(own[:, columns], own[:, active]).tolist()}


def correlation(run: StudyRun, plan: InversionPlan | None = None) -> Section:
    """Measure Figure 6, as the run or a plan says."""
    plan = plan or (_QUICK if run.quick else _FULL)
    grid, skipped = usable(run, plan.grid)
    attacked = linear_targets(grid, run.seed, complete=False)
    contenders = (
        inversion(plan.steps),
        Contender(HALF, Choice.of("half")),
        Contender(IMPUTED, Choice.of("imputation"), ours=True, auxiliary=100),
        bayesian(plan.draws)[1],
        *plugged_in(run),
    )
    planned = contests(attacked, contenders, plan.records)
    asked = [
        (one.described | {"curve": ""}, TaskMeasurement.of(f"{_HERE}:correlations_of", one.model, passive=one.passive))
        for one in attacked
    ]
    found = measured(run, [*planned, *asked])
    results = by_feature(found[: len(planned)], found[len(planned) :], attacked)
    return Section(
        name="correlation",
        title="Features that correlate with the attacker's (Figure 6)",
        data=results,
        summary=_trends_table(results),
        plots=(),
        maps=tuple(correlation_map(results, name) for name in data_sets_of(results)),
        notes=(
            f"Logistic regression, r = {plan.grid.ratios[0]}; {grid.words}. The rank correlation is over the "
            "features of one window: below 0, features that correlate with the attacker's are reconstructed better.",
            f"{GIA} never looks at the attacker's features but through their share of the logits: what such a "
            f"correlation is worth to somebody who uses it, {IMPUTED!r} shows, and {HALF!r} that errors differ "
            "from feature to feature by their spread alone.",
            *skipped,
        ),
        statements=of_each([CORRELATION_CLAIM], results, OF_PAPER),
    )


def by_feature(results: pd.DataFrame, asked: pd.DataFrame, attacked: Sequence[Target]) -> pd.DataFrame:
    """A row for each feature, window and curve: column, correlation with the active columns, error."""
    rows = []
    correlations = [list(one) for one in asked["correlations"]] if "correlations" in asked else []
    known = dict(zip([(t.model, t.passive) for t in attacked], correlations, strict=False))
    per_target = len(results) // len(attacked) if attacked else 0
    for number, row in enumerate(results.to_dict("records")):
        if row["status"] != "done":
            continue
        target = attacked[number // per_target]
        errors = zip(target.passive, known[target.model, target.passive], row["mse_by_column"], strict=True)
        kept = {name: row[name] for name in ("dataset", "d", "ratio", "seed", "start", "curve", "ours", "status")}
        rows += [kept | {"column": c, "correlation": r, "error": e} for c, r, e in errors]
    return pd.DataFrame(rows, columns=_COLUMNS)


_COLUMNS = [*("dataset", "d", "ratio", "seed", "start", "curve", "ours", "status"), *("column", "correlation", "error")]


def _trends_table(results: pd.DataFrame) -> pd.DataFrame:
    """Rank correlations by data set and curve, in words."""
    rows = []
    for (name, curve), part in results.groupby(["dataset", "curve"], sort=False):
        found = trend(part, "correlation", "error")
        rows.append(
            {
                "data set": name,
                "who": curve,
                "mean error": number_words(float(part["error"].mean())),
                "rank correlation": "" if found is None else interval_words(found),
            }
        )
    return pd.DataFrame(rows)


def correlation_map(results: pd.DataFrame, name: str) -> HeatMap:
    """The first window's first eight features: their correlation, and each attacker's error on them."""
    part = results[results["dataset"] == name]
    first = part[part["start"] == part["start"].min()]
    columns = list(first["column"].unique())[:_SHOWN]
    lines = [("correlation", first.drop_duplicates("column").set_index("column")["correlation"])]
    lines += [
        (f"error, {curve}", own.set_index("column")["error"]) for curve, own in first.groupby("curve", sort=False)
    ]
    values = [[float(line[column]) for column in columns] for _, line in lines]
    largest = [max(max(row), 1e-12) for row in values]
    return HeatMap(
        caption=f"{name}: the first features of one window",
        note="Each line is shaded by its own largest value.",
        headings=("", *(f"column {column + 1}" for column in columns)),
        rows=tuple((label, *map(number_words, row)) for (label, _), row in zip(lines, values, strict=True)),
        shares=tuple(tuple(value / top for value in row) for row, top in zip(values, largest, strict=True)),
    )


def _usually_lower(rows: pd.DataFrame) -> Finding:
    found = {
        curve: one
        for curve in (GIA, HALF, IMPUTED, MOMENTS)
        if (one := trend(rows[rows["curve"] == curve], "correlation", "error")) is not None
    }
    if GIA not in found:
        return NOTHING
    own = found[GIA]
    said = ", ".join(f"{curve} {interval_words(one)}" for curve, one in found.items())
    return Finding(
        [own.mean < 0, own.high < 0 and not own.alone], f"Rank correlation of error with correlation: {said}."
    )


CORRELATION_CLAIM = Claim(
    "Figure 6, 5.2.1.1",
    "Features that correlate more with the active party's usually have a lower error.",
    _usually_lower,
    "The attack doesn't use these correlations: it sees the attacker's features through their share of the logits "
    "only. One window and eight features, as in the paper, can show either.",
)
