"""How accurate the adversary's own model is, and who gains from a federation: Varasteh, Figure 8 and Remark 17.

SIMULATION: models are trained in one place, on all parties' columns; no service runs.
"""

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

import attacks
from attacks.prediction.agnostic import Agnostic
from plumbline.judge.measures import Interval, mse_per_feature
from studies.claims.claim import NOTHING, Claim, Finding, judged
from studies.claims.kinds import FEWEST_POINTS
from studies.claims.statement import Statement, interval_over, interval_words
from studies.measurements import TaskMeasurement
from studies.page.plots import Panel, Plot, mean_curve
from studies.page.section import Section
from studies.simulation.error_theory import agnostic_error, score_error_correlation
from studies.simulation.linear_models import TrainedModel
from studies.study import StudyRun
from studies.varasteh.rivals import ADULT, GRID, PAPER_DATASETS, WindowPlan, columns_of, placed
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores
from vfl.theory.prediction import moments

_TASK = "studies.varasteh.own_accuracy:own_model_of"
_GAINING, _OTHERS = (GRID, "pendigits"), ("bank", "satellite", ADULT)
_MEASURES = ("dataset", "active", "accuracy", "own_accuracy", "error", "half", "unclamped", "closed_form")
# What floating point leaves of an identity.
_EXACT = 1e-6
# A rank correlation that so many orders reach by chance is evidence.
_CHANCE, _ROUNDING = 0.05, 1e-9


# Windows of the section on the agnostic attack.
_FULL = WindowPlan()
_QUICK = WindowPlan(datasets=("bank", "pendigits", GRID), sizes=2, windows=2, seeds=1, records=100)


def accuracy_section(run: StudyRun) -> Section:
    """Measure the accuracy of the adversary's model against the number of its columns, and what its attack errs by."""
    plan = _QUICK if run.quick else _FULL
    names, missing = run.available(plan.datasets)
    at = [one for name in names for one in plan.of(name, run.seed)]
    frame = run.measure([TaskMeasurement.of(_TASK, one.model, passive=one.passive, records=plan.records) for one in at])
    active = [columns_of(one.model.data.name) - len(one.passive) for one in at]
    data = placed(frame, [one.passive for one in at]).assign(active=active)
    return Section(
        name="accuracy",
        title="Accuracy of the adversary's own model (Figure 8)",
        data=data,
        summary=_summary(data),
        plots=tuple(_plots(data)),
        notes=(*missing, *_training_records(data)),
        statements=accuracy_statements(data),
    )


def _measured(data: pd.DataFrame) -> pd.DataFrame:
    return data[data["own_accuracy"].notna()] if "own_accuracy" in data else pd.DataFrame(columns=list(_MEASURES))


def _summary(data: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for name, part in _measured(data).groupby("dataset", sort=False):
        row: dict[str, object] = {"dataset": name}
        for measure, words in (("own_accuracy", "accuracy of AM"), ("accuracy", "of the federation")):
            mean = interval_over(part, measure)
            row |= {words: mean.mean, f"{words}_low": mean.low, f"{words}_high": mean.high}
        row |= {"error, held out": part["error"].mean(), "error, training records": part["error_train"].mean()}
        rows.append(row)
    return pd.DataFrame(rows)


def _plots(data: pd.DataFrame) -> list[Plot]:
    panels = []
    for name, part in _measured(data).groupby("dataset", sort=False):
        curves = [
            mean_curve(part, "active", label, measure=measure)
            for measure, label in (("own_accuracy", "AM"), ("accuracy", "federation"))
        ]
        panels.append(Panel(str(name), "active columns", "accuracy", tuple(curves)))
    caption = "Figure 8: accuracy of AM against the number of active columns, and of the federation's model."
    return [Plot("accuracy", panels, caption, columns=3)] if panels else []


def _training_records(data: pd.DataFrame) -> tuple[str, ...]:
    """Whether it matters which records are attacked."""
    part = _measured(data)
    if not len(part):
        return ()
    means = part.groupby("dataset", sort=False)[["error", "error_train"]].mean()
    said = ", ".join(f"{name} {row['error']:.4f} and {row['error_train']:.4f}" for name, row in means.iterrows())
    return (f"AM's error on held-out and on training records: {said}.",)


# --- what the paper says -------------------------------------------------------------------------------------------


def accuracy_statements(data: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge Figure 8, Remark 17, and equations 13 and 21, from measures of ``own_model_of``."""
    part = _measured(data)
    return judged(
        _CLAIMS,
        part.assign(benefit=part["accuracy"] - part["own_accuracy"], gain=1 - part["error"] / part["half"]),
        PAPER_DATASETS,
    )


def _closed_forms(part: pd.DataFrame) -> Finding:
    apart = (part["unclamped"] / part["closed_form"] - 1).abs()
    held = (apart < _EXACT).tolist()
    return Finding(held, f"{sum(held)} of {len(held)} agree to {apart.max():.1g} of the error.")


def _more_columns_help(part: pd.DataFrame) -> Finding:
    fewest, most = part["active"].min(), part["active"].max()
    if fewest == most:
        return NOTHING
    few, many = (interval_over(part[part["active"] == end], "own_accuracy") for end in (fewest, most))
    words = f"{interval_words(few, 3)} with {fewest} columns, {interval_words(many, 3)} with {most}."
    return Finding([many.low > few.high], words)


def _by_dataset(part: pd.DataFrame, measure: str) -> dict[str, Interval]:
    return {str(name): interval_over(here, measure) for name, here in part.groupby("dataset", sort=False)}


def _words(intervals: dict[str, Interval]) -> str:
    return ", ".join(f"{name} {interval_words(one)}" for name, one in intervals.items())


def _who_benefits(part: pd.DataFrame) -> Finding:
    benefits = _by_dataset(part, "benefit")
    pairs = [(benefits[one], benefits[other]) for one in _GAINING for other in _OTHERS if {one, other} <= set(benefits)]
    held = [one.low > other.high for one, other in pairs]
    words = f"What the federation adds to AM's accuracy: {_words(benefits)}. {sum(held)} of {len(held)} pairs hold."
    return Finding(held, words if held else "")


def _who_benefits_resists(part: pd.DataFrame) -> Finding:
    gains, benefits = _by_dataset(part, "gain"), _by_dataset(part, "benefit")
    added, taken = (pd.Series({name: one.mean for name, one in found.items()}) for found in (benefits, gains))
    if len(gains) < FEWEST_POINTS or not np.isfinite(rank := float(spearmanr(added, taken).statistic)):
        return NOTHING
    orders = np.array([spearmanr(added, one).statistic for one in permutations(taken)])
    chance = float((orders <= rank + _ROUNDING).mean())
    return Finding(
        [rank < 0, chance <= _CHANCE],
        f"Rank correlation of what the federation adds and of the share of 1/2's error that AM takes off, over "
        f"{len(gains)} data sets: {rank:.2f}, and no more in {chance:.0%} of all orders. Shares: {_words(gains)}.",
    )


_CLAIMS = (
    Claim(
        "Equations 13 and 21",
        "The attack's error, before estimates are cut to [0, 1], follows from the errors of the scores.",
        _closed_forms,
    ),
    *Claim("Figure 8", "AM's accuracy rises with the number of active columns.", _more_columns_help).on(*_GAINING),
    Claim(
        "Remark 17",
        "The active party benefits more from the federation on grid and pendigits than on bank, satellite and adult.",
        _who_benefits,
    ),
    Claim(
        "Remark 17",
        "Data sets that gain more accuracy from the federation are less susceptible to the attack.",
        _who_benefits_resists,
    ),
)


def own_model_of(model: TrainedModel, *, passive: tuple[int, ...], records: int) -> dict[str, Any]:
    """Train the adversary's model on the active columns, and compare it with the federation's on held-out records.

    Measures: ``accuracy`` and ``own_accuracy`` of the two; ``error`` of the attack on the first held-out records,
    ``error_train`` on as many training records, ``half`` of 1/2 for all; ``unclamped``, its error before estimates are
    cut to [0, 1], and ``closed_form``, what equation 21 (13 where d < k) says of that.
    """
    attack = Agnostic()
    view, truth = _view(model, passive, records)
    own = attack.adversary_scores(replace(view, features_active=_active(passive, model.features), scores=None))
    estimated = own[:records]
    unclamped = attacks.load_prediction("half_star").reconstruct(replace(view, scores=estimated))
    real = confidence_scores(model.features[:records] @ model.weights.T + model.bias)
    score_error = score_error_correlation(estimated, real)
    weights = model.weights[:, list(passive)]
    trained, trained_truth = _view(replace(model, features=model.features_train), passive, records)
    return {
        "accuracy": float((model.scores.argmax(axis=1) == model.labels).mean()),
        "own_accuracy": float((own.argmax(axis=1) == model.labels).mean()),
        "error": mse_per_feature(truth, unclamped.clip(0, 1)),
        "error_train": mse_per_feature(trained_truth, attack.reconstruct(trained)),
        "half": mse_per_feature(truth, np.full_like(truth, 0.5)),
        "unclamped": mse_per_feature(truth, unclamped),
        "closed_form": agnostic_error(weights, moments(truth).about_half, score_error),
    }


def _active(passive: tuple[int, ...], rows: FloatArray) -> FloatArray:
    """The columns that aren't passive."""
    return rows[:, np.setdiff1d(np.arange(rows.shape[1]), passive)]


def _view(model: TrainedModel, passive: tuple[int, ...], records: int) -> tuple[attacks.PredictionView, FloatArray]:
    """What the active party sees of the first records, and its own training records besides."""
    view, truth = model.view(passive, records)
    own = _active(passive, model.features_train)
    return replace(view, labels=model.labels_train, features_train=own), truth
