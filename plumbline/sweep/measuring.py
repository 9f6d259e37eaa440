"""Measures one cell: mounts its attack on what its adversary sees of a model, and compares with the truth."""

from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import attacks
from plumbline.judge.measures import mse_per_feature
from plumbline.simulation.linear_models import TrainedModel, train
from plumbline.sweep.cells import AttackCell, Cell, DataChoice, ModelChoice

Shared: TypeAlias = ModelChoice | DataChoice


class NotApplicable(Exception):
    """An attack or a defence can't work here; the message says why."""


def prepare(on: Shared, data_dir: Path | None) -> Any:
    """Load the data set, or train the model, that cells share. Raises DatasetNotFound."""
    if isinstance(on, DataChoice):
        raise NotImplementedError
    return train(on.data.name, data_dir, on.trainer, on.seed, held_out=on.held_out)


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
    model: TrainedModel = on
    view, truth = model.view(cell.passive, cell.records)
    try:
        estimate = attacks.load_prediction(cell.attack.name, **dict(cell.attack.options)).reconstruct(view)
    except attacks.ViewError as error:
        raise NotApplicable(str(error)) from error
    return {"mse": mse_per_feature(truth, estimate), "mse_by_column": ((estimate - truth) ** 2).mean(axis=0).tolist()}
