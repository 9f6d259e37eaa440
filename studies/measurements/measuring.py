"""Makes one measurement: mounts its attack on what its adversary sees of a model, and compares with the truth."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import attacks
import defences
from attacks.base import BaselinedAttack
from attacks.prediction.adaptive import highest, undo
from defences import DefenceError
from plumbline.judge.measures import covered, mse_per_feature
from studies.measurements.descriptions import (
    AttackMeasurement,
    Choice,
    DataChoice,
    Measurement,
    ModelChoice,
    TaskMeasurement,
)
from studies.simulation.linear_models import TrainedModel, train_linear
from studies.simulation.network_models import TrainedNetwork, train_network
from studies.simulation.recipes import NetworkTrainer, linear_recipe, network_recipe
from studies.simulation.scaled_tables import SYNTHETIC, ScaledTable, load_scaled
from studies.simulation.score_measures import mean_divergence, score_utility
from studies.simulation.situations import LabModel, Setting, Situation, situation_of
from vfl.arrays import FloatArray

Shared: TypeAlias = ModelChoice | DataChoice
# What anybody may guess of a column whose public range is [0, 1].
_CONSTANTS = (0.0, 0.5, 1.0)
_SITUATIONS = 4


class NotApplicable(Exception):
    """An attack or a defence can't work here; the message says why."""


# --- what measurements share --------------------------------------------------------------------------------------


def data_and_seed(on: Shared) -> tuple[DataChoice, int]:
    """Say which table a choice needs: a model's seed draws rows, and makes what is synthetic."""
    data, seed = (on, 0) if isinstance(on, DataChoice) else (on.data, on.seed)
    return data, seed if data.rows is not None or data.name == SYNTHETIC else 0


def load_table(data: DataChoice, seed: int, data_dir: Path | None) -> ScaledTable:
    """Load a data set.

    Raises:
        DatasetNotFound: when raw files are missing.
        ValueError: for options that the data set doesn't take.
    """
    return load_scaled(data.name, data_dir, rows=data.rows, options=dict(data.options), seed=seed, scaled=data.scaled)


def train_model(
    on: ModelChoice, table: ScaledTable, trainer: NetworkTrainer | None = None
) -> TrainedModel | TrainedNetwork:
    """Train a model on a table.

    Args:
        on: what is trained and how.
        table: of its data set.
        trainer: takes the place of the one that trains, as one that has the parameters already; the model won't show.

    Raises:
        ValueError: for options that a trainer, a network or a defence doesn't take.
    """
    if on.kind == "network":
        network = network_recipe(on.trainer, dict(on.options), on.seed)
        network = network if on.defence is None else replace(network, trainer=_private_trainer(on.defence))
        by = network if trainer is None else replace(network, trainer=trainer)
        return replace(train_network(table, on.passive, by, on.seed, held_out=on.held_out), recipe=network)
    linear = linear_recipe(on.trainer, dict(on.options), on.seed)
    linear = linear if on.defence is None else replace(linear, trainer=_private_trainer(on.defence))
    by_linear = linear if trainer is None else replace(linear, trainer=trainer)
    return replace(train_linear(table, by_linear, on.seed, held_out=on.held_out), recipe=linear)


def _private_trainer(choice: Choice) -> Any:
    defence = defences.load(choice.name, **dict(choice.options))
    if "training" not in defence.spec.stages:
        raise ValueError(f"{choice.name} doesn't train models: name it among the defences of the attacked measurement.")
    return defence


# --- one measurement ----------------------------------------------------------------------------------------------


def measure(measurement: Measurement, on: Any) -> dict[str, Any]:
    """Make a measurement on its table or trained model. Those that share their views must be given the same ``on``.

    Those of one model, split, knowledge and defences, made in sequence, share the view, the retrained model, the
    classifier of attack accuracy and the imputation: so many situations are kept in mind.

    Of an attack:

    - ``mse`` per feature (Rassouli eq. 7), ``mse_se``, its standard error over records, ``mse_by_column`` (list), and
      ``attacked``, over how many records;
    - ``level``: what the adversary knows beforehand; ``guess``: the least error of guesses at that level that see no
      score (0, 1/2 and 1; the mean; the imputation from complete records; the attack's own); ``federation_part`` =
      max(0, 1 - mse / guess);
    - ``baseline``: the same attack's error with the scores withheld, where it says it (else NaN);
    - ``attack_accuracy`` (Jiang eq. 24), by a classifier trained on held-out rows that aren't attacked;
    - ``model_accuracy`` of delivered scores on held-out rows, ``decisions_kept`` and ``kl`` (mean D(c || c~), nats) of
      them against the model's without the measurement's defences; ``interpretability`` (Varasteh eq. 33);
    - ``covered``: the share of cells within the attack's 90 % intervals, where it gives any (else NaN).

    Raises:
        NotApplicable: for an attack that needs what this adversary doesn't have, or a defence that can't act here.
        ValueError: for an unknown attack or defence, options that it doesn't take, or an attack whose estimates aren't
            a finite number for each passive feature of each record.
    """
    if isinstance(measurement, TaskMeasurement):
        module, _, name = measurement.function.partition(":")
        return dict(getattr(import_module(module), name)(on, **dict(measurement.options)))
    attack = attacks.load_prediction(measurement.attack.name, **dict(measurement.attack.options))
    try:
        situation = _situation(on, _setting(measurement, on), measurement.defences, measurement.seed)
        view, level = _seen_by(attack, situation, undone=measurement.undo)
        reconstruction = attacks.reconstruct(attack, view)
        _check_estimate(measurement.attack.name, reconstruction.estimate, situation.truth)
        baseline = attack.without_scores(view) if isinstance(attack, BaselinedAttack) else None
    except (attacks.ViewError, DefenceError) as error:
        raise NotApplicable(str(error)) from error
    return {
        **_errors(situation.truth, reconstruction),
        **_against_guesses(situation, level, baseline, mse_per_feature(situation.truth, reconstruction.estimate)),
        **_worth(situation),
        "attack_accuracy": situation.judge.accuracy(reconstruction.estimate),
    }


@lru_cache(maxsize=_SITUATIONS)
def _situation(model: LabModel, setting: Setting, choices: tuple[Choice, ...], seed: int) -> Situation:
    """Make what is seen of a model; of several measurements in sequence, once. Raises DefenceError."""
    options = {choice.name: dict(choice.options) for choice in choices}
    loaded = defences.load_all([choice.name for choice in choices], options)
    return situation_of(model, setting, loaded, seed=seed)


def _setting(measurement: AttackMeasurement, model: LabModel) -> Setting:
    """Choose which held-out rows are attacked, known and delivered. Raises NotApplicable where there are too few."""
    held_out, wanted = len(model.features), measurement.auxiliary or measurement.delivered
    if measurement.records + wanted > held_out and wanted:
        raise NotApplicable(
            f"{model.name} holds out {held_out} records: {measurement.records} to attack and {wanted} that the "
            "adversary has besides are more. Attack fewer, or hold out more."
        )
    unattacked = np.arange(min(measurement.records, held_out), held_out)
    rows = tuple(np.random.default_rng(measurement.seed).permutation(unattacked)[:wanted].tolist())
    return Setting(
        measurement.passive,
        measurement.records,
        complete=rows if measurement.auxiliary else (),
        delivered=() if measurement.auxiliary else rows,
        moments=measurement.moments,
        white_box=measurement.access == "white_box",
    )


def _seen_by(
    attack: attacks.PredictionAttack, situation: Situation, *, undone: bool
) -> tuple[attacks.PredictionView, attacks.Level]:
    """Make an attack's own view, and what it takes to know beforehand."""
    view, level = replace(situation.view), attacks.level_of(attack)
    if undone:
        taken_off = undo(view)
        if not taken_off.is_changed:
            raise NotApplicable("Nothing that these defences did can be taken off.")
        view, level = taken_off.view, highest(level, taken_off.level)
    spec = attack.spec
    if not spec.reads_channel and (view.channel or view.disclosure is not None):
        view = replace(view, channel=(), disclosure=None)
    if spec.knowledge == "agnostic" and "scores" not in spec.needs:
        # Its records' scores were never delivered.
        view = replace(view, scores=None)
    return view, level


def _check_estimate(name: str, estimate: Any, truth: FloatArray) -> None:
    """Another package's attack may give what numpy would stretch to the truth's shape without a word."""
    array = np.asarray(estimate)
    if array.shape != truth.shape:
        raise ValueError(
            f"{name} gave estimates of shape {array.shape}: expected {truth.shape}, a row per attacked record and a "
            "column per passive feature."
        )
    if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
        raise ValueError(f"{name} gave estimates that aren't finite numbers: each must be one.")


# --- measures -----------------------------------------------------------------------------------------------------


def _errors(truth: FloatArray, reconstruction: attacks.Reconstruction) -> Mapping[str, Any]:
    squared = (reconstruction.estimate - truth) ** 2
    of_records = squared.mean(axis=1)
    spread = float(of_records.std(ddof=1)) / np.sqrt(len(truth)) if len(truth) > 1 else float("nan")
    within = float("nan")
    if reconstruction.low is not None and reconstruction.high is not None:
        within = float(covered(truth, reconstruction.low, reconstruction.high).mean())
    return {
        "mse": float(squared.mean()),
        "mse_se": float(spread),
        "mse_by_column": squared.mean(axis=0).tolist(),
        "attacked": len(truth),
        "covered": within,
    }


def _against_guesses(
    situation: Situation, level: attacks.Level, score_free: FloatArray | None, mse: float
) -> Mapping[str, Any]:
    """Measure what guesses reach at an attack's level without scores, its own ``score_free`` (n, d) among them."""
    truth, view = situation.truth, situation.view
    guesses: list[Any] = list(_CONSTANTS)
    if level != "nothing" and view.moments is not None:
        guesses.append(view.moments.mean)
    if level == "records" and situation.setting.complete:
        guesses.append(situation.imputed)
    baseline = float("nan")
    if score_free is not None:
        baseline = mse_per_feature(truth, score_free)
        guesses.append(score_free)
    least = min(mse_per_feature(truth, np.broadcast_to(guess, truth.shape)) for guess in guesses)
    part = max(0.0, 1 - mse / least) if least > 0 else 0.0
    return {"level": level, "guess": least, "baseline": baseline, "federation_part": part}


def _worth(situation: Situation) -> Mapping[str, float]:
    """Measure what the active party still has of its model."""
    plain = situation.plain_scores
    return {
        **score_utility(situation.scores, plain, situation.model.labels),
        "kl": mean_divergence(plain, situation.scores),
        "interpretability": situation.interpretability,
    }
