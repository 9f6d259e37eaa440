"""The agnostic attack against the number of passive columns: Varasteh, Figures 3, 4 and 7, with ours beside.

SIMULATION: models are trained in one place, on all parties' columns; no service runs.
"""

import pandas as pd

from studies.page.plots import Curve, Panel, Plot, mean_curve
from studies.page.section import Section
from studies.study import StudyRun
from studies.varasteh.agnostic_claims import agnostic_statements
from studies.varasteh.error_panels import federations_part, left_on_the_table, panels_of, summary_of
from studies.varasteh.rivals import (
    BY_SCORES,
    KNOWS_COVARIANCE,
    KNOWS_MARGINALS,
    KNOWS_NOTHING,
    KNOWS_RECORDS,
    OURS,
    OWN_MODEL,
    PUBLISHED,
    QUICK,
    Rival,
    WindowPlan,
    brought,
    errors,
)

# Adversaries by the dozen take seconds each: fewer windows than where one is cheap.
_FULL = WindowPlan(sizes=6, windows=3, seeds=1)


def agnostic_section(run: StudyRun) -> Section:
    """Measure the agnostic attack, plain and refined, half* with exact scores, and the Bayesian adversary."""
    plan = QUICK if run.quick else _FULL
    names, missing = run.available(plan.datasets)
    rivals = (*PUBLISHED, *OURS, *brought(run.attacks))
    at = [one for name in names for one in plan.of(name, run.seed)]
    data = errors(run, at, rivals, plan.records)
    how = (
        f"Errors are means over {plan.records} held-out records, {plan.windows} windows of adjacent columns; "
        "shades are 95 % intervals over windows. The paper averages over every window "
        "and over training and held-out records; the part on accuracy has both apart."
    )
    return Section(
        name="agnostic",
        title="The agnostic attack, plain and refined (Figures 3, 4 and 7)",
        data=data,
        summary=summary_of(data),
        plots=tuple(_plots(data, rivals)),
        notes=(*missing, *([how] if names else []), *left_on_the_table(data), *federations_part(data)),
        statements=agnostic_statements(data),
    )


def _plots(data: pd.DataFrame, rivals: tuple[Rival, ...]) -> list[Plot]:
    shown = panels_of(data, rivals, banded=(OWN_MODEL, BY_SCORES))
    if not shown:
        return []
    caption = "Figures 3, 4 and 7: error against the number of passive columns. Heavier: not in the paper."
    beside = (
        "Ours: the Bayesian adversary who sees the scores, at four levels of knowledge, and the best guess without."
    )
    return [
        Plot("errors", shown, caption, columns=3),
        Plot("beforehand", [_with_and_without_scores(data, panel.title) for panel in shown], beside, columns=3),
    ]


_LEVELS = {
    KNOWS_NOTHING: "ranges",
    KNOWS_MARGINALS: "marginals",
    KNOWS_COVARIANCE: "covariance",
    KNOWS_RECORDS: "records",
}


def _with_and_without_scores(data: pd.DataFrame, name: str) -> Panel:
    """The posterior at each level, and the best guess there that sees no score."""
    curves: list[Curve] = []
    for label, level in _LEVELS.items():
        part = data[(data["dataset"] == name) & (data["curve"] == label) & data["mse"].notna()]
        if len(part):
            curves.append(mean_curve(part, "d", f"{level}, scores", ours=True, banded=False))
            curves.append(mean_curve(part, "d", f"{level}, no scores", measure="guess", ours=True, banded=False))
    return Panel(name, "passive columns d", "MSE per feature", tuple(curves))
