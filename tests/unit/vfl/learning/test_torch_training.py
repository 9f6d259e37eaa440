"""The lab: torch and numpy agree, training learns what can be learned, seeds repeat, torch stays out of services."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from vfl.learning import confidence_scores
from vfl.learning.networks import Activation, DenseNetwork
from vfl.learning.torch_training import (
    AdamTraining,
    as_tensor,
    dense_network,
    initial_layers,
    torch_layers,
    torch_partial_scores,
)

torch.set_num_threads(1)


def labelled(rows: int = 400, k: int = 3) -> tuple[Any, Any, Any]:
    """Features of two parties; the label is the largest of k features that both share out."""
    generator = np.random.default_rng(3)
    features = generator.random((rows, k + 2))
    return features[:, : k - 1], features[:, k - 1 :], features[:, :k].argmax(axis=1).astype(np.int64)


def random_part(inputs: int, hidden: tuple[int, ...], k: int, activation: Activation) -> DenseNetwork:
    return dense_network(initial_layers([inputs, *hidden, k], torch.Generator().manual_seed(1)), activation)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "relu"])
@pytest.mark.parametrize("hidden", [(), (8,), (8, 8), (8, 8, 8)])
def test_torch_and_numpy_compute_the_same(activation: Activation, hidden: tuple[int, ...]) -> None:
    part = random_part(5, hidden, 4, activation)
    features = np.random.default_rng(0).random((20, 5))
    computed = torch_partial_scores(torch_layers(part), activation, as_tensor(features)).numpy()
    np.testing.assert_allclose(computed, part.partial_scores(features), rtol=0, atol=1e-12)


def test_a_tensor_does_not_share_memory_with_its_array() -> None:
    values = np.zeros(2)
    as_tensor(values).add_(1.0)
    assert (values == 0).all()


@pytest.mark.parametrize("patience", [None, 10])
def test_train_linear_learns_and_repeats(patience: int | None) -> None:
    active, passive, labels = labelled()
    features = np.hstack([active, passive])
    weights, bias = AdamTraining(epochs=60, patience=patience).train_linear(features, labels)
    assert weights.shape == (3, 5)
    assert bias.shape == (3,)
    assert ((features @ weights.T + bias).argmax(axis=1) == labels).mean() > 0.9
    again, _ = AdamTraining(epochs=60, patience=patience).train_linear(features, labels)
    np.testing.assert_array_equal(weights, again)
    other, _ = AdamTraining(epochs=60, patience=patience).train_linear(features, labels, seed=1)
    assert (weights != other).any()


@pytest.mark.parametrize("hidden", [(), (8,), (8, 8)])
def test_train_network_learns_what_both_parties_are_needed_for(hidden: tuple[int, ...]) -> None:
    active, passive, labels = labelled()
    network = AdamTraining(epochs=80).train_network(active, passive, labels, hidden=hidden, activation="tanh")
    assert [len(part.weights) for part in (network.active, network.passive)] == [len(hidden) + 1] * 2
    assert (network.active.inputs, network.passive.inputs, network.passive.outputs) == (2, 3, 3)
    scores = confidence_scores(network.active.partial_scores(active) + network.passive.partial_scores(passive))
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    assert (scores.argmax(axis=1) == labels).mean() > 0.85
    again = AdamTraining(epochs=80).train_network(active, passive, labels, hidden=hidden, activation="tanh")
    np.testing.assert_array_equal(again.passive.weights[0], network.passive.weights[0])


def test_early_stopping_keeps_the_best_epoch_and_ends_early() -> None:
    generator = np.random.default_rng(0)
    # Labels that features say nothing about: every epoch overfits more.
    features, labels = generator.random((60, 30)), generator.integers(0, 2, 60)
    stopped, _ = AdamTraining(epochs=3000, patience=3, learning_rate=0.1).train_linear(features, labels)
    trained, _ = AdamTraining(epochs=300, patience=None, learning_rate=0.1).train_linear(features, labels)
    assert np.abs(stopped).mean() < 0.3 * np.abs(trained).mean()


def test_a_class_without_rows_still_has_its_weights() -> None:
    features = np.random.default_rng(0).random((20, 2))
    weights, bias = AdamTraining(epochs=1).train_linear(features, np.zeros(20, dtype=np.int64), classes=3)
    assert (weights.shape, bias.shape) == ((3, 2), (3,))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"epochs": 0}, "epochs > 0"),
        ({"batch_size": 0}, "batch_size > 0"),
        ({"learning_rate": 0.0}, "learning_rate > 0"),
        ({"patience": 0}, "patience"),
    ],
)
def test_a_training_refuses(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        AdamTraining(**options)


@pytest.mark.parametrize(("classes", "match"), [(2, "labels from 0 to below 2"), (1, "labels")])
def test_train_linear_refuses(classes: int, match: str) -> None:
    active, _, labels = labelled()
    with pytest.raises(ValueError, match=match):
        AdamTraining().train_linear(active, labels, classes=classes)


def test_train_network_refuses() -> None:
    active, passive, labels = labelled()
    with pytest.raises(ValueError, match="one label per row"):
        AdamTraining().train_linear(active, labels[:-1])
    with pytest.raises(ValueError, match="at least one unit"):
        AdamTraining().train_network(active, passive, labels, hidden=(0,))
    with pytest.raises(ValueError, match="Unknown activation"):
        AdamTraining().train_network(active, passive, labels, activation="gelu")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="as many passive rows"):
        AdamTraining().train_network(active, passive[:-1], labels)


def test_services_start_without_torch() -> None:
    code = (
        "import sys, attacks, vfl.learning, attacks.prediction.agnostic, attacks.prediction.one_feature; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
