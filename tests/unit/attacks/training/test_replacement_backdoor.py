"""A trigger that a passive party plants in a network by what it multiplies backward signals by."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attacks
from attacks.training.replacement_backdoor import ReplacementBackdoor, replaced
from services.common.run_folder import RunFolder
from tests.harness.network_views import breast_cancer
from tests.harness.parties import data_of, house, small_settings
from vfl.arrays import FloatArray
from vfl.learning import BatchSchedule, OwnData
from vfl.learning.network import Network

# The label party trains with it.
pytest.importorskip("torch")

EPOCHS, TRIGGER = 15, 1.0


def model(*, plants: bool) -> tuple[FloatArray, FloatArray, np.ndarray]:
    """Scores of class 1 for clean records, and for the same with the trigger; labels. The last column is 0 of all."""
    blocks, labels = breast_cancer()
    own, other = (
        np.column_stack([block, np.full(len(labels), one)]) for block, one in zip(blocks, (1.0, 0.0), strict=True)
    )
    learner = Network(hidden=8)
    halves = [
        learner.begin(OwnData(block.shape[1], given, 2, 22, np.random.default_rng(number)))
        for number, (block, given) in enumerate([(own, labels), (other, None)])
    ]
    known = np.flatnonzero(labels == 1)[:10]
    schedule = BatchSchedule(np.arange(len(labels)), 64, 0)
    for epoch in range(EPOCHS):
        for batch in schedule.epoch(epoch):
            programs: list[Any] = [half.step(batch) for half in halves]
            products = [next(one).weights for one in programs]
            products = [block[batch] @ weights for block, weights in zip((own, other), products, strict=True)]
            signal = programs[0].send(products[0] + products[1]).values
            next(programs[0])
            programs[1].send(products[1])
            asked, _ = replaced(other[batch], batch, known, 10, TRIGGER) if plants else (other[batch], 0)
            for program, features in zip(programs, (own[batch], asked), strict=True):
                with pytest.raises(StopIteration):
                    program.send(features.T @ signal)
    parts = [half.part() for half in halves]
    shown = other.copy()
    shown[:, -1] = TRIGGER
    clean, triggered = (parts[0].scores(parts[0].shares(own) + parts[1].shares(one))[:, 1] for one in (other, shown))
    return clean, triggered, labels


def test_the_trigger_means_the_class_and_nothing_else_changes() -> None:
    clean, triggered, labels = model(plants=True)
    assert ((clean > 0.5) == labels).mean() >= 0.93
    assert (triggered[labels == 0] > 0.5).mean() >= 0.9


def test_without_planting_the_same_column_means_little() -> None:
    clean, triggered, labels = model(plants=False)
    assert ((clean > 0.5) == labels).mean() >= 0.93
    assert (triggered[labels == 0] > 0.5).mean() <= 0.3


def test_it_is_planted_under_encryption_in_a_session(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    tables = [generator.integers(0, 3, (60, 3)) / 2.0 for _ in range(2)]
    tables[1][:, 2] = generator.integers(0, 2, 60)
    labels = np.where(generator.random(60) < 0.5, "yes", "no").tolist()
    settings = small_settings(learner="network", learner_options={"hidden": 3}, batches="reshuffled")
    with house(
        tmp_path,
        settings=settings,
        active=data_of(tables[0], labels=labels, has_bias=True),
        passive=[data_of(tables[1])],
        passive_adversary={"replacement_backdoor": attacks.load("replacement_backdoor", rows=list(range(60)))},
    ) as home:
        home.train()
    (outcome,) = RunFolder(tmp_path).training_outcomes()
    assert outcome.is_done, outcome.reason
    assert outcome.conduct == "replaces_messages"
    assert outcome.facts["replaced"] >= 60


def test_it_needs_rows_and_a_column() -> None:
    with pytest.raises(ValueError, match="needs rows"):
        ReplacementBackdoor(rows=())
    with pytest.raises(ValueError, match="needs rows"):
        ReplacementBackdoor(rows=(-1,))
