"""The linear learner without any session: what it asks for, what it takes, and what its part answers."""

from typing import Any

import numpy as np
import pytest

from vfl.learning import Ask, Forward, LinearPart, OwnData, Send, registry


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"learning_rate": 0.0}, "learning_rate to be a positive number"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"learning_rate": True}, "learning_rate to be a finite number"),
        ({"l2": -0.1}, "l2 to be from 0"),
        ({"l2": 1e10}, "l2 to be from 0"),
        ({"initialisation": "ones"}, "one of zero, xavier, kaiming, normal"),
        ({"l3": 0.1}, "linear can't take l3"),
    ],
)
def test_options_that_cant_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        registry.load("linear", **options)


def test_a_step_asks_for_products_sends_its_share_and_moves_against_the_sums() -> None:
    learner = registry.load("linear", learning_rate=0.5, l2=0.1, initialisation="xavier")
    labels = np.array([0, 1, 1, 0])
    half = learner.begin(OwnData(3, labels, 2, 5, np.random.default_rng(0)))
    start, batch = half.weights, np.array([1, 3])
    step = half.step(batch)
    forward = next(step)
    assert isinstance(forward, Forward)
    np.testing.assert_array_equal(forward.weights, start)
    sent = step.send(np.array([[0.5], [-0.25]]))
    assert isinstance(sent, Send)
    np.testing.assert_array_equal(sent.values, [[0.5 - 2], [-0.25 + 2]])
    assert isinstance(step.send(None), Ask)
    sums = np.array([[8.0], [-8.0], [4.0]])
    with pytest.raises(StopIteration):
        step.send(sums)
    # The penalty spares the bias, which is the label party's last column.
    gradient = sums / 8 + 0.1 * start * [[1], [1], [0]]
    np.testing.assert_allclose(half.weights, start - 0.5 * gradient)
    np.testing.assert_array_equal(half.part().arrays()["weights"], half.weights)


@pytest.mark.parametrize("arrays", [{}, {"weights": np.zeros(3)}, {"weights": np.array([["a"]])}], ids=str)
def test_a_part_is_read_from_one_matrix_and_nothing_else(arrays: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="one matrix of weights"):
        LinearPart.of(arrays)
    # Before it had a form of its own it was kept as a network of one layer.
    kept = {"activation": np.array("sigmoid"), "weights_0": np.ones((2, 1)), "biases_0": np.zeros(1)}
    np.testing.assert_array_equal(LinearPart.of(kept).weights, np.ones((2, 1)))
