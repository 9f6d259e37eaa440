"""Inner products of a network's passive records, from hidden sums with no record known."""

from typing import Any

import numpy as np
import pytest

from attacks.training.gram_fit import GradientSteps, GramFit, fit_gram
from attacks.training_views import Forwarded
from attacks.views import ViewError
from vfl.arrays import FloatArray


def training(
    columns: FloatArray,
    owner: GradientSteps,
    *,
    units: int = 6,
    epochs: int = 6,
    batch: int = 20,
    reshuffled: bool = False,
    noise: float = 0.0,
) -> list[Forwarded]:
    """Steps of an owner that moves its weights by the rule itself, not by the filter under test."""
    generator = np.random.default_rng(1)
    weights = generator.standard_normal((columns.shape[1], units))
    velocity, steps = np.zeros_like(weights), list[Forwarded]()
    order = generator.permutation(len(columns))
    for _ in range(epochs):
        order = generator.permutation(len(columns)) if reshuffled else order
        for first in range(0, len(order), batch):
            rows = order[first : first + batch]
            products = columns[rows] @ weights
            backward = np.tanh(products) - generator.standard_normal(products.shape)
            velocity = owner.momentum * velocity + columns[rows].T @ backward / len(rows) + owner.l2 * weights
            weights = weights - owner.rate * velocity
            seen = products + noise * generator.standard_normal(products.shape)
            steps.append(Forwarded(len(steps), rows, seen, backward))
    return steps


def table(columns: int = 5, records: int = 130) -> FloatArray:
    return np.random.default_rng(0).random((records, columns))


def error(found: GramFit, truth: FloatArray) -> float:
    """How far inner products are off, relative."""
    own = truth[found.rows] @ truth[found.rows].T
    return float(np.linalg.norm(found.points @ found.points.T - own) / np.linalg.norm(own))


@pytest.mark.parametrize("reshuffled", [False, True])
@pytest.mark.parametrize(
    "owner",
    [GradientSteps(0.3), GradientSteps(0.05, momentum=0.9), GradientSteps(0.2, l2=0.1), GradientSteps(0.05, 0.8, 0.05)],
)
def test_sums_tell_all_inner_products_whatever_moves_the_weights(owner: GradientSteps, reshuffled: bool) -> None:
    truth = table()
    found = fit_gram(training(truth, owner, reshuffled=reshuffled), owner, 5)
    assert (found.rank, found.reason) == (5, "")
    assert found.residual < 1e-16
    assert error(found, truth) < 1e-6


@pytest.mark.parametrize(("units", "batch", "rate"), [(2, 20, 0.1), (6, 4, 0.01), (6, 130, 0.1)])
def test_fewer_units_than_columns_and_batches_of_any_size_do(units: int, batch: int, rate: float) -> None:
    truth, owner = table(), GradientSteps(rate, momentum=0.9)
    found = fit_gram(training(truth, owner, units=units, batch=batch, epochs=10), owner, 5)
    assert error(found, truth) < 1e-6


def test_what_is_told_is_the_same_of_rotated_columns() -> None:
    truth, owner = table(), GradientSteps(0.3)
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((5, 5)))[0]
    found = fit_gram(training(truth @ turn, owner), owner, 5)
    assert error(found, truth) < 1e-6


@pytest.mark.parametrize("copies", [1, 3])
def test_columns_that_follow_from_others_cost_nothing(copies: int) -> None:
    truth, owner = np.hstack([table(4), table(4)[:, :copies]]), GradientSteps(0.3)
    found = fit_gram(training(truth, owner, units=8), owner, 4 + copies)
    assert found.rank == 4
    assert error(found, truth) < 1e-6


def test_weights_of_another_rule_leave_sums_unexplained() -> None:
    truth = table()
    found = fit_gram(training(truth, GradientSteps(0.3)), GradientSteps(0.3, momentum=0.5), 5)
    assert found.residual > 1e-6


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"units": 1, "epochs": 4}, "1 units in 4 epochs are 4 sums of a record, fewer than 5 columns"),
        ({"units": 2, "epochs": 2}, "4 sums of a record"),
    ],
)
def test_it_says_that_there_are_too_few_sums(options: dict[str, Any], reason: str) -> None:
    found = fit_gram(training(table(), GradientSteps(0.3), **options), GradientSteps(0.3), 5)
    assert reason in found.reason
    assert found.points.shape == (130, 0)


def test_messages_of_zeros_weights_that_stand_still_and_too_few_records_are_said() -> None:
    owner = GradientSteps(0.3)
    steps = training(table(), owner)
    zeros = [Forwarded(one.step, one.rows, 0 * one.products, one.backward) for one in steps]
    assert "all that was forwarded is 0" in fit_gram(zeros, owner, 5).reason
    still = [Forwarded(one.step, one.rows, one.products, 0 * one.backward) for one in steps]
    assert "hardly moved" in fit_gram(still, owner, 5).reason
    assert "5 records" in fit_gram(training(table(records=5), owner), owner, 5).reason
    wide = fit_gram(training(table(40, records=100), owner, units=200, epochs=1), owner, 40)
    assert "Not tried: 40 columns, and with 200 units it takes 18 at most" in wide.reason


def test_records_that_are_all_alike_are_one_direction() -> None:
    alike, owner = np.full((130, 5), 0.4), GradientSteps(0.3)
    found = fit_gram(training(alike, owner), owner, 5)
    assert found.rank <= 1
    assert not found.rank or error(found, alike) < 1e-6


def test_a_training_that_went_on_after_an_interruption_is_refused() -> None:
    owner = GradientSteps(0.3)
    with pytest.raises(ViewError, match="Not every step from the first on"):
        fit_gram(training(table(), owner)[3:], owner, 5)
