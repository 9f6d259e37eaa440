"""Moved parameters at a few levels of interpretability, against d: Varasteh, Figure 12, with ours beside.

SIMULATION: models are trained in one place, on all parties' columns; no service runs.
"""

from dataclasses import dataclass, replace

import pandas as pd

from studies.measurements import Choice, TaskMeasurement
from studies.page.plots import Plot
from studies.page.section import Section
from studies.study import StudyRun
from studies.varasteh.distortion_claims import level_statements
from studies.varasteh.rivals import (
    ADULT,
    HALF_STAR,
    OURS,
    PUBLISHED,
    Attacked,
    Rival,
    brought,
    columns_of,
    errors,
    placed,
    situations,
    widths,
)
from studies.varasteh.rotation import HALF, NAIVE
from studies.varasteh.trade_off_plots import level_panels

_TASK = "studies.varasteh.rotation:distorted_errors"


@dataclass(frozen=True)
class _Plan:
    """How much is measured.

    Attributes:
        datasets: names.
        sizes: numbers of passive columns for each data set.
        epsilons: multiples of the mean squared parameter.
        beside: the one at which those attack who know of the defence, and under which plugins are tried.
        windows: of adjacent columns, for each size.
        records: attacked predictions.
    """

    datasets: tuple[str, ...] = ("satellite", "bank", "pendigits", ADULT)
    sizes: int = 6
    epsilons: tuple[float, ...] = (0.001, 0.01, 0.1)
    beside: float = 0.1
    windows: int = 3
    records: int = 500


_FULL = _Plan()
_QUICK = _Plan(datasets=("satellite", "bank"), sizes=2, windows=1, records=50)


def levels_section(run: StudyRun) -> Section:
    """Measure half* against d under distortions of a few sizes, and the Bayesian adversary who knows of one."""
    plan = _QUICK if run.quick else _FULL
    names, missing = run.available(plan.datasets)
    at = [one for name in names for one in situations(name, _sizes(name, plan), plan.windows, [run.seed])]
    data = _distorted(run, at, plan)
    rivals = _rivals(run, plan)
    others = errors(run, at, rivals, plan.records)
    beside = [(rival.label, others[others["curve"] == rival.label]) for rival in rivals]
    panels = level_panels(data, beside)
    caption = (
        "Figure 12: error against d for some epsilon, in mean squared parameters. Heavier: not in the paper; they know "
        f"that parameters were moved (epsilon {plan.beside:g})."
    )
    both = pd.concat([data, others], ignore_index=True)
    return Section(
        name="levels",
        title="Levels of interpretability against d (Figure 12)",
        data=both,
        summary=_summary(data, others),
        plots=(Plot("levels", panels, caption),) if panels else (),
        notes=missing,
        statements=level_statements(data),
    )


def _sizes(name: str, plan: _Plan) -> tuple[int, ...]:
    """Two columns, of which the paper speaks, and others."""
    columns = columns_of(name)
    return tuple(sorted({min(2, columns - 1), *widths(columns, plan.sizes)}))


def _distorted(run: StudyRun, at: list[Attacked], plan: _Plan) -> pd.DataFrame:
    asked = [(one, epsilon) for one in at for epsilon in (0.0, *plan.epsilons)]
    frame = run.measure(
        [
            TaskMeasurement.of(
                _TASK, one.model, passive=one.passive, epsilon=epsilon, records=plan.records, informed=False
            )
            for one, epsilon in asked
        ]
    )
    return placed(frame, [one.passive for one, _ in asked])


def _rivals(run: StudyRun, plan: _Plan) -> tuple[Rival, ...]:
    """Ours and plugins under the paper's defence, who know of it; and half* under defences of ``--with``."""
    moved = Choice.of("parameter_rotation", epsilon=plan.beside, secret="none")  # noqa: S106 - no password
    knowing = [replace(rival, defences=(moved,)) for rival in (*OURS, *brought(run.attacks))]
    half_star = next(rival for rival in PUBLISHED if rival.label == HALF_STAR)
    others = [replace(half_star, label=f"half*, {one.words}", defences=(one,), ours=True) for one in run.defences]
    return (*knowing, *others)


def _summary(data: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Means over d: half* at each epsilon, 1/2, and those beside."""
    if NAIVE not in data or "mse" not in others:
        return pd.DataFrame(columns=["dataset"])
    levels = data.pivot_table(index="dataset", columns="epsilon", values=NAIVE, sort=False)
    levels.columns = pd.Index([f"half*, epsilon {epsilon:g}" for epsilon in levels.columns])
    half = data.groupby("dataset", sort=False)[HALF].mean()
    beside = others.pivot_table(index="dataset", columns="curve", values="mse", sort=False)
    return levels.join(half).join(beside).reset_index()
