"""Small networks: forward passes worked out by hand, and shapes that can't be."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.arrays import FloatArray
from vfl.learning.networks import Activation, DenseNetwork, VerticalNetwork


@pytest.mark.parametrize(
    ("activation", "expected"),
    [("relu", [[2.0, 1.0]]), ("tanh", [[2 * np.tanh(1.0) + np.tanh(-3.0), 1.0 - np.tanh(-3.0)]])],
)
def test_one_hidden_layer_by_hand(activation: Activation, expected: list[list[float]]) -> None:
    hidden = np.array([[1.0, -1.0], [0.0, -2.0]])
    output = np.array([[2.0, 0.0], [1.0, -1.0]])
    part = DenseNetwork((hidden, output), (np.zeros(2), np.array([0.0, 1.0])), activation)
    # The hidden values are (1, -1 - 2) before the activation.
    np.testing.assert_allclose(part.partial_scores(np.array([[1.0, 1.0]])), expected, atol=1e-15)


def test_sigmoid_of_zero_is_one_half() -> None:
    part = DenseNetwork((np.zeros((3, 4)), np.ones((4, 2))), (np.zeros(4), np.zeros(2)))
    np.testing.assert_array_equal(part.partial_scores(np.ones((1, 3))), [[2.0, 2.0]])


def test_no_hidden_layer_is_linear_and_sizes_are_told() -> None:
    part = DenseNetwork((np.array([[1.0, 2.0, 3.0]]),), (np.array([0.0, 0.0, 1.0]),))
    assert (part.inputs, part.outputs) == (1, 3)
    np.testing.assert_array_equal(part.partial_scores(np.array([[2.0]])), [[2.0, 4.0, 7.0]])


def test_layers_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="at least one layer"):
        DenseNetwork((), ())
    with pytest.raises(ValueError, match="don't fit its bias"):
        DenseNetwork((np.ones((2, 3)),), (np.ones(2),))
    with pytest.raises(ValueError, match="can't feed"):
        DenseNetwork((np.ones((2, 3)), np.ones((2, 2))), (np.ones(3), np.ones(2)))
    two, three = (DenseNetwork((np.ones((1, k)),), (np.ones(k),)) for k in (2, 3))
    with pytest.raises(ValueError, match="one value per class"):
        VerticalNetwork(two, three)


@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=4),
    st.integers(1, 70),
    st.sampled_from(["sigmoid", "tanh", "relu"]),
    st.data(),
)
def test_a_records_share_is_the_same_to_the_last_bit_whatever_stands_beside_it(
    sizes: list[int], rows: int, activation: Activation, data: st.DataObject
) -> None:
    generator = np.random.default_rng(sum(sizes) + rows)
    weights: tuple[FloatArray, ...] = tuple(generator.normal(size=pair) for pair in pairwise(sizes))
    biases: tuple[FloatArray, ...] = tuple(generator.normal(size=(size,)) for size in sizes[1:])
    network = DenseNetwork(weights, biases, activation)
    features = generator.normal(size=(rows, sizes[0]))
    chosen = data.draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=9))
    together = network.partial_scores(features, by_record=True)
    np.testing.assert_array_equal(network.partial_scores(features[chosen], by_record=True), together[chosen])
    np.testing.assert_allclose(together, network.partial_scores(features), atol=1e-12)
