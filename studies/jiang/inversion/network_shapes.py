"""Figures 9 and 10: gradient inversion of networks of several shapes, a Bayesian beside (Jiang 5.2.2.2, 5.2.2.3)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd

from studies.jiang.inversion.claims_on_networks import statements_on_activations, statements_on_sizes
from studies.jiang.inversion.contenders import bayesian, inversion, random_guess
from studies.jiang.inversion.inversion_plots import errors_table, plots_of, ratio_panels, with_guesses
from studies.jiang.inversion.inversion_setting import (
    DATA_SETS,
    HIDDEN,
    QUICK_NETWORKS,
    Grid,
    InversionPlan,
    contests,
    measured,
    network_targets,
    plugged_in,
    usable,
)
from studies.page.section import Section
from studies.study import StudyRun


@dataclass(frozen=True)
class Shape:
    """A network's hidden layers, which both parts have, and their activation."""

    hidden: tuple[int, ...] = HIDDEN
    activation: str = "sigmoid"


SIZES = {"1 layer": Shape((8,)), "2 layers": Shape((8, 8)), "3 layers": Shape((8, 8, 8))}
ACTIVATIONS = {name: Shape(activation=name) for name in ("sigmoid", "tanh", "relu")}
# Ratios of Figure 7, whose networks are among these.
_FULL = InversionPlan(Grid(DATA_SETS, ratios=(0.1, 0.5, 0.9), windows=3, seeds=3))


def sizes(run: StudyRun, plan: InversionPlan | None = None) -> Section:
    """Measure Figure 9, as the run or a plan says."""
    title, by = "One, two and three hidden layers (Figure 9)", "number of hidden layers"
    section = _section(run, plan, SIZES, ("sizes", title, by, "Layers have eight sigmoid units at either party."))
    return replace(section, statements=statements_on_sizes(section.data, [inversion_of(label) for label in SIZES]))


def activations(run: StudyRun, plan: InversionPlan | None = None) -> Section:
    """Measure Figure 10, as the run or a plan says."""
    title, by = "Sigmoid, tanh and relu (Figure 10)", "activation of the hidden layers"
    units = "Two hidden layers of eight units at either party."
    section = _section(run, plan, ACTIVATIONS, ("activations", title, by, units))
    attacks = {label: inversion_of(label) for label in ACTIVATIONS}
    return replace(section, statements=statements_on_activations(section.data, attacks))


def _section(
    run: StudyRun, plan: InversionPlan | None, shapes: Mapping[str, Shape], words: tuple[str, str, str, str]
) -> Section:
    """The section but for its statements; words: its name, its title, what curves differ by, what shapes share."""
    name, title, by, units = words
    plan = plan or (QUICK_NETWORKS if run.quick else _FULL)
    grid, skipped = usable(run, plan.grid)
    results = measured_shapes(run, replace(plan, grid=grid), shapes)
    caption = f"Attack error by the {by}. The Bayesian adversary knows the ranges only."
    return Section(
        name=name,
        title=title,
        data=results,
        summary=errors_table(results),
        plots=plots_of(f"{name}-error", ratio_panels(results, "mse"), caption),
        notes=(f"Means over {grid.words}; {plan.records} predictions each, {plan.steps:,} rounds. {units}", *skipped),
    )


def inversion_of(label: str) -> str:
    """The curve of gradient inversion on a shape."""
    return f"GIA, {label}"


def measured_shapes(run: StudyRun, plan: InversionPlan, shapes: Mapping[str, Shape]) -> pd.DataFrame:
    """Attack networks of every shape; curves carry the shape's label.

    A random guess, and what a guess from the ranges reaches without scores, are the same for all shapes.
    """
    planned = []
    for number, (label, shape) in enumerate(shapes.items()):
        attackers = [
            replace(inversion(plan.steps), label=inversion_of(label)),
            replace(bayesian(plan.draws)[0], label=f"Bayes, {label}"),
            *(replace(one, label=f"{one.label}, {label}") for one in plugged_in(run)),
        ]
        guess = [random_guess()] if number == 0 else []
        attacked = network_targets(plan.grid, run.seed, shape.hidden, shape.activation)
        planned += contests(attacked, [*guess, *attackers], plan.records)
    first = next(iter(shapes))
    return with_guesses(measured(run, planned), {f"Bayes, {first}": "no score, ranges"})
