"""Trainings side by side against slow definitions: central training, LabelRecovery, the oracle's expansions."""

import numpy as np
import pytest

from attacks.training.label_recovery import LabelRecovery
from attacks.training_views import simulated_view
from studies.simulation.side_by_side import KeptLabels, Starts, train_side_by_side
from vfl.arrays import BoolArray
from vfl.learning import BatchSchedule, GradientDescent, VerticalData, train_centrally
from vfl.theory.training import APPROXIMATIONS, simulate_oracle


@pytest.mark.parametrize(("scale", "batch"), [(1.0, 16), (0.15, 16), (1.0, 17)])
def test_training_and_kept_labels_are_those_of_the_reference_and_of_label_recovery(scale: float, batch: int) -> None:
    """With T_eps before, inside and after the run; a last batch that is shorter."""
    generator = np.random.default_rng(3)
    blocks = [scale * generator.normal(size=(72, width)) for width in (3, 24)]
    labels = generator.integers(0, 2, 72)
    train, test = np.arange(60), np.arange(60, 72)
    schedule = BatchSchedule(train, batch, 5)
    weights = np.hstack([np.zeros((27, 1)), 0.2 * generator.normal(size=(27, 1))])
    squared_norm = float((np.hstack(blocks) ** 2).sum(axis=1).max())
    limits: list[int] = []
    expected: list[list[BoolArray]] = []
    for column, kind in enumerate(("zero", "xavier")):
        start = weights[:, [column]]
        oracle = simulate_oracle(
            VerticalData(blocks, labels),
            [start[:3], start[3:]],
            GradientDescent(schedule, epochs=4, learning_rate=0.2),
        )
        found = []
        for epochs in range(1, 5):
            view = simulated_view(
                oracle,
                1,
                initialisation=kind,
                label_party_bias=False,
                steps=slice(epochs * schedule.steps_per_epoch),
            )
            recovered = LabelRecovery(squared_norm=squared_norm).attack(view)
            assert not recovered.reason
            found.append(recovered.labels == labels)
        assert recovered.guaranteed_steps is not None
        limits.append(recovered.guaranteed_steps)
        expected.append(found)
    trained = train_side_by_side(
        np.hstack(blocks),
        labels,
        Starts(weights, np.array(limits)),
        GradientDescent(schedule, epochs=4, learning_rate=0.2),
        test=test,
    )
    for column in range(2):
        start = weights[:, [column]]
        reference = np.vstack(
            train_centrally(
                VerticalData(blocks, labels),
                [start[:3], start[3:]],
                GradientDescent(schedule, epochs=4, learning_rate=0.2),
            )
        )
        np.testing.assert_allclose(trained.weights[:, [column]], reference, atol=1e-12)
        assert trained.theta_norm[-1, column] == pytest.approx(np.linalg.norm(reference))
        np.testing.assert_allclose(trained.success_kept[:, column], [right[train].mean() for right in expected[column]])
    if scale == 1.0:
        assert (trained.success_step < 1).any(), "the run must leave the range in which every label is right"
        wrong = trained.first_wrong_step
        assert ((wrong < 0) | (wrong >= np.array(limits))).all()


def test_success_by_step_and_first_wrong_step_follow_f() -> None:
    """One feature, weight 3: f = 3 x - 2 y has the wrong sign where y x > 2/3."""
    features, labels = np.array([[1.0], [-1.0], [0.1], [-0.1]]), np.array([1, 0, 1, 0])
    schedule = BatchSchedule(np.arange(4), 1, 0)
    trained = train_side_by_side(
        features,
        labels,
        Starts(np.array([[3.0, 0.0]]), np.array([0, 100])),
        GradientDescent(schedule, epochs=1, learning_rate=1e-9),
        test=np.arange(4),
    )
    np.testing.assert_array_equal(trained.success_step, [[0.5, 1.0]])
    order = np.concatenate(list(schedule.epoch(0)))
    np.testing.assert_array_equal(trained.first_wrong_step, [np.flatnonzero(order < 2)[0], -1])
    np.testing.assert_allclose(trained.theta_norm, [[3.0, 0.0]], atol=1e-6)
    np.testing.assert_array_equal(trained.accuracy_test, [[1.0, 1.0]])


def test_kept_labels_prefer_the_guarantee_then_the_majority_then_the_earliest() -> None:
    kept = KeptLabels(3, np.array([1, 0]))
    rows = np.arange(3)
    for epoch, told in enumerate(([1, 0, 1], [0, 1, 0], [0, 1, 1])):
        column = np.array(told, dtype=np.bool_)[:, None]
        kept.add(rows, np.full(3, epoch), np.hstack([column, column]))
        if epoch == 1:
            np.testing.assert_array_equal(kept.labels[:, 1], [True, False, True])
    np.testing.assert_array_equal(kept.labels[:, 0], [True, False, True])
    np.testing.assert_array_equal(kept.labels[:, 1], [False, True, True])


def test_each_training_has_its_own_expansion() -> None:
    """Beside each other they are what the oracle trains alone; an f of 0 tells no label."""
    generator = np.random.default_rng(2)
    blocks, labels = [generator.normal(size=(50, 3)), generator.normal(size=(50, 2))], generator.integers(0, 2, 50)
    start = 0.3 * generator.normal(size=(5, 1))
    descent = GradientDescent(BatchSchedule(np.arange(40), 10, 0), epochs=3, learning_rate=0.3)
    trained = train_side_by_side(
        np.hstack(blocks),
        labels,
        Starts(np.repeat(start, 3, axis=1), np.zeros(3, dtype=np.int64), APPROXIMATIONS),
        descent,
        test=np.arange(40, 50),
    )
    for column, approximation in enumerate(APPROXIMATIONS):
        oracle = simulate_oracle(
            VerticalData(blocks, labels), [start[:3], start[3:]], descent, approximation=approximation
        )
        np.testing.assert_allclose(trained.weights[:, [column]], np.vstack(oracle.weights), atol=1e-12)
        told = [np.where(step.residual == 0, 0, (step.residual < 0) * 2 - 1)[:, 0] for step in oracle.steps[-4:]]
        rows = np.concatenate([step.rows for step in oracle.steps[-4:]])
        right = np.concatenate(told) == 2 * labels[rows] - 1
        assert trained.success_step[-1, column] == pytest.approx(right.mean())
    silent = [(step.residual == 0).any() for step in oracle.steps]
    assert any(silent), "the run must leave the piecewise line"
