"""The generative baseline: it fits the scores, its penalty works, seeds repeat, and what it refuses."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import attacks
from attacks import PredictionView, ViewError
from tests.harness.networks import scores_of
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores
from vfl.learning.networks import VerticalNetwork
from vfl.learning.torch_training import dense_network, initial_layers

torch.set_num_threads(1)

SMALL: dict[str, Any] = {"hidden": (32, 16), "epochs": 60, "learning_rate": 0.01}


def predictions(n: int = 120) -> tuple[PredictionView, FloatArray]:
    """One passive feature, equal to an active one: what a generator can learn from scores."""
    generator = np.random.default_rng(0)
    active = generator.random((n, 2))
    passive = active[:, :1]
    weights_active, weights_passive = np.zeros((2, 2)), np.array([[0.0], [8.0]])
    scores = confidence_scores(passive @ weights_passive.T + [0.0, -4.0])
    view = PredictionView(
        features_active=active,
        scores=scores,
        weights_active=weights_active,
        weights_passive=weights_passive,
        bias=np.array([0.0, -4.0]),
    )
    return view, passive


def test_it_learns_the_features_behind_the_scores() -> None:
    view, truth = predictions()
    estimate = attacks.load("grn", **SMALL, variance_weight=0.0).reconstruct(view)
    assert estimate.shape == truth.shape
    assert ((estimate - truth) ** 2).mean() < 0.25 * ((truth - 0.5) ** 2).mean()


def test_the_penalty_keeps_values_together() -> None:
    view, _ = predictions()
    free, held = (attacks.load("grn", **SMALL, variance_weight=w).reconstruct(view).var() for w in (0.0, 1e4))
    assert held < 0.1 * free


def test_networks_and_a_single_record() -> None:
    generator = torch.Generator().manual_seed(0)
    network = VerticalNetwork(*(dense_network(initial_layers([inputs, 8, 3], generator), "tanh") for inputs in (2, 4)))
    active, passive = np.full((1, 2), 0.5), np.full((1, 4), 0.2)
    scores = scores_of(network, active, passive)
    view = PredictionView(features_active=active, scores=scores, network=network, passive_features=4)
    estimate = attacks.load("grn", **SMALL).reconstruct(view)
    assert estimate.shape == (1, 4)
    assert np.isfinite(estimate).all()


def test_saturated_scores_and_seeds() -> None:
    view, _ = predictions(30)
    view = replace(view, scores=np.tile([1.0, 0.0], (30, 1)))
    one, again, other = (attacks.load("grn", hidden=[8], epochs=3, seed=s).reconstruct(view) for s in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    assert np.isfinite(one).all()
    assert one.min() >= 0
    assert one.max() <= 1


def test_published_generator_is_the_default() -> None:
    attack = attacks.load("grn")
    assert (attack.hidden, attack.variance_weight) == ((600, 200, 100), 0.25)
    assert (attack.epochs, attack.batch_size, attack.learning_rate) == (60, 64, 0.0001)


@pytest.mark.parametrize(
    "options",
    [{"hidden": (0,)}, {"epochs": 0}, {"batch_size": 0}, {"learning_rate": 0.0}, {"variance_weight": -1.0}],
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"grn needs|at least one unit"):
        attacks.load("grn", **options)


@pytest.mark.parametrize("piece", ["scores", "bias"])
def test_missing_pieces(piece: str) -> None:
    view, _ = predictions(3)
    with pytest.raises(ViewError, match=f"grn needs.*{piece}"):
        attacks.load("grn").reconstruct(replace(view, **{piece: None}))  # type: ignore[arg-type]
