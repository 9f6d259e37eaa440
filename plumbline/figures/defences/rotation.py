"""Distorted disclosed parameters at work: Varasteh, Figures 9 to 13, with adversaries who know the defence.

SIMULATION: models are trained in one place, on all parties' columns; no service runs. Scores are exact, as in the
paper's "genie-aided" evaluation. Secrets are seeded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import attacks
from defences import NoiseSource
from defences.distortion import Case, distort
from defences.parameter_rotation import ParameterRotation
from plumbline.figures.defences.rotation_page import (
    AS_DISCLOSED,
    CLAMPED,
    HALF,
    NAIVE,
    PREDICTED,
    REPEATS,
    RESCALES,
    SECRETS,
    TYPICAL,
    rotation_notes,
    rotation_plots,
    rotation_summary,
)
from plumbline.figures.page.section import Section
from plumbline.figures.study import StudyRun
from plumbline.judge.measures import mse_per_feature
from plumbline.simulation.informed import CAUTIOUS, half_where_nothing_fits, informed_errors, with_records
from plumbline.simulation.linear_models import TrainedModel, train
from plumbline.simulation.rounds import told
from vfl.data import missing_files

_FALLBACKS = {"satellite": "digits", "bank": "breast_cancer", "pendigits": "wine", "adult": "breast_cancer"}


@dataclass(frozen=True)
class _Plan:
    """How much is run. datasets: how many, the first ones. records: attacked ones. draws: of a secret.

    trade_off: epsilon as multiples of the mean squared parameter; far: more of them for Figure 13.
    sizes: values of d of the widths, per data set; levels: epsilon there; windows: of adjacent passive columns, there.
    """

    datasets: int
    trade_off: tuple[float, ...]
    far: tuple[float, ...]
    sizes: int
    levels: tuple[float, ...]
    windows: int
    records: int
    draws: int


_FULL = _Plan(
    datasets=4,
    trade_off=(0.01, 0.03, 0.1, 0.2, 0.3, 0.45, 0.6),
    far=(1.0, 2.0, 3.0, 3.9),
    sizes=6,
    levels=(0.01, 0.1, 0.5),
    windows=2,
    records=500,
    draws=50,
)

_QUICK = _Plan(datasets=2, trade_off=(0.3,), far=(2.0,), sizes=2, levels=(0.1,), windows=1, records=25, draws=5)


def rotation_section(run: StudyRun) -> Section:
    """Measure what parameter_rotation costs the adversary and the active party, and what adversaries who know it do.

    Models: Adam without a penalty and with early stopping, as in the paper; class rows without their mean, which no
        score depends on. The distortion is fitted to training records and measured on held-out ones. Three experiments:
    - "trade-off" (Figures 9 to 11 and 13): errors against epsilon for some d, the first d columns passive;
    - "width" (Figure 12): errors against d for some epsilon, means over windows;
    - "secret": Remark 10's secrets for one feature.

    Where raw files are missing, data sets of scikit-learn take their places. quick: less of everything.

    ``data`` has one row per measurement. epsilon: g as a multiple of the mean squared parameter; reached: the same, of
    what was disclosed; mse: per feature. Adversaries "half*" and "half*, predicted" take the parameters at their word;
    "half*, clamped" lets nothing leave [0, 1]; those of ``informed_errors`` know of the defence.
    """
    plan = _QUICK if run.quick else _FULL
    names, missing = _available(run.data_dir, plan)
    models = [_centred(train(name, run.data_dir, "adam", run.seed)) for name in names]
    frames = [_trade_off(models, plan), _widths(models, plan), _secrets(models, plan, run.seed)]
    data = pd.concat([pd.DataFrame(frame) for frame in told(frames, run.done)], ignore_index=True)
    return Section(
        name="rotation",
        title="Distorted disclosed parameters (Varasteh V-B)",
        data=data,
        summary=rotation_summary(data),
        plots=tuple(rotation_plots(data)),
        notes=(*missing, *rotation_notes(data)),
    )


def _available(data_dir: Path | None, plan: _Plan) -> tuple[list[str], list[str]]:
    """The data sets, and what to say about those that aren't there."""
    found, said = [], []
    for name, fallback in list(_FALLBACKS.items())[: plan.datasets]:
        if not missing_files(name, data_dir):
            found.append(name)
            continue
        said.append(f"{fallback} takes the place of {name}, whose raw files are missing: not the paper's numbers.")
        if fallback not in found:
            found.append(fallback)
    return found, said


# --- measurements -------------------------------------------------------------------------------------------------


def _centred(model: TrainedModel) -> TrainedModel:
    """The same scores with class rows that sum to zero: two become (-theta/2, theta/2)."""
    weights, bias = model.weights - model.weights.mean(axis=0), model.bias - model.bias.mean()
    varying = np.ptp(model.features_train, axis=0) > 0
    return replace(
        model,
        weights=weights[:, varying],
        bias=bias,
        features=model.features[:, varying],
        features_train=model.features_train[:, varying],
    )


def _trade_off(models: Sequence[TrainedModel], plan: _Plan) -> Iterator[dict[str, Any]]:
    """d = 1 (case iii), a few d beyond, and d = 2 for more than two classes; with two classes, case i as well."""
    for model in models:
        k, columns = len(model.weights), model.features.shape[1]
        widths = (1, 2, columns // 4, columns // 2) if k == 2 else (1, 2, k - 1, (k + columns) // 2)
        for d in sorted({width for width in widths if width < columns}):
            cases: list[Case | None] = [None, "i"] if k == 2 and d > 1 else [None]
            for case in cases:
                far = plan.far if k > 2 and d == 2 else ()
                for epsilon in (*plan.trade_off, *far):
                    found = _attacked(model, list(range(d)), epsilon, plan, case, informed=case is None)
                    yield from ({"experiment": "trade-off", **row} for row in found)


def _widths(models: Sequence[TrainedModel], plan: _Plan) -> Iterator[dict[str, Any]]:
    for model in models:
        columns = model.features.shape[1]
        for d in np.unique(np.linspace(1, columns - 1, plan.sizes).astype(int)):
            for epsilon in (0.0, *plan.levels):
                rows = []
                for start in np.linspace(0, columns, plan.windows, endpoint=False).astype(int):
                    passive = ((start + np.arange(d)) % columns).tolist()
                    rows += list(_attacked(model, passive, epsilon, plan, None, informed=False))
                numbers = pd.DataFrame(rows)
                keys = ["dataset", "classes", "d", "case", "epsilon", "adversary"]
                for row in (
                    numbers.groupby(keys, sort=False)[["reached", "mse"]].mean().reset_index().to_dict("records")
                ):
                    yield {"experiment": "width", **{str(key): value for key, value in row.items()}}


def _attacked(
    model: TrainedModel, passive: list[int], epsilon: float, plan: _Plan, case: Case | None, *, informed: bool
) -> Iterator[dict[str, Any]]:
    """All adversaries against parameters distorted by g = epsilon mean squared parameters."""
    view, truth = model.view(passive, plan.records)
    weights, own = model.weights[:, passive], model.features_train[:, passive]
    mean_square = float(np.mean(weights**2))
    found = distort(weights, own, epsilon * mean_square, case=case)
    shared = {
        "dataset": model.name,
        "classes": len(weights),
        "d": len(passive),
        "case": found.case,
        "epsilon": epsilon,
        "reached": found.interpretability / mean_square,
    }
    distorted = replace(view, weights_passive=found.weights)
    naive, rcc2 = (attacks.load(name).reconstruct(distorted) for name in ("half_star", "rcc2"))
    estimates = {
        NAIVE: naive,
        CLAMPED: naive.clip(0, 1),
        CAUTIOUS: half_where_nothing_fits(distorted, rcc2),
        HALF: np.full_like(truth, 0.5),
    }
    yield {**shared, "adversary": PREDICTED, "mse": found.error}
    for adversary, estimate in estimates.items():
        yield {**shared, "adversary": adversary, "mse": mse_per_feature(truth, estimate)}
    if informed:
        for words, error in informed_errors(ParameterRotation(), with_records(distorted, model, passive, own), truth):
            yield {**shared, "adversary": words, "mse": error}


def _secrets(models: Sequence[TrainedModel], plan: _Plan, seed: int) -> Iterator[dict[str, Any]]:
    """One passive feature of two classes, where all is known: means over draws of the secret.

    A_n is A (1 - sqrt(epsilon)): who repeats the optimisation undoes that, taking epsilon for all it may be. ls on one
    feature gives q x for some q, whatever was disclosed: who knows that features were scaled to [0, 1] divides by the
    extreme one of all records.
    """
    for model in (model for model in models if len(model.weights) == 2):
        weights, own = model.weights[:, [0]], model.features_train[:, [0]]
        view, truth = model.view([0], plan.records)
        for secret in SECRETS:
            defence = ParameterRotation(epsilon=TYPICAL, secret=secret)
            errors: dict[str, list[float]] = {AS_DISCLOSED: [], REPEATS: [], RESCALES: [], HALF: []}
            for draw in range(plan.draws):
                disclosed = defence.disclose(weights, own, NoiseSource(seed * plan.draws + draw))
                estimate = attacks.load("ls").reconstruct(replace(view, weights_passive=disclosed))
                extreme = estimate[np.abs(estimate).argmax()]
                estimates = {
                    AS_DISCLOSED: estimate.clip(0, 1),
                    REPEATS: (estimate * (1 - np.sqrt(TYPICAL))).clip(0, 1),
                    RESCALES: estimate / extreme if extreme else estimate,
                    HALF: np.full_like(truth, 0.5),
                }
                for adversary, guess in estimates.items():
                    errors[adversary].append(mse_per_feature(truth, guess))
            for adversary, values in errors.items():
                shared = {"experiment": "secret", "dataset": model.name, "classes": 2, "d": 1, "case": "iii"}
                shared |= {"epsilon": TYPICAL, "secret": secret}
                yield {**shared, "adversary": adversary, "mse": float(np.mean(values))}
