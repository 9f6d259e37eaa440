"""Figure 8: attacks by the number of predictions that they have, alone or together (Jiang 5.2.2.1)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

import attacks
from plumbline.judge.measures import LikewiseLabelled, mse_per_feature
from studies.claims.claim import NOTHING, Claim, Finding
from studies.claims.kinds import joined, paired, trend, where
from studies.claims.statement import interval_over, interval_words
from studies.jiang.inversion.contenders import GIA, GRN, bayesian, inversion, random_guess
from studies.jiang.inversion.curve_tests import CURVES, below, data_sets_of, of_each
from studies.jiang.inversion.inversion_plots import plots_of
from studies.jiang.inversion.inversion_setting import (
    QUICK_ROWS,
    QUICK_STEPS,
    STEPS,
    Contender,
    Grid,
    measured,
    network_targets,
    plugged_in,
    usable,
)
from studies.measurements import Choice, TaskMeasurement
from studies.page.elements import number_words
from studies.page.plots import Curve, Panel, mean_curve
from studies.page.section import Section
from studies.study import StudyRun

_HERE = "studies.jiang.inversion.generator_records"
OF_PAPER, _SOURCE = ("bank_all", "satellite"), "Figure 8, 5.2.2.1"
# Accuracies that differ by less are alike to a reader of the plot.
_ALIKE = 0.05


@dataclass(frozen=True)
class CountPlan:
    """What Figure 8 is drawn from.

    Attributes:
        grid: of networks, of one ratio.
        counts: of predictions that an attack has together.
        least: predictions in all at each count: few are attacked in so many batches.
        steps: of gradient inversion.
        draws: of the Bayesian sampler.
        epochs: of the generator that is trained for longer than published.
    """

    grid: Grid
    counts: tuple[int, ...] = (1, 10, 100, 1000)
    least: int = 40
    steps: int = STEPS
    draws: int = 60
    epochs: int = 300


_FULL = CountPlan(Grid(OF_PAPER, ratios=(0.5,), windows=3, seeds=3))
_QUICK = CountPlan(
    Grid(("satellite",), ratios=(0.5,), windows=2, rows=QUICK_ROWS),
    (1, 10, 100),
    10,
    steps=QUICK_STEPS,
    draws=15,
    epochs=120,
)
LONGER = "GRN, trained longer"


def in_batches(
    shared: Any, *, passive: Sequence[int], attack: str, options: Sequence[Any], together: int, batches: int
) -> dict[str, Any]:
    """Mount an attack on batches of predictions, each by itself: ``mse`` and ``attack_accuracy`` over all of them.

    Args:
        shared: the trained model.
        passive: columns.
        attack: by name.
        options: pairs of a name and a value.
        together: predictions in a batch.
        batches: how many; fewer where records end.
    """
    view, truth = shared.view(passive, together * batches)
    mounted = attacks.load_prediction(attack, **dict(options))
    estimates = []
    for first in range(0, len(truth) - together + 1, together):
        rows = slice(first, first + together)
        scores = None if view.scores is None else view.scores[rows]
        estimates.append(mounted.reconstruct(replace(view, features_active=view.features_active[rows], scores=scores)))
    estimate, truth = np.vstack(estimates), truth[: together * len(estimates)]
    held_out = shared.features_train[:, list(passive)]
    judge = LikewiseLabelled(truth, held_out=held_out, held_out_labels=shared.labels_train)
    return {"mse": mse_per_feature(truth, estimate), "attack_accuracy": judge.accuracy(estimate)}


def generative(run: StudyRun, plan: CountPlan | None = None) -> Section:
    """Measure Figure 8, as the run or a plan says."""
    plan = plan or (_QUICK if run.quick else _FULL)
    grid, skipped = usable(run, plan.grid)
    results = measured(run, _planned(run, plan, grid))
    return Section(
        name="generative",
        title="By the number of predictions (Figure 8)",
        data=results,
        summary=_table(results),
        plots=plots_of("generative-accuracy", _panels(results), _CAPTION),
        notes=(
            f"Networks of two hidden layers, r = {plan.grid.ratios[0]}; {grid.words}. Few predictions are attacked in "
            f"batches of so many, each by itself, {plan.least} predictions or more in all; {plan.steps:,} rounds of "
            f"gradient inversion. {LONGER!r} has {plan.epochs} epochs, where the published generator has 60.",
            f"{GIA} and the Bayesian adversary work on each record alone, so that they are mounted once on all records "
            "of a point: the same estimates as in batches.",
            *skipped,
        ),
        statements=of_each(COUNT_CLAIMS, results, OF_PAPER),
    )


def _planned(run: StudyRun, plan: CountPlan, grid: Grid) -> list[Any]:
    alone = (random_guess(), inversion(plan.steps), bayesian(plan.draws)[0])
    together = (
        Contender(GRN, Choice.of("grn")),
        Contender(LONGER, Choice.of("grn", epochs=plan.epochs)),
        *plugged_in(run),
    )
    planned = []
    for target in network_targets(grid, run.seed):
        for count in plan.counts:
            batches = max(1, plan.least // count)
            for one in (*alone, *together):
                at_once = (count * batches, 1) if one in alone else (count, batches)
                beside = target.described | {"curve": one.label, "ours": one.ours, "predictions": count}
                beside |= {"d": len(target.passive), "start": target.passive[0], "seed": target.model.seed}
                asked: dict[str, Any] = {"attack": one.attack.name, "options": one.attack.options}
                asked |= {"passive": target.passive, "together": at_once[0], "batches": at_once[1]}
                planned.append((beside, TaskMeasurement.of(f"{_HERE}:in_batches", target.model, **asked)))
    return planned


def _panels(results: pd.DataFrame) -> tuple[Panel, ...]:
    panels = []
    for name in data_sets_of(results):
        curves = where(results, dataset=name).groupby("curve", sort=False)
        drawn = tuple(_curve(part, str(label)) for label, part in curves)
        panels.append(Panel(name, "predictions, powers of ten", "attack accuracy", drawn))
    return tuple(panels)


def _curve(part: pd.DataFrame, label: str) -> Curve:
    powers = part.assign(power=np.log10(part["predictions"].astype(float)))
    return mean_curve(powers, "power", label, measure="attack_accuracy", ours=bool(part["ours"].iloc[0]))


def _table(results: pd.DataFrame) -> pd.DataFrame:
    done = results[results["status"] == "done"]
    if done.empty:
        return pd.DataFrame(columns=["dataset", "predictions"])
    means = done.groupby(["dataset", "predictions", "curve"], sort=False)["attack_accuracy"].mean().unstack("curve")
    return means[list(done["curve"].unique())].map(number_words).reset_index()


_CAPTION = "Attack accuracy at r = 0.5 by how many predictions an attack has."


def _more_with_more(rows: pd.DataFrame) -> Finding:
    own = CURVES.of(rows, GRN).dropna(subset="attack_accuracy")
    found = trend(own, "predictions", "attack_accuracy")
    if found is None:
        return NOTHING
    words = f"Rank correlation with the number of predictions: {interval_words(found)}."
    return Finding([found.mean > 0, found.low > 0 and not found.alone], words)


def _stays(rows: pd.DataFrame) -> Finding:
    own = CURVES.of(rows, GIA)
    fewest, most = (own[own["predictions"] == end] for end in (own["predictions"].min(), own["predictions"].max()))
    pairs = paired(most, fewest, ("seed", "start"), "attack_accuracy")
    if own["predictions"].nunique() < 2 or not len(pairs):
        return NOTHING
    change, first, last = (interval_over(pairs, name) for name in ("difference", "right", "left"))
    return Finding(
        [abs(change.mean) <= _ALIKE],
        f"{interval_words(first)} with the fewest, {interval_words(last)} with the most: {interval_words(change)} more "
        "on the same windows.",
    )


def _ahead_with_few(rows: pd.DataFrame) -> Finding:
    few = rows[rows["predictions"] <= 10].groupby("predictions")
    return joined(below(GIA, GRN, "attack_accuracy")(part) for _, part in few)


COUNT_CLAIMS = (
    Claim(
        _SOURCE,
        "The generative network has a lower attack accuracy with fewer predictions.",
        _more_with_more,
        "Theirs, by the measure: with few predictions its generator has barely started and gives about one half for "
        "every feature, which a classifier labels like many a record; training for longer changes that more than "
        "records do.",
    ),
    Claim(
        _SOURCE,
        "Gradient inversion performs as well with a single prediction.",
        _stays,
        "It works on each record alone: what differs between the points is which records are attacked.",
    ),
    Claim(
        _SOURCE,
        "With one or ten predictions gradient inversion is the more accurate attack.",
        _ahead_with_few,
        "Theirs: from zeros the search ends far from the features; see Figure 7.",
    ),
)
