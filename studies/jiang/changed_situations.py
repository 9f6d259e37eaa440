"""Attacks on a model whose records or whose coordinator were changed first, as no `AttackMeasurement` says.

Each is a pure function of a model; what comes after the change is measured as in any.
"""

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

import attacks
from plumbline.judge.measures import mse_per_feature
from studies.measurements import AttackMeasurement, Choice, DataChoice, ModelChoice, TaskMeasurement
from studies.measurements.measuring import NotApplicable, measure
from studies.simulation.situations import LabModel, Setting, situation_of
from vfl.data import PsiClient, PsiServer, common_order, row_ids, rows_of
from vfl.learning import confidence_scores

Distribution: TypeAlias = Literal["uniform", "normal", "laplace"]
# The coordinator's history, for purification trained on real scores.
_HISTORY = 2000
# Ids that only one of the parties has.
_STRANGERS = 20
# Keeps made-up records apart from the public streams of the same seed.
_MADE_UP = 0xA0B5


def after_alignment(measurement: AttackMeasurement) -> TaskMeasurement:
    """The measurement, where both parties found their common records by PSI beforehand."""
    return _task("attack_after_alignment", measurement)


def behind_real_purifier(measurement: AttackMeasurement) -> TaskMeasurement:
    """The measurement, where scores pass a purifier that was trained on scores of training records."""
    return _task("attack_behind_real_purifier", measurement)


def with_made_up_records(measurement: AttackMeasurement, distribution: Distribution) -> TaskMeasurement:
    """The measurement, where auxiliary records are made up: uniform, normal or laplace (``synthetic_features``)."""
    return _task("attack_with_made_up_records", measurement, distribution=distribution)


def _task(function: str, measurement: AttackMeasurement, **options: Any) -> TaskMeasurement:
    """Plain values of the measurement's fields, so that a result depends on all of them."""
    return TaskMeasurement.of(
        f"{__name__}:{function}",
        measurement.model,
        attack=measurement.attack.name,
        attack_options=measurement.attack.options,
        passive=measurement.passive,
        records=measurement.records,
        auxiliary=measurement.auxiliary,
        access=measurement.access,
        noise_seed=measurement.seed,
        **options,
    )


def attack_after_alignment(model: LabModel, **asked: Any) -> Mapping[str, Any]:
    """Attack records that PSI found between two tables in different orders, with ids of their own besides.

    Both sides' messages are made and read. ``aligned``: how many records both have.
    """
    measurement = _measurement(model, asked)
    own_ids, common = _intersected(len(model.labels), measurement.seed)
    rows = [_places(ids, common) for ids in own_ids]
    features = model.features[rows[0]]
    features[:, list(measurement.passive)] = model.features[rows[1]][:, list(measurement.passive)]
    aligned = replace(model, features=features, labels=model.labels[rows[0]])
    return measure(measurement, aligned) | {"aligned": len(common)}


def _intersected(n: int, seed: int) -> tuple[tuple[list[str], list[str]], list[str]]:
    """Ids of two tables that share n records, each in an order of its own; and what PSI says they share."""
    generator = np.random.default_rng(seed)
    ids = np.array(row_ids(n + _STRANGERS))
    first, second = (generator.permutation(np.append(ids[:n], ids[n + own :: 2])).tolist() for own in (0, 1))
    client, server = PsiClient(first), PsiServer(second)
    client.receive_setup(server.setup(len(first)))
    return (first, second), common_order(client.intersect(server.respond(client.request())))


def _places(own: list[str], common: list[str]) -> list[int]:
    """Which record each row of a party's common records is: ids are numbered like the model's held-out rows."""
    places = {value: row for row, value in enumerate(row_ids(len(own)))}
    return [places[own[row]] for row in rows_of(own, common)]


def attack_behind_real_purifier(model: LabModel, **asked: Any) -> Mapping[str, Any]:
    """Attack scores that pass an autoencoder trained on real ones (Jiang 6.1.3.3), which nobody else can train."""
    history = confidence_scores(model.logits(model.features_train[:_HISTORY]))
    # By its content: the defence trains once per file.
    file = Path(_histories().name) / f"{hashlib.sha256(history.tobytes()).hexdigest()}.npy"
    if not file.exists():
        np.save(file, history)
    return measure(replace(_measurement(model, asked), defences=(Choice.of("purification", scores=str(file)),)), model)


@cache
def _histories() -> "tempfile.TemporaryDirectory[str]":
    """Where score histories are kept as long as the process runs."""
    return tempfile.TemporaryDirectory(prefix="plumbline-histories-")


def attack_with_made_up_records(model: LabModel, *, distribution: Distribution, **asked: Any) -> Mapping[str, Any]:
    """Attack with auxiliary records that are made up, and answered by the federation like all others (Jiang 5.3.1).

    All parties' columns are made up. Such a record has no label; the decision that it is answered with stands for it.

    Raises:
        NotApplicable: for an attack that needs what this adversary doesn't have.
    """
    from studies.simulation.synthetic_features import synthetic_features

    measurement = _measurement(model, asked)
    generator = np.random.default_rng((_MADE_UP, measurement.seed))
    made = synthetic_features(distribution, measurement.auxiliary, model.features.shape[1], generator)
    answered = replace(
        model,
        features=np.vstack([model.features, made]),
        labels=np.append(model.labels, model.logits(made).argmax(axis=1)),
    )
    known = tuple(range(len(model.features), len(answered.features)))
    seen = situation_of(answered, Setting(measurement.passive, measurement.records, complete=known, white_box=False))
    try:
        estimate = attacks.load_prediction(measurement.attack.name, **dict(measurement.attack.options)).reconstruct(
            seen.view
        )
    except attacks.ViewError as error:
        raise NotApplicable(str(error)) from error
    # Only real records teach the classifier that judges.
    judge = situation_of(model, Setting(measurement.passive, measurement.records)).judge
    return {"mse": mse_per_feature(seen.truth, estimate), "attack_accuracy": judge.accuracy(estimate)}


def _measurement(model: LabModel, asked: Mapping[str, Any]) -> AttackMeasurement:
    """The measurement again; the model is at hand, and its description isn't looked at."""
    own = dict(asked)
    attack = Choice(own.pop("attack"), own.pop("attack_options"))
    return AttackMeasurement(ModelChoice(DataChoice(model.name)), attack=attack, seed=own.pop("noise_seed"), **own)
