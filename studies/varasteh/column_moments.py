"""The data sets of Varasteh, Table I and Figure 2, and how accurate the model is on them (section III)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from studies.claims.claim import NOTHING, Claim, Finding, Test, judged
from studies.claims.kinds import among, equal
from studies.claims.statement import interval_over, interval_words
from studies.measurements import DataChoice, ModelChoice, TaskMeasurement
from studies.page.plots import Curve, Panel, Plot
from studies.page.section import Section
from studies.study import StudyRun
from studies.varasteh.rivals import ADULT, GRID, PAPER_DATASETS, paper_model

_FACTS = "studies.varasteh.data_facts:"
# Table I: columns, classes, records.
PAPER_SHAPES: Mapping[str, tuple[int, int, int]] = {
    "bank": (19, 2, 41_188),
    ADULT: (13, 2, 48_842),
    "satellite": (36, 6, 6_430),
    "pendigits": (16, 10, 10_992),
    GRID: (13, 2, 10_000),
}
_SHAPE_REASONS = {"satellite": "Theirs: the source has 6,435 records."}
_ACCURACY_REASONS = {
    ADULT: "Some splits reach it. A column for each category reaches 85 %, but makes 108 columns, on which 1/2 errs by "
    "0.24: the paper has 13 columns and 0.14.",
    "satellite": "Ours: Adam stops early, as the paper's does, but before it gets there; a converged model does.",
}
# The error of 1/2 that the text reads off Figures 4, 9 and 10.
PAPER_HALF: Mapping[str, tuple[float, ...]] = {
    "bank": (0.18, 0.17),
    ADULT: (0.14, 0.12),
    "satellite": (0.04,),
    "pendigits": (0.12,),
}
_AS_READ = 0.01
LEAST_ACCURACY = 0.85


@dataclass(frozen=True)
class _Plan:
    """Data sets, and how many models of each; whether converged ones as well."""

    datasets: tuple[str, ...] = PAPER_DATASETS
    seeds: int = 3
    converged: bool = True


_FULL = _Plan()
_QUICK = _Plan(seeds=1, converged=False)


def moments_section(run: StudyRun) -> Section:
    """Measure shapes, moments and accuracies of the data sets."""
    plan = _QUICK if run.quick else _FULL
    names, missing = run.available(plan.datasets)
    tables = run.measure([TaskMeasurement.of(_FACTS + "moments_of", DataChoice(name)) for name in names])
    models = [model for name in names for model in _models(name, range(run.seed, run.seed + plan.seeds), plan)]
    accuracies = run.measure([TaskMeasurement.of(_FACTS + "accuracy_of", model) for model in models])
    data = pd.concat([tables, accuracies], ignore_index=True)
    return Section(
        name="moments",
        title="The data sets (Table I and Figure 2)",
        data=data,
        summary=_summary(data),
        plots=tuple(_plots(data)),
        notes=missing,
        statements=judged(MOMENT_CLAIMS, data),
    )


def _models(name: str, seeds: range, plan: _Plan) -> list[ModelChoice]:
    """The paper's model and, where asked for, a converged one, whose accuracy no early stop costs anything."""
    converged = [ModelChoice(DataChoice(name), trainer="lbfgs", seed=seed) for seed in seeds if plan.converged]
    return [*(paper_model(name, seed) for seed in seeds), *converged]


def _summary(data: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for name, facts in _facts(data).items():
        row = {
            "dataset": name,
            **{key: facts[key] for key in ("records", "columns", "classes", "mean_of_means", "half")},
        }
        for trainer in ("adam", "lbfgs"):
            found = _accuracy(data, name, trainer)
            if len(found):
                row[f"accuracy, {trainer}"] = found.mean()
        rows.append(row)
    return pd.DataFrame(rows)


def _facts(data: pd.DataFrame) -> dict[str, "pd.Series[Any]"]:
    """The row of moments of each data set that has one."""
    if "means" not in data:
        return {}
    rows = data[data["means"].notna()]
    return {str(row["dataset"]): row for _, row in rows.iterrows()}


def _accuracy(data: pd.DataFrame, name: str, trainer: str) -> "pd.Series[float]":
    if "accuracy" not in data:
        return pd.Series(dtype=float)
    return data.loc[(data["dataset"] == name) & (data["trainer"] == trainer), "accuracy"].dropna()


def _plots(data: pd.DataFrame) -> list[Plot]:
    panels = []
    for name, facts in _facts(data).items():
        columns = tuple(range(1, len(facts["means"]) + 1))
        curves = (
            Curve("mean", columns, tuple(facts["means"])),
            Curve("variance", columns, tuple(facts["variances"])),
            Curve("mean of the means", (columns[0], columns[-1]), (facts["mean_of_means"],) * 2),
        )
        panels.append(Panel(name, "column", "scaled to [0, 1]", curves))
    caption = "Figure 2: mean and variance of every column, and the mean of the means."
    return [Plot("moments", panels, caption, columns=3)] if panels else []


# --- what the paper says -------------------------------------------------------------------------------------------


_COUNTS = "{columns} features, {classes} classes, {records:,} records."


def _half(name: str, facts: pd.DataFrame) -> Finding:
    found = float(facts["half"].iloc[0])
    near = any(abs(found - one) <= _AS_READ for one in PAPER_HALF[name])
    return Finding([near], f"{found:.4f}, over all columns.")


def _accurate(data: pd.DataFrame) -> Finding:
    found, converged = (data.loc[data["trainer"] == trainer, "accuracy"].dropna() for trainer in ("adam", "lbfgs"))
    if not len(found):
        return NOTHING
    mean = interval_over(pd.DataFrame({"accuracy": found, "seed": range(len(found))}), "accuracy", by=("seed",))
    more = f" a converged model {converged.mean():.3f}," if len(converged) else ""
    return Finding(
        # The paper has one split: an interval over splits that holds the bound is neither for it nor against it.
        [mean.mean >= LEAST_ACCURACY, mean.high >= LEAST_ACCURACY],
        f"{interval_words(mean, 3)};{more} the most frequent class alone {data['majority'].max():.3f}.",
    )


def _with(column: str, test: Test) -> Test:
    """A test of the rows that have this measure."""
    return among(lambda data: data[data[column].notna()] if column in data else data.iloc[:0], test)


_CODES = {
    ADULT: "It depends on the column that the paper leaves out of 14; it doesn't say which.",
    "bank": "It depends on what categories are replaced by.",
}
MOMENT_CLAIMS = (
    *(
        one
        for name, counts in PAPER_SHAPES.items()
        for printed in [dict(zip(("columns", "classes", "records"), counts, strict=True))]
        for one in Claim(
            "Table I",
            _COUNTS.format(**printed),
            _with("means", equal(printed, lambda found: _COUNTS.format(**found))),
            _SHAPE_REASONS.get(name, ""),
        ).on(name)
    ),
    *(
        one
        for name, said in PAPER_HALF.items()
        for one in Claim(
            "Figures 4, 9 and 10, text",
            f"1/2 for all errs by about {' or '.join(f'{one:g}' for one in said)}.",
            _with("means", partial(_half, name)),
            _CODES.get(name, ""),
        ).on(name)
    ),
    *(
        one
        for name in PAPER_SHAPES
        for one in Claim(
            "Section III",
            f"Test accuracy of the model is at least {LEAST_ACCURACY:.0%}; data sets below are left out.",
            _with("accuracy", _accurate),
            _ACCURACY_REASONS.get(name, ""),
        ).on(name)
    ),
)
