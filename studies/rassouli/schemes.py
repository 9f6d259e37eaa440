"""Figure 13: what schemes that keep decisions cost half* and the scores, with adversaries who know them.

SIMULATION: models are trained in one place and scores pass the defences as the coordinator applies them; no service
runs. Noise is seeded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import nnls

import attacks
import defences
from attacks.adaptive import undo_channel
from defences import Defence, NoiseSource, ScoreContext, channel_of
from plumbline.cells.cells import AttackCell, Cell, Choice, TaskCell, windows
from plumbline.judge.measures import mse_per_feature
from plumbline.simulation.informed import given
from plumbline.simulation.linear_models import TRAININGS, TrainedModel
from plumbline.simulation.score_measures import mean_divergence, score_utility
from studies.page.section import Section
from studies.rassouli.claims.defended import scheme_statements
from studies.rassouli.schemes_page import schemes_notes, schemes_plots, schemes_summary
from studies.rassouli.windowed import columns_of, done_rows, model_of, size_of, window_options
from studies.study import StudyRun
from vfl.arrays import FloatArray, IntArray
from vfl.theory.prediction import moments
from vfl.theory.score_noise import largest_noisy_error


@dataclass(frozen=True)
class _Curve:
    """One defence at several strengths. options: what the registry is given for each strength and k classes.

    typical: the strength that the page's table and notes show.
    """

    title: str
    name: str
    strengths: tuple[float, ...]
    typical: float
    options: Callable[[float, int], dict[str, Any]]

    def label(self, strength: float) -> str:
        return f"remainder {strength:g}/k" if self.name == "class_label" else f"alpha {strength:g}"


_BUDGETS = (0.25, 1.0, 4.0, 16.0, 64.0, 256.0)
CURVES = (
    _Curve("scheme 1, +v", "score_scheme1", _BUDGETS, 4.0, lambda alpha, _: {"alpha": alpha, "sign": 1}),
    _Curve("scheme 1, -v", "score_scheme1", _BUDGETS, 4.0, lambda alpha, _: {"alpha": alpha, "sign": -1}),
    _Curve("scheme 2, +v", "score_scheme2", _BUDGETS, 4.0, lambda alpha, _: {"alpha": alpha, "sign": 1}),
    _Curve("scheme 2, -v", "score_scheme2", _BUDGETS, 4.0, lambda alpha, _: {"alpha": alpha, "sign": -1}),
    _Curve("scheme 3", "score_scheme3", (0.1, 0.3, 0.5, 0.7, 0.9, 0.99), 0.5, lambda alpha, _: {"alpha": alpha}),
    # As shares of 1/k, at which the winner would no longer win.
    _Curve("class label", "class_label", (0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-6), 1e-3, lambda r, k: {"remainder": r / k}),
)


@dataclass(frozen=True)
class _Plan:
    """How much is run. windows: per d; repeats: splits, each trained by both optimisers; rows: most that are used."""

    datasets: tuple[str, ...]
    windows: int
    records: int
    repeats: int
    rows: int | None


_FULL = _Plan(("satellite", "robot"), windows=6, records=1000, repeats=3, rows=None)
_QUICK = _Plan(("satellite", "synthetic"), windows=2, records=100, repeats=1, rows=4000)


def schemes_section(run: StudyRun) -> Section:
    """Measure what each scheme costs the adversary and the scores, for k - 1 passive columns and for half of them.

    ``data``: a row per data set, trainer, split, window, defence, strength and adversary: ``unaware`` takes the scores
    at their word, ``aware`` knows the scheme with all its options. attack_error: MSE per feature of half*, clamped to
    [0, 1]; attack_error_unclamped; kl: mean KL divergence of delivered scores from true ones, in nats, infinite where a
    score became 0; decisions_kept; model_accuracy; theorem_4: the most that noise of scheme 1's budget can make of the
    unclamped error.
    """
    return section_of(run, _QUICK if run.quick else _FULL)


def section_of(run: StudyRun, plan: _Plan) -> Section:
    """The section with so much of it. Defences of ``run`` are measured beside the schemes."""
    names, skipped = run.available(plan.datasets)
    places = [place for name in names for place in _places(run, plan, name)]
    measured = run.measure([_task(model, window, plan) for model, window in places])
    beside = _plugged(run, plan, places)
    done = done_rows(measured)
    data = done.explode(list(_LISTS), ignore_index=True) if len(done) else done.reindex(columns=list(_LISTS))
    data = pd.concat([data, done_rows(beside)], ignore_index=True) if len(beside) else data
    data = data.astype(dict.fromkeys(_MEASURES, float))
    return Section(
        name="schemes",
        title="Schemes that keep decisions (Figure 13, VII-B)",
        data=data,
        summary=schemes_summary(data, {one.title: one.typical for one in CURVES}),
        plots=schemes_plots(data),
        notes=(*skipped, *schemes_notes(data)),
        statements=scheme_statements(data),
    )


_MEASURES = (
    "strength",
    "kl",
    "attack_error",
    "attack_error_unclamped",
    "model_accuracy",
    "decisions_kept",
    "theorem_4",
)
_LISTS = ("defence", "option", "adversary", *_MEASURES)


def _places(run: StudyRun, plan: _Plan, name: str) -> list[tuple[Any, tuple[int, ...]]]:
    size = size_of(name)
    return [
        (model_of(name, run.seed + number, trainer, plan.rows), window)
        for number in range(plan.repeats)
        for trainer in TRAININGS
        # For two classes one column would be all there is to see of the first.
        for d in sorted({max(size.classes - 1, 2), size.columns // 2})
        for window in windows(size.columns, d, plan.windows)
    ]


def _task(model: Any, window: tuple[int, ...], plan: _Plan) -> Cell:
    return TaskCell.of(f"{__name__}:trade_off", model, **window_options(window), records=plan.records)


def _plugged(run: StudyRun, plan: _Plan, places: list[tuple[Any, tuple[int, ...]]]) -> pd.DataFrame:
    """Defences of plugins against half*, in the words of the schemes' rows."""
    cells = [
        AttackCell(model, window, Choice.of("half_star"), plan.records, defences=(defence,), seed=model.seed)
        for model, window in places
        for defence in run.defences
    ]
    found = run.measure(cells) if cells else pd.DataFrame()
    return found.assign(adversary="unaware", strength=np.nan, option="").rename(columns={"mse": "attack_error"})


# --- one window ---------------------------------------------------------------------------------------------------


def trade_off(model: TrainedModel, *, d: int, start: int, records: int) -> Mapping[str, Any]:
    """Measure all curves on one window: lists of one length, a place per strength and adversary.

    As ``schemes_section`` says, with ``option``: the strength in words.
    """
    view, truth = model.view(columns_of(d, start, model.weights.shape[1]), records)
    labels = model.labels[: view.n]
    about_half = moments(truth).about_half
    weights = given(view.weights_passive)
    context = ScoreContext(NoiseSource(0), weights @ weights.T)
    scores = given(view.scores)
    guessed = mse_per_feature(truth, np.full_like(truth, 0.5))
    rows: list[dict[str, Any]] = [
        {"defence": "guess", "option": "half", "adversary": "unaware", "attack_error": guessed},
        {"defence": "none", "option": "", "kl": 0.0, **_measured(view, truth, labels, scores, "unaware")},
    ]
    by_label = _half_space_estimates(view)
    for curve in CURVES:
        for strength in curve.strengths:
            defence = defences.load(curve.name, **curve.options(strength, model.classes))
            delivered = defence.protect_scores(scores, context)
            shared = {"defence": curve.title, "option": curve.label(strength), "strength": strength}
            shared["kl"] = mean_divergence(scores, delivered)
            seen = replace(view, scores=delivered)
            limit = largest_noisy_error(weights, about_half, strength) if curve.name == "score_scheme1" else np.nan
            aware = by_label if curve.name == "class_label" else _undone(defence, seen)
            rows.append({**shared, **_measured(seen, truth, labels, scores, "unaware"), "theorem_4": limit})
            rows.append(
                {**shared, **score_utility(delivered, scores, labels), "adversary": "aware"}
                | {"attack_error": mse_per_feature(truth, aware)}
            )
    return {name: [row.get(name, np.nan) for row in rows] for name in _LISTS}


def _measured(
    view: attacks.PredictionView, truth: FloatArray, labels: IntArray, scores: FloatArray, adversary: str
) -> dict[str, Any]:
    estimate = attacks.load_prediction("half_star").reconstruct(view)
    return {
        "adversary": adversary,
        "attack_error": mse_per_feature(truth, estimate.clip(0, 1)),
        "attack_error_unclamped": mse_per_feature(truth, estimate),
        **score_utility(given(view.scores), scores, labels),
    }


def _undone(defence: Defence, view: attacks.PredictionView) -> FloatArray:
    """Estimate with half* as an adversary who knows the scheme, its options and W_pas: (n, d) in [0, 1]."""
    known = undo_channel(replace(view, channel=(channel_of(defence, view.classes),)))
    estimates: FloatArray = attacks.load_prediction("half_star").reconstruct(known)
    return estimates.clip(0, 1)


def _half_space_estimates(view: attacks.PredictionView) -> FloatArray:
    """The points closest to one half where the model decides as it did: what a bare label tells, (n, d) in [0, 1].

    A label says that the winner's logit is the largest: k - 1 half-spaces that the truth lies in. Projecting onto them
    never loses (the box is left to clamping). Lawson and Hanson's reduction to non-negative least squares.
    """
    known = view.features_active @ given(view.weights_active).T + given(view.bias)
    weights, decided = given(view.weights_passive), given(view.scores).argmax(axis=1)
    estimates = np.empty((view.n, view.d))
    target = np.append(np.zeros(view.d), 1.0)
    for row, winner in enumerate(decided):
        normals = np.delete(weights[winner] - weights, winner, 0)
        # normals @ u >= least for u = x - 1/2.
        least = np.delete(known[row] - known[row, winner], winner) - normals.sum(axis=1) / 2
        stacked = np.vstack([normals.T, least])
        residual = stacked @ nnls(stacked, target)[0] - target
        estimates[row] = 0.5 - residual[:-1] / residual[-1]
    return estimates.clip(0, 1)
