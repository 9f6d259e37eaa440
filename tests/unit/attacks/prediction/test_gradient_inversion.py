"""Gradient inversion: known answers, records on their own, saturated scores, networks, and what it refuses."""

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
from vfl.learning.networks import Activation, VerticalNetwork
from vfl.learning.torch_training import dense_network, initial_layers

torch.set_num_threads(1)

CLAMPS = ("each_step", "straight_through", "at_end")


def linear(n: int, k: int, d: int, seed: int = 0, scale: float = 1.0) -> tuple[PredictionView, FloatArray]:
    """A view of n exact predictions with 3 active features, and the truth."""
    generator = np.random.default_rng(seed)
    weights_active, weights_passive = (scale * generator.normal(size=(k, width)) for width in (3, d))
    bias = generator.normal(size=k)
    active, passive = generator.random((n, 3)), generator.random((n, d))
    scores = confidence_scores(active @ weights_active.T + passive @ weights_passive.T + bias)
    view = PredictionView(
        features_active=active,
        scores=scores,
        weights_active=weights_active,
        weights_passive=weights_passive,
        bias=bias,
    )
    return view, passive


def network_of(hidden: tuple[int, ...], activation: Activation, d_active: int, d: int, k: int) -> VerticalNetwork:
    generator = torch.Generator().manual_seed(5)
    active, passive = (
        dense_network(initial_layers([inputs, *hidden, k], generator), activation) for inputs in (d_active, d)
    )
    return VerticalNetwork(active, passive)


@pytest.mark.parametrize("distance", ["mse", "kld"])
@pytest.mark.parametrize("init", ["zero", "half", "random"])
def test_fewer_features_than_classes_are_recovered(distance: str, init: str) -> None:
    view, truth = linear(30, 5, 2)
    estimate = attacks.load("gia", distance=distance, init=init).reconstruct(view)
    assert ((estimate - truth) ** 2).mean() < 1e-6


def test_one_feature_by_hand() -> None:
    # The log odds are 2 x - 1 = -0.5: x = 1/4.
    view = PredictionView(
        features_active=np.zeros((1, 1)),
        scores=confidence_scores(np.array([[0.0, -0.5]])),
        weights_active=np.zeros((2, 1)),
        weights_passive=np.array([[0.0], [2.0]]),
        bias=np.array([0.0, -1.0]),
    )
    for distance in ("mse", "kld"):
        np.testing.assert_allclose(attacks.load("gia", distance=distance).reconstruct(view), [[0.25]], atol=1e-6)


@pytest.mark.parametrize("distance", ["mse", "kld"])
def test_estimates_of_an_underdetermined_model_explain_the_scores(distance: str) -> None:
    view, _ = linear(20, 3, 6)
    # Whoever has an answer keeps it: near an exact one Adam's steps come in bursts, when depends on the processor.
    estimate = attacks.load("gia", distance=distance, init="half", tolerance=1e-9).reconstruct(view)
    assert view.weights_active is not None
    assert view.weights_passive is not None
    logits = view.features_active @ view.weights_active.T + estimate @ view.weights_passive.T
    assert view.bias is not None
    assert view.scores is not None
    np.testing.assert_allclose(confidence_scores(logits + view.bias), view.scores, atol=1e-4)


@pytest.mark.slow("each start is followed to its end")
def test_the_start_decides_which_solution_is_found() -> None:
    """Plain descent goes from 0 to least squares and from 1/2 to half* (errata); Adam ends near half*, not near LS."""
    view, _ = linear(40, 3, 6, scale=0.3)
    least_squares, half_star = (attacks.load(name).reconstruct(view) for name in ("ls", "half_star"))
    from_zero, from_half = (
        attacks.load("gia", distance="kld", init=init, clamp="at_end", learning_rate=0.001).reconstruct(view)
        for init in ("zero", "half")
    )
    apart = ((least_squares - half_star) ** 2).mean()
    assert ((from_half - half_star) ** 2).mean() < 0.2 * apart
    assert ((from_zero - least_squares) ** 2).mean() < ((from_half - least_squares) ** 2).mean()


@pytest.mark.parametrize("distance", ["mse", "kld"])
@pytest.mark.parametrize("init", ["zero", pytest.param("half", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("hidden", [None, (8, 8)])
def test_a_record_comes_out_the_same_alone_and_in_a_batch(
    distance: str, init: str, hidden: tuple[int, ...] | None
) -> None:
    view, truth = linear(12, 3, 4)
    if hidden is not None:
        network = network_of(hidden, "tanh", 3, 4, 3)
        view = PredictionView(
            features_active=view.features_active,
            scores=scores_of(network, view.features_active, truth),
            network=network,
            passive_features=4,
        )
    attack = attacks.load("gia", distance=distance, init=init, steps=300, tolerance=1e-9)
    batch = attack.reconstruct(view)
    assert view.scores is not None
    for i in range(view.n):
        one = replace(view, features_active=view.features_active[[i]], scores=view.scores[[i]])
        np.testing.assert_allclose(attack.reconstruct(one), batch[[i]], rtol=0, atol=1e-8)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "relu"])
def test_networks(activation: Activation) -> None:
    """With d < k the scores of a network give the features away as well, where its units aren't flat."""
    generator = np.random.default_rng(2)
    network = network_of((8,), activation, 3, 2, 6)
    active, passive = generator.random((30, 3)), generator.random((30, 2))
    scores = scores_of(network, active, passive)
    view = PredictionView(features_active=active, scores=scores, network=network, passive_features=2)
    estimate = attacks.load("gia", distance="kld", init="half", learning_rate=0.02).reconstruct(view)
    half = ((passive - 0.5) ** 2).mean()
    assert ((estimate - passive) ** 2).mean() < 0.1 * half
    assert estimate.shape == (30, 2)


def test_a_linear_model_as_a_network_gives_the_same() -> None:
    view, _ = linear(5, 3, 4)
    assert view.weights_active is not None
    assert view.weights_passive is not None
    assert view.bias is not None
    from attacks.prediction.gradient_inversion import linear_part

    network = VerticalNetwork(
        linear_part(view.weights_active, view.bias), linear_part(view.weights_passive, np.zeros(3))
    )
    other = PredictionView(
        features_active=view.features_active, scores=view.scores, network=network, passive_features=4
    )
    attack = attacks.load("gia", steps=50)
    np.testing.assert_array_equal(attack.reconstruct(view), attack.reconstruct(other))


@pytest.mark.parametrize("distance", ["mse", "kld"])
@pytest.mark.parametrize("clamp", CLAMPS)
def test_saturated_and_distorted_scores_give_estimates_all_the_same(distance: str, clamp: str) -> None:
    view, _ = linear(5, 3, 4, scale=1000.0)
    scores = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [-0.3, 1.2, 0.4], [0.3, 0.3, 0.4]])
    estimate = attacks.load("gia", distance=distance, clamp=clamp, steps=200).reconstruct(replace(view, scores=scores))
    assert estimate.shape == (5, 4)
    assert np.isfinite(estimate).all()
    assert estimate.min() >= 0
    assert estimate.max() <= 1


def test_kld_moves_where_mse_stalls_on_saturated_scores() -> None:
    view = PredictionView(
        features_active=np.zeros((1, 1)),
        scores=confidence_scores(np.array([[0.0, 30.0]])),
        weights_active=np.zeros((2, 1)),
        weights_passive=np.array([[0.0], [60.0]]),
        bias=np.array([0.0, 0.0]),
    )
    start_far = {"init": "zero", "steps": 3000}
    assert attacks.load("gia", distance="kld", **start_far).reconstruct(view)[0, 0] > 0.15


def test_a_converged_record_keeps_its_estimate() -> None:
    view, truth = linear(3, 4, 2)
    loose = attacks.load("gia", tolerance=1.0).reconstruct(view)
    np.testing.assert_array_equal(loose, np.zeros((3, 2)))
    tight = attacks.load("gia", tolerance=1e-12).reconstruct(view)
    assert ((tight - truth) ** 2).mean() < 1e-6


def test_seeds() -> None:
    view, _ = linear(4, 2, 5)
    one, again, other = (
        attacks.load("gia", init="random", seed=seed, steps=20).reconstruct(view) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    assert (one != other).all()


@pytest.mark.parametrize(
    "options",
    [
        {"distance": "l1"},
        {"init": "ones"},
        {"clamp": "never"},
        {"steps": 0},
        {"learning_rate": 0.0},
        {"tolerance": -1.0},
        {"momentum": 1.0},
    ],
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="gia"):
        attacks.load("gia", **options)


@pytest.mark.parametrize("piece", ["scores", "weights_active", "weights_passive", "bias"])
def test_missing_pieces(piece: str) -> None:
    view, _ = linear(2, 3, 4)
    with pytest.raises(ViewError, match=f"gia needs.*{piece}"):
        attacks.load("gia").reconstruct(replace(view, **{piece: None}, passive_features=4))  # type: ignore[arg-type]


def test_a_network_that_does_not_fit() -> None:
    view, _ = linear(2, 3, 4)
    for network in (network_of((), "relu", 2, 4, 3), network_of((), "relu", 3, 4, 5)):
        with pytest.raises(ViewError, match="gia got a network"):
            attacks.load("gia").reconstruct(replace(view, network=network))


@pytest.mark.parametrize("distance", ["mse", "kld"])
@pytest.mark.parametrize("init", ["zero", "half"])
def test_the_straight_through_clamp_scores_a_point_of_the_box(distance: str, init: str) -> None:
    view, truth = linear(30, 5, 2)
    attack = attacks.load("gia", distance=distance, init=init, clamp="straight_through", steps=1000, learning_rate=0.02)
    estimate = attack.reconstruct(view)
    assert ((estimate - truth) ** 2).mean() < 1e-3


def test_a_value_that_went_out_straight_through_comes_back_as_late_as_it_left() -> None:
    """By hand: one feature, log odds 2 x. At 9 nothing of the box explains the scores: x goes to its edge.

    Clamped at each step it waits there; straight through it goes on as far as the steps reach, but is delivered as 1.
    """
    view = PredictionView(
        features_active=np.zeros((1, 1)),
        scores=confidence_scores(np.array([[0.0, 9.0]])),
        weights_active=np.zeros((2, 1)),
        weights_passive=np.array([[0.0], [2.0]]),
        bias=np.array([0.0, 0.0]),
    )
    for clamp in CLAMPS:
        attack = attacks.load("gia", distance="kld", init="half", clamp=clamp, steps=100)
        assert attack.reconstruct(view)[0, 0] == 1.0
    # What the point already explains moves nowhere, whichever the clamp.
    inside = replace(view, scores=confidence_scores(np.array([[0.0, 1.0]])))
    for clamp in CLAMPS:
        attack = attacks.load("gia", distance="kld", init="half", clamp=clamp, steps=100)
        assert attack.reconstruct(inside)[0, 0] == pytest.approx(0.5, abs=1e-9)


def test_where_nothing_leaves_the_box_all_clamps_are_one() -> None:
    view, _ = linear(20, 3, 4, scale=0.1)
    estimates = [attacks.load("gia", init="half", clamp=clamp, steps=30).reconstruct(view) for clamp in CLAMPS]
    assert 0 < estimates[0].min() < estimates[0].max() < 1
    for other in estimates[1:]:
        np.testing.assert_array_equal(other, estimates[0])


def test_what_straight_through_delivers_explains_the_scores_and_a_free_search_that_is_clamped_does_not() -> None:
    """From 0 the free search goes below it. Clamped in the end, it has lost what it had found there."""
    view, _ = linear(20, 3, 6)
    assert view.weights_active is not None
    assert view.weights_passive is not None
    assert view.bias is not None
    assert view.scores is not None
    off, estimates = {}, {}
    for clamp in CLAMPS:
        attack = attacks.load("gia", distance="kld", clamp=clamp, steps=600, learning_rate=0.02)
        estimates[clamp] = attack.reconstruct(view)
        logits = view.features_active @ view.weights_active.T + estimates[clamp] @ view.weights_passive.T + view.bias
        off[clamp] = float(np.abs(confidence_scores(logits) - view.scores).max())
    assert off["each_step"] < 1e-3
    assert off["straight_through"] < 1e-3
    assert off["at_end"] > 1e-2
    # The two that explain the scores came by different ways to different points.
    assert np.abs(estimates["straight_through"] - estimates["each_step"]).max() > 1e-3
