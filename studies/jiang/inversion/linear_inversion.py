"""Figure 5: gradient inversion of logistic regressions, against equation solving and a random guess (Jiang 5.2.1)."""

from dataclasses import dataclass

from studies.jiang.inversion.claims_on_linear import statements_on_linear
from studies.jiang.inversion.contenders import (
    CLAMPED,
    COMPLETE,
    ESA,
    GIA,
    GIA_KLD,
    HALF_STAR,
    on_linear_models,
)
from studies.jiang.inversion.inversion_plots import (
    errors_table,
    left_on_the_table,
    plots_of,
    ratio_panels,
    with_guesses,
)
from studies.jiang.inversion.inversion_setting import (
    DATA_SETS,
    QUICK_ROWS,
    QUICK_STEPS,
    RECORDS,
    STEPS,
    Grid,
    contests,
    linear_targets,
    measured,
    plugged_in,
    usable,
)
from studies.page.section import Section
from studies.study import StudyRun


@dataclass(frozen=True)
class LinearPlan:
    """What Figure 5 is drawn from.

    Attributes:
        grid: of models.
        records: attacked at each point.
        steps: of gradient inversion.
        draws: of the Bayesian sampler.
    """

    grid: Grid
    records: int = RECORDS
    steps: int = STEPS
    draws: int = 60


_FULL = LinearPlan(Grid(DATA_SETS, windows=4))
_QUICK = LinearPlan(Grid(DATA_SETS, ratios=(0.1, 0.9), windows=2, rows=QUICK_ROWS), steps=QUICK_STEPS, draws=20)


def linear(run: StudyRun) -> Section:
    """Measure Figure 5."""
    return linear_section(run, _QUICK if run.quick else _FULL)


def linear_section(run: StudyRun, plan: LinearPlan) -> Section:
    """Measure Figure 5 as a plan says."""
    grid, skipped = usable(run, plan.grid)
    contenders = (*on_linear_models(plan.steps, plan.draws), *plugged_in(run))
    results = with_guesses(measured(run, contests(linear_targets(grid, run.seed), contenders, plan.records)))
    drawn = results[~results["curve"].isin(_NOT_DRAWN)]
    return Section(
        name="linear",
        title="Logistic regression in a white box (Figure 5)",
        data=results,
        summary=errors_table(results),
        plots=(
            *plots_of("linear-error", ratio_panels(drawn, "mse", complete=True), _ERROR_CAPTION),
            *plots_of("linear-accuracy", ratio_panels(drawn, "attack_accuracy", complete=True), _ACCURACY_CAPTION),
        ),
        notes=(
            f"Means over {grid.words}; {plan.records} held-out predictions each, {plan.steps:,} rounds of gradient "
            "inversion at a rate of 0.01. The paper names neither its windows nor its number of rounds. The shade is "
            "a 95 % interval.",
            *left_on_the_table(results, (ESA, GIA, GIA_KLD)),
            *skipped,
        ),
        statements=statements_on_linear(results),
    )


# In the data and the table; a plot has room for nine.
_NOT_DRAWN = (CLAMPED, HALF_STAR, COMPLETE)
_ERROR_CAPTION = (
    "Attack error (eq. 23) against the passive party's share of the columns. The first points of each data set are "
    "those at which scores determine every feature, d <= k - 1. RCC2 is Rassouli's, not Jiang's."
)
_ACCURACY_CAPTION = "Attack accuracy (eq. 24): how often a classifier labels the reconstruction as it labels the truth."
