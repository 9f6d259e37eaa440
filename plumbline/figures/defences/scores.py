"""Score defences measured: Jiang, Figures 14 and 15."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from plumbline.figures.defences.inversion import MODELS, InversionPlan, privacy_utility
from plumbline.figures.defences.inversion_page import utility_notes, utility_plot
from plumbline.figures.page.section import Section
from plumbline.figures.study import StudyRun
from plumbline.simulation.rounds import told
from vfl.data import DatasetNotFound, load_dataset


@dataclass(frozen=True)
class _Plan:
    """How much is run. seeds: splits; datasets: how many, the last ones."""

    seeds: int
    datasets: int
    inversions: InversionPlan


_FULL = _Plan(seeds=3, datasets=2, inversions=InversionPlan(100, 500, 1000, epsilons=(0.1, 1.0, 10.0)))
_QUICK = _Plan(seeds=1, datasets=1, inversions=InversionPlan(20, 40, 60, epsilons=()))


def scores_section(run: StudyRun) -> Section:
    """Measure what the coordinator's score defences cost the adversary and the active party.

    Privacy and utility (Jiang, Figures 14 and 15): gradient inversion of a linear model and a network on satellite and
    robot, half the columns passive, white box and by a shadow model; three splits from ``seed`` on.

    Where raw files are missing, digits and wine take their places. quick: less of everything.

    ``data`` has one row per measurement. option: of the defence. attack_error: MSE per
        feature; kl: mean KL divergence of the delivered scores from the original ones, in nats, infinite where a score
        became 0; start: the inversion's initial point.
    """
    plan = _QUICK if run.quick else _FULL
    names, missing = _available(run.data_dir)
    used = names[-plan.datasets :]
    splits = [(name, run.seed + split) for name in used for split in range(plan.seeds)]
    runs = [privacy_utility(name, run.data_dir, split, plan.inversions) for name, split in told(splits, run.done)]
    data = pd.concat(runs, ignore_index=True)
    return Section(
        name="scores",
        title="Defences of the confidence scores (Jiang 6)",
        data=data,
        summary=_summary(data),
        plots=tuple(utility_plot(data, model) for model in MODELS),
        notes=(*missing, *utility_notes(data)),
    )


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


_KEYS = ["experiment", "dataset", "model", "access", "d", "defence", "option", "adversary"]
_MEASURES = ["model_accuracy", "decisions_kept", "kl", "attack_error", "attack_accuracy"]


def _summary(data: pd.DataFrame) -> pd.DataFrame:
    """Means over splits, rounded."""
    means = data.groupby(_KEYS, sort=False, dropna=False)[_MEASURES].mean().reset_index()
    return means.round(dict.fromkeys(_MEASURES, 4))
