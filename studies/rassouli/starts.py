"""Figure 14: gradient inversion by where it starts, beside what a start alone says and the Bayesian adversary.

SIMULATION: models are trained in one place, on all parties' columns; no service runs.
"""

from dataclasses import dataclass
from functools import partial

import pandas as pd

from studies.claims.claim import judged_here
from studies.measurements.descriptions import Choice, Measurement
from studies.page.elements import number_words
from studies.page.plots import Plot
from studies.page.section import Section
from studies.rassouli.claims.starting import START_CLAIMS
from studies.rassouli.white_box import GIA_STEPS, curve, error_panel, gia, level
from studies.rassouli.windowed import (
    DATASETS,
    LEVELS,
    SYNTHETIC,
    Windows,
    brought_measurements,
    classes_over,
    mean_errors,
    measured_on,
    measurements_over,
    model_of,
    posterior_measurements,
)
from studies.study import StudyRun

STARTS = ("zero", "half", "random")


@dataclass(frozen=True)
class _Plan:
    """How much is run. ours: windows of the Bayesian adversary; steps: of Adam, per search."""

    datasets: tuple[str, ...]
    rows: int | None
    windows: Windows
    ours: Windows
    records: int
    auxiliary: int
    steps: int


# Windows that Figure 4 has as well: their measurements are the same.
_FULL = _Plan(DATASETS, None, Windows(count=5), Windows(sizes=8, count=4), records=1000, auxiliary=90, steps=GIA_STEPS)
_QUICK = _Plan(
    ("satellite", SYNTHETIC),
    4000,
    Windows(sizes=3, count=2),
    Windows(sizes=3, count=2),
    records=100,
    auxiliary=40,
    steps=300,
)


def starts_section(run: StudyRun, plan: _Plan | None = None) -> Section:
    """Measure gradient inversion from 0, 1/2 and at random, with half* and ours beside it.

    ``data``: a row per data set, window and attack (``measure_all``), ``k``, and ``start_at``: zero, half or random for
    gradient inversion, the attack's name for others.
    """
    plan = plan or (_QUICK if run.quick else _FULL)
    names, skipped = run.available(plan.datasets)
    data = measured_on(run, names, partial(_measurements, run, plan))
    words = {gia(start, plan.steps).words: start for start in STARTS}
    # A guess that a user brings is called as a start is.
    words |= {start: f"attack {start}" for start in STARTS}
    data = data.assign(start_at=data["attack"].map(lambda attack: words.get(attack, attack)), k=classes_over(data))
    return Section(
        name="starts",
        title="Gradient inversion by where it starts (Figure 14)",
        data=data,
        summary=mean_errors(data, ["dataset"], "start_at"),
        plots=(_plot(data),),
        notes=(*skipped, *_notes(data, plan)),
        statements=judged_here(START_CLAIMS, data),
    )


def _measurements(run: StudyRun, plan: _Plan, name: str) -> list[Measurement]:
    model = model_of(name, run.seed, rows=plan.rows)
    searches = [gia(start, plan.steps) for start in STARTS]
    return [
        *measurements_over(model, plan.windows, (*searches, Choice.of("half_star")), plan.records),
        *brought_measurements(run.attacks, model, plan.windows, plan.records, plan.auxiliary),
        *posterior_measurements(model, plan.ours, plan.records, plan.auxiliary),
    ]


_LABELS = {"zero": "GIA from 0", "half": "GIA from 1/2", "random": "GIA from a random point", "half_star": "Half*"}


def _plot(data: pd.DataFrame) -> Plot:
    panels = []
    for name in data["dataset"].unique():
        own = data[data["dataset"] == name].assign(attack=lambda rows: rows["start_at"])
        curves = [curve(own, start, label) for start, label in _LABELS.items()]
        others = own["start_at"].unique()
        plugins = [one for one in others if one not in _LABELS and not one.startswith("posterior")]
        curves += [curve(own, one, one) for one in plugins]
        for prior, words in LEVELS.items():
            curves.append(curve(own, level(prior), f"posterior, knows {words}", ours=True))
            if prior != "covariance":
                curves.append(curve(own, level(prior), f"guess, knows {words}", measure="guess", ours=True))
        panels.append(error_panel(str(name), curves))
    return Plot(
        "starts",
        panels,
        "Figure 14: gradient inversion by its start. Heavy: the Bayesian adversary at each level of what it knows "
        "beforehand, and the level's best guess without a score.",
    )


def _notes(data: pd.DataFrame, plan: _Plan) -> list[str]:
    said = [
        f"{plan.steps} steps of Adam, kept in [0, 1] after each; the divergence D(c || c_hat). A random start is "
        "drawn once for all records of a window. Plain gradient descent from 1/2 would end in half* where nothing "
        "leaves [0, 1], and from 0 in LS: what Adam finds otherwise is Adam's."
    ]
    for name in data["dataset"].unique():
        own = data[(data["dataset"] == name) & (data["d"] >= data["k"])]
        means = own.groupby("start_at")["mse"].mean()
        best = means.reindex(list(STARTS)).idxmin()
        said.append(
            f"{name}, d >= k: the best start is {best}, at {number_words(means[best])}; half* errs "
            f"{number_words(means['half_star'])} without a search."
        )
    return said
