"""Score defences measured: Rassouli, Figure 13, and Jiang, Figures 14 and 15, with adversaries who know the defence."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from plumbline.figures.defences.inversion import MODELS, InversionPlan, privacy_utility
from plumbline.figures.defences.inversion_page import utility_notes, utility_plot
from plumbline.figures.defences.schemes import CURVES, trade_off, trade_off_notes, trade_off_plot
from plumbline.figures.page.section import Section
from plumbline.figures.study import StudyRun
from plumbline.simulation.linear_models import TRAININGS, train
from plumbline.simulation.rounds import told
from vfl.data import DatasetNotFound, load_dataset


@dataclass(frozen=True)
class _Plan:
    """How much is run. windows, records, models: of the trade-off, on the first data set; others: of the inversions.

    models: splits, each trained by every optimiser. datasets: how many, the last ones.
    """

    windows: int
    records: int
    models: int
    seeds: int
    datasets: int
    inversions: InversionPlan


_FULL = _Plan(3, 1000, 3, seeds=3, datasets=2, inversions=InversionPlan(100, 500, 1000, epsilons=(0.1, 1.0, 10.0)))
_QUICK = _Plan(2, 100, 2, seeds=1, datasets=1, inversions=InversionPlan(20, 40, 60, epsilons=()))


def scores_section(run: StudyRun) -> Section:
    """Measure what the coordinator's score defences cost the adversary and the active party.

    The trade-off (Rassouli, Figure 13): half* on a linear model of satellite, clamped to [0, 1] and as it is, by an
    adversary who doesn't know the defence ("unaware") and one who knows it with all its options ("aware"); means over
    windows of adjacent passive columns, of several splits, each trained by both optimisers.

    Privacy and utility (Jiang, Figures 14 and 15): gradient inversion of a linear model and a network on satellite and
    robot, half the columns passive, white box and by a shadow model; three splits from ``seed`` on.

    Where raw files are missing, digits and wine take their places. quick: less of everything.

    ``data`` has one row per measurement. option: of the defence; strength: the same as a number. attack_error: MSE per
        feature; kl: mean KL divergence of the delivered scores from the original ones, in nats, infinite where a score
        became 0; start: the inversion's initial point.
    """
    plan = _QUICK if run.quick else _FULL
    names, missing = _available(run.data_dir)
    used = names[-plan.datasets :]
    traded = _traded(used[0], run.data_dir, run.seed, plan)
    splits = [(name, run.seed + split) for name in used for split in range(plan.seeds)]
    runs = [privacy_utility(name, run.data_dir, split, plan.inversions) for name, split in told(splits, run.done)]
    utility = pd.concat(runs, ignore_index=True)
    data = pd.concat([traded, utility], ignore_index=True)
    return Section(
        name="scores",
        title="Defences of the confidence scores (Rassouli VII-B, Jiang 6)",
        data=data,
        summary=_summary(data),
        plots=(trade_off_plot(traded), *(utility_plot(utility, model) for model in MODELS)),
        notes=(*missing, *trade_off_notes(traded), *utility_notes(utility)),
    )


def _traded(name: str, data_dir: Path | None, seed: int, plan: _Plan) -> pd.DataFrame:
    parts = [
        trade_off(train(name, data_dir, training, seed + number), windows=plan.windows, records=plan.records).assign(
            optimiser=training, seed=seed + number
        )
        for training in TRAININGS
        for number in range(plan.models)
    ]
    return pd.concat(parts, ignore_index=True)


def _available(data_dir: Path | None) -> tuple[list[str], list[str]]:
    """The data sets, and what to say about those that aren't there."""
    found, said = [], []
    for name, fallback in (("satellite", "digits"), ("robot", "wine")):
        try:
            load_dataset(name, data_dir)
            found.append(name)
        except DatasetNotFound as missing:
            found.append(fallback)
            said.append(f"{fallback} takes the place of {name}: its numbers are not the papers'. {missing}")
    return found, said


_KEYS = ["experiment", "dataset", "model", "optimiser", "access", "d", "defence", "option", "adversary"]
_MEASURES = ["model_accuracy", "decisions_kept", "kl", "attack_error", "attack_accuracy"]


def _summary(data: pd.DataFrame) -> pd.DataFrame:
    """Means over splits, rounded; of the trade-off, each curve's typical strength."""
    typical = {curve.title: curve.typical for curve in CURVES}
    shown = data["strength"].isna() | (data["strength"] == data["defence"].map(typical))
    means = data[shown].groupby(_KEYS, sort=False, dropna=False)[_MEASURES].mean().reset_index()
    return means.round(dict.fromkeys(_MEASURES, 4))
