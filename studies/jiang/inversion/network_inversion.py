"""Figure 7: gradient inversion of networks, against the generative network and a random guess (Jiang 5.2.2)."""

from studies.jiang.inversion.claims_on_networks import NETWORK_CLAIMS
from studies.jiang.inversion.contenders import COMPLETE, GIA, GRN, on_networks
from studies.jiang.inversion.curve_tests import of_each
from studies.jiang.inversion.inversion_plots import (
    errors_table,
    left_on_the_table,
    plots_of,
    ratio_panels,
    with_guesses,
)
from studies.jiang.inversion.inversion_setting import (
    DATA_SETS,
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

# Every window has a network of its own: half a minute each.
_FULL = InversionPlan(Grid(DATA_SETS, ratios=(0.1, 0.3, 0.5, 0.7, 0.9), windows=3, seeds=3))


def networks(run: StudyRun, plan: InversionPlan | None = None) -> Section:
    """Measure Figure 7, as the run or a plan says."""
    plan = plan or (QUICK_NETWORKS if run.quick else _FULL)
    grid, skipped = usable(run, plan.grid)
    contenders = (*on_networks(plan.steps, plan.draws), *plugged_in(run))
    results = with_guesses(measured(run, contests(network_targets(grid, run.seed), contenders, plan.records)))
    drawn = results[results["curve"] != COMPLETE]
    return Section(
        name="networks",
        title="Networks of two hidden layers in a white box (Figure 7)",
        data=results,
        summary=errors_table(results),
        plots=(
            *plots_of("networks-error", ratio_panels(drawn, "mse"), _ERROR_CAPTION),
            *plots_of("networks-accuracy", ratio_panels(drawn, "attack_accuracy"), _ACCURACY_CAPTION),
        ),
        notes=(
            f"Means over {grid.words}; {plan.records} held-out predictions each, from which the generator (GRN) learns "
            f"as well; {plan.steps:,} rounds of gradient inversion. Each window has networks of its own.",
            *left_on_the_table(results, (GRN, GIA)),
            *skipped,
        ),
        statements=of_each(NETWORK_CLAIMS, results),
    )


_ERROR_CAPTION = (
    "Attack error against the passive party's share of the columns; each party has a network of two hidden layers of "
    "eight sigmoid units. The start at one half is Rassouli's (Figure 14), not Jiang's."
)
_ACCURACY_CAPTION = "Attack accuracy (eq. 24) on the same networks."
