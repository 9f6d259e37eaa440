"""Measures one cell: mounts its attack on what its adversary sees of a model, and compares with the truth."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import attacks
import defences
from plumbline.judge.measures import mse_per_feature
from plumbline.simulation.linear_models import TrainedModel, train_linear
from plumbline.simulation.network_models import TrainedNetwork, train_network
from plumbline.simulation.recipes import linear_recipe, network_recipe
from plumbline.simulation.scaled_tables import ScaledTable, load_scaled
from plumbline.sweep.cells import AttackCell, Cell, Choice, DataChoice, ModelChoice

Shared: TypeAlias = ModelChoice | DataChoice


class NotApplicable(Exception):
    """An attack or a defence can't work here; the message says why."""


def prepare(on: Shared, data_dir: Path | None) -> Any:
    """Load the data set (``ScaledTable``), or train the model, that cells share.

    Raises:
        DatasetNotFound: when raw files are missing.
        ValueError: for options that a trainer, a network, a defence or the data set doesn't take.
    """
    if isinstance(on, DataChoice):
        return _table(on, data_dir, 0)
    table = _table(on.data, data_dir, on.seed)
    if on.kind == "network":
        structured = network_recipe(on.trainer, dict(on.options), on.seed)
        recipe = structured if on.defence is None else replace(structured, trainer=_private_trainer(on.defence))
        return train_network(table, on.passive, recipe, on.seed, held_out=on.held_out)
    plain = linear_recipe(on.trainer, dict(on.options), on.seed)
    linear = plain if on.defence is None else replace(plain, trainer=_private_trainer(on.defence))
    return train_linear(table, linear, on.seed, held_out=on.held_out)


def _table(on: DataChoice, data_dir: Path | None, seed: int) -> ScaledTable:
    return load_scaled(on.name, data_dir, rows=on.rows, options=dict(on.options), seed=seed, scaled=on.scaled)


def _private_trainer(choice: Choice) -> Any:
    defence = defences.load(choice.name, **dict(choice.options))
    if "training" not in defence.spec.stages:
        raise ValueError(f"{choice.name} doesn't train models: name it among the defences of the attacked cell.")
    return defence


def measure(cell: Cell, on: Any) -> dict[str, Any]:
    """Measure a cell on what ``prepare`` made.

    Of an attack: ``mse`` per feature (Rassouli eq. 7), ``mse_by_column`` (list), ``baseline`` (the same attack's error
    with the scores withheld, where it says it), ``attack_accuracy`` (Jiang eq. 24), ``model_accuracy`` on
    held-out rows, ``kl`` of delivered scores from true ones and ``decisions_kept`` under defences.

    Raises:
        NotApplicable: for an attack that needs what this adversary doesn't have, or a defence that can't act here.
    """
    if not isinstance(cell, AttackCell):
        module, _, name = cell.function.partition(":")
        return dict(getattr(import_module(module), name)(on, **dict(cell.options)))
    model: TrainedModel | TrainedNetwork = on
    view, truth = model.view(cell.passive, cell.records)
    try:
        estimate = attacks.load_prediction(cell.attack.name, **dict(cell.attack.options)).reconstruct(view)
    except attacks.ViewError as error:
        raise NotApplicable(str(error)) from error
    return {"mse": mse_per_feature(truth, estimate), "mse_by_column": ((estimate - truth) ** 2).mean(axis=0).tolist()}
