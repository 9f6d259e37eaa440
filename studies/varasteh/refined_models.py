"""Refining the adversary's model by delivered scores and labels: Varasteh, Figure 5 and section IV-B, with ours beside.

SIMULATION: models are trained in one place, on all parties' columns; no service runs.
"""

from dataclasses import replace

import pandas as pd

from studies.measurements import Choice
from studies.page.plots import Plot
from studies.page.section import Section
from studies.study import StudyRun
from studies.varasteh.agnostic_claims import refined_statements, unmoved_by_score_defences, with_errors
from studies.varasteh.error_panels import left_on_the_table, panels_of, summary_of
from studies.varasteh.rivals import (
    BY_LABELS,
    DELIVERED,
    OURS,
    PUBLISHED,
    Rival,
    WindowPlan,
    brought,
    errors,
    refined,
)

FEW = 50
ALPHAS = (0.1, 1.0, 10.0)
# Each keeps the decision: what is left of a score is its label.
SCORE_DEFENCES = (Choice.of("score_rounding", decimals=1), Choice.of("class_label"))


# Of data sets that are refined; measurements are those of the section on the agnostic attack.
_FULL = WindowPlan(("satellite", "pendigits", "bank"), sizes=6, windows=3, seeds=1)
_QUICK = WindowPlan(("satellite",), sizes=2, windows=2, seeds=1, records=100)


def curve_name(delivered: int, alpha: float) -> str:
    """What a refined model is called: RAM(50, 1), as in the paper."""
    return f"RAM({delivered}, {alpha:g})"


def refined_section(run: StudyRun) -> Section:
    """Measure the attack with models refined by few and many scores, of little and of much weight, and by labels."""
    plan = _QUICK if run.quick else _FULL
    names, missing = run.available(plan.datasets)
    strengths = [(FEW, 1.0), *((DELIVERED, alpha) for alpha in ALPHAS)]
    more = [refined(curve_name(n, alpha), "scores", n, alpha=alpha) for n, alpha in strengths]
    rivals = (*PUBLISHED[:3], *more, PUBLISHED[-1], *OURS, *brought(run.attacks))
    # Who refines by the labels that defended scores still tell.
    by_labels = {choice.words: f"{BY_LABELS}, {choice.words}" for choice in SCORE_DEFENCES}
    defended = [replace(PUBLISHED[-1], label=by_labels[one.words], defences=(one,)) for one in SCORE_DEFENCES]
    at = [one for name in names for one in plan.of(name, run.seed)]
    data = errors(run, at, (*rivals, *defended), plan.records)
    statements = refined_statements(data, {n: curve_name(n, 1) for n in (FEW, DELIVERED)})
    unmoved = unmoved_by_score_defences(data, BY_LABELS, by_labels)
    return Section(
        name="refined",
        title="Refining the adversary's model (Figure 5)",
        data=data,
        summary=summary_of(data),
        plots=tuple(_plots(data, rivals)),
        notes=(*missing, *_weights(data), *left_on_the_table(data)),
        statements=(*statements, *unmoved),
    )


def _plots(data: pd.DataFrame, rivals: tuple[Rival, ...]) -> list[Plot]:
    panels = panels_of(data, rivals, banded=(curve_name(FEW, 1), curve_name(DELIVERED, 1)))
    caption = (
        "Figure 5: error of the refined attack against the number of passive columns; RAM(delivered scores, alpha). "
        "Heavier: not in the paper."
    )
    return [Plot("refined", panels, caption, columns=3)] if panels else []


def _weights(data: pd.DataFrame) -> tuple[str, ...]:
    """Which alpha erred least, a sentence for each data set."""
    notes = []
    for name, part in with_errors(data).groupby("dataset", sort=False):
        means = part.groupby("curve")["mse"].mean()
        found = {alpha: float(means[curve]) for alpha in ALPHAS if (curve := curve_name(DELIVERED, alpha)) in means}
        if found:
            best = min(found, key=lambda alpha: found[alpha])
            said = ", ".join(f"{error:.4f} (alpha {alpha:g})" for alpha, error in found.items())
            notes.append(f"{name}, {DELIVERED} delivered scores: RAM errs by {said}; alpha {best:g} is best here.")
    return tuple(notes)
