"""Figure 10: gradient inversion of networks with sigmoid, tanh and relu units (Jiang 5.2.2.3)."""

from studies.jiang.inversion.claims_on_networks import statements_on_activations
from studies.jiang.inversion.inversion_plots import errors_table, plots_of, ratio_panels
from studies.jiang.inversion.inversion_setting import DATA_SETS, QUICK_ROWS, QUICK_STEPS, Grid, usable
from studies.jiang.inversion.network_inversion import NetworkPlan
from studies.jiang.inversion.network_shapes import Shape, inversion_of, measured_shapes
from studies.page.section import Section
from studies.study import StudyRun

SHAPES = {name: Shape(activation=name) for name in ("sigmoid", "tanh", "relu")}
_FULL = NetworkPlan(Grid(DATA_SETS, ratios=(0.1, 0.3, 0.5, 0.9), windows=3, seeds=3))
_QUICK = NetworkPlan(
    Grid(("robot",), ratios=(0.1, 0.5, 0.8), windows=2, rows=QUICK_ROWS), steps=QUICK_STEPS, draws=15, records=50
)


def activations(run: StudyRun) -> Section:
    """Measure Figure 10."""
    return activation_section(run, _QUICK if run.quick else _FULL)


def activation_section(run: StudyRun, plan: NetworkPlan) -> Section:
    """Measure Figure 10 as a plan says."""
    grid, skipped = usable(run, plan.grid)
    results = measured_shapes(run, grid, SHAPES, records=plan.records, steps=plan.steps, draws=plan.draws)
    return Section(
        name="activations",
        title="Sigmoid, tanh and relu (Figure 10)",
        data=results,
        summary=errors_table(results),
        plots=plots_of("activations-error", ratio_panels(results, "mse"), _CAPTION),
        notes=(
            f"Means over {grid.words}; {plan.records} predictions each, {plan.steps:,} rounds. Two hidden layers of "
            "eight units at either party.",
            *skipped,
        ),
        statements=statements_on_activations(results, {label: inversion_of(label) for label in SHAPES}),
    )


_CAPTION = "Attack error by the activation of the hidden layers. The Bayesian adversary knows the ranges only."
