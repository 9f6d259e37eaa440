"""How columns vary together, and what the agnostic attack makes of it: Varasteh, Figure 6."""

import numpy as np
import pandas as pd

from studies.measurements import DataChoice, TaskMeasurement
from studies.page.elements import HeatMap
from studies.page.section import Section
from studies.study import StudyRun
from studies.varasteh.agnostic_claims import covariance_statements
from studies.varasteh.rivals import PUBLISHED, QUICK, WindowPlan, columns_of, errors, situations, widths

_TASK = "studies.varasteh.data_facts:covariance_of"


def covariance_section(run: StudyRun) -> Section:
    """Measure the covariance of every data set's columns, and the attack where half of the columns are passive."""
    # Of the windows of the section on the agnostic attack this one takes the middle size.
    plan = QUICK if run.quick else WindowPlan()
    names, missing = run.available(plan.datasets)
    facts = run.measure([TaskMeasurement.of(_TASK, DataChoice(name)) for name in names])
    seeds = range(run.seed, run.seed + plan.seeds)
    at = []
    for name in names:
        sizes = widths(columns_of(name), plan.sizes)
        at += situations(name, [sizes[len(sizes) // 2]], plan.windows, seeds)
    attacked = errors(run, at, PUBLISHED[:3], plan.records)
    data = pd.concat([facts, attacked], ignore_index=True)
    known = pd.DataFrame(columns=["dataset", "off_diagonal"])
    if "covariance" in facts:
        known = facts[facts["covariance"].notna()]
    return Section(
        name="covariance",
        title="How columns vary together (Figure 6)",
        data=data,
        summary=known[[column for column in ("dataset", "off_diagonal", "correlation") if column in known]],
        plots=(),
        notes=missing,
        maps=tuple(heat_map(str(row["dataset"]), row["names"], row["covariance"]) for _, row in known.iterrows()),
        statements=covariance_statements(known, attacked),
    )


def heat_map(dataset: str, names: list[str], covariance: list[list[float]]) -> HeatMap:
    """Draw a covariance as the paper does: columns against columns, the darker the larger in magnitude.

    Cells say hundredths; less than half of one is left blank.
    """
    matrix = np.asarray(covariance, dtype=np.float64)
    strongest = float(np.abs(matrix).max()) or 1.0
    numbers = [str(column + 1) for column in range(len(matrix))]
    said = [[_hundredths(value) for value in row] for row in matrix.tolist()]
    rows = [(f"{number} {name}", *cells) for number, name, cells in zip(numbers, names, said, strict=True)]
    return HeatMap(
        caption=f"{dataset}: covariance of the columns",
        note="In hundredths, of columns scaled to [0, 1]. Shade: magnitude, of the largest in this data set.",
        headings=("column", *numbers),
        rows=tuple(rows),
        shares=tuple(tuple(float(abs(value)) / strongest for value in row) for row in matrix),
    )


def _hundredths(value: float) -> str:
    rounded = round(100 * value)
    return str(rounded).replace("-", "\N{MINUS SIGN}") if rounded else ""
