"""The shadow model: enough auxiliary rows give the white-box result, fewer give less, wrong guesses still run."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import attacks
from attacks import AuxiliaryRows, PredictionView, ViewError
from studies.simulation.synthetic_features import synthetic_features
from tests.harness.networks import scores_of
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores
from vfl.learning.networks import VerticalNetwork
from vfl.learning.torch_training import dense_network, initial_layers
from vfl.theory.inversion import auxiliary_threshold

torch.set_num_threads(1)

K, D_ACTIVE, D = 6, 3, 4
KLD = {"distance": "kld", "init": "half"}


def black_box(rows: int, seed: int = 0) -> tuple[PredictionView, PredictionView, FloatArray]:
    """A black-box view with so many auxiliary rows, its white-box twin, and the truth; a linear model."""
    generator = np.random.default_rng(seed)
    weights_active, weights_passive = generator.normal(size=(K, D_ACTIVE)), generator.normal(size=(K, D))
    bias = generator.normal(size=K)

    def scores(active: FloatArray, passive: FloatArray) -> FloatArray:
        return confidence_scores(active @ weights_active.T + passive @ weights_passive.T + bias)

    active, truth = generator.random((40, D_ACTIVE)), generator.random((40, D))
    own, passive = generator.random((rows, D_ACTIVE)), generator.random((rows, D))
    view = PredictionView(
        features_active=active,
        scores=scores(active, truth),
        weights_active=weights_active,
        bias=bias,
        passive_features=D,
        auxiliary=AuxiliaryRows(own, passive, scores(own, passive)),
    )
    return view, replace(view, weights_passive=weights_passive), truth


def error(estimate: FloatArray, truth: FloatArray) -> float:
    return float(((estimate - truth) ** 2).mean())


@pytest.mark.thorough
def test_tau_rows_and_more_give_nearly_the_white_box_error_and_few_do_not() -> None:
    tau = auxiliary_threshold(D, K)
    _, white_box, truth = black_box(1)
    half = error(np.full_like(truth, 0.5), truth)
    assert error(attacks.load("gia", **KLD).reconstruct(white_box), truth) < 0.02 * half
    few, enough, many = (
        error(attacks.load("shadow", **KLD).reconstruct(view), truth_)
        for view, _, truth_ in (black_box(rows) for rows in (1, 2 * tau, 50 * tau))
    )
    assert max(many, enough) < 0.02 * half
    assert few > 0.3 * half


def test_the_shadow_of_many_rows_is_the_passive_part() -> None:
    view, white_box, _ = black_box(200)
    part = attacks.load("shadow", distance="kld", shadow_steps=3000).shadow_part(view)
    assert white_box.weights_passive is not None
    # A softmax model tells its weights up to what is common to all classes.
    expected = np.diff(white_box.weights_passive, axis=0)
    np.testing.assert_allclose(np.diff(part.weights[0].T, axis=0), expected, atol=0.02)
    assert (part.biases[0] == 0).all()


@pytest.mark.thorough
def test_networks_with_the_right_and_a_wrong_structure() -> None:
    generator = np.random.default_rng(1)
    torch_generator = torch.Generator().manual_seed(3)
    network = VerticalNetwork(
        *(dense_network(initial_layers([inputs, 8, K], torch_generator), "tanh") for inputs in (D_ACTIVE, D))
    )
    active, truth = generator.random((30, D_ACTIVE)), generator.random((30, D))
    own, passive = generator.random((60, D_ACTIVE)), generator.random((60, D))
    # The view holds the whole network only so that the active part is there; a decoy stands for the passive one.
    decoy = dense_network(initial_layers([D, K], torch_generator), "relu")
    view = PredictionView(
        features_active=active,
        scores=scores_of(network, active, truth),
        network=VerticalNetwork(network.active, decoy),
        passive_features=D,
        auxiliary=AuxiliaryRows(own, passive, scores_of(network, own, passive)),
    )
    half = error(np.full_like(truth, 0.5), truth)
    options: dict[str, Any] = {**KLD, "shadow_steps": 2000, "steps": 2000}
    for guess in ({"hidden": (8,), "activation": "tanh"}, {"hidden": [8, 8], "activation": "sigmoid"}, {}):
        estimate = attacks.load("shadow", **options, **guess).reconstruct(view)
        assert error(estimate, truth) < half


def test_seeds() -> None:
    view, _, _ = black_box(5)
    options: dict[str, Any] = {"hidden": (4,), "shadow_steps": 20, "steps": 20}
    one, again, other = (attacks.load("shadow", **options, seed=seed).reconstruct(view) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


def test_disclosed_weights_are_not_looked_at() -> None:
    view, white_box, _ = black_box(5)
    attack = attacks.load("shadow", shadow_steps=20, steps=20)
    np.testing.assert_array_equal(attack.reconstruct(view), attack.reconstruct(white_box))


@pytest.mark.parametrize("kind", ["uniform", "normal", "laplace"])
def test_synthetic_features(kind: Literal["uniform", "normal", "laplace"]) -> None:
    made = synthetic_features(kind, 500, 3, np.random.default_rng(0))
    assert made.shape == (500, 3)
    assert made.min() >= 0
    assert made.max() <= 1
    np.testing.assert_array_equal(made, synthetic_features(kind, 500, 3, np.random.default_rng(0)))
    # Uniform values spread most, Laplace ones least.
    expected = {"uniform": (0.27, 0.31), "normal": (0.12, 0.2), "laplace": (0.05, 0.13)}[kind]
    assert expected[0] < made.std() < expected[1]
    assert np.isfinite(synthetic_features(kind, 1, 2, np.random.default_rng(0))).all()


def test_synthetic_features_refuses() -> None:
    with pytest.raises(ValueError, match="Unknown distribution"):
        synthetic_features("cauchy", 2, 2, np.random.default_rng(0))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one row"):
        synthetic_features("normal", 0, 2, np.random.default_rng(0))


@pytest.mark.parametrize(
    "options",
    [
        {"hidden": (0,)},
        {"activation": "gelu"},
        {"shadow_steps": 0},
        {"shadow_learning_rate": 0.0},
        {"distance": "l1"},
        {"init": "ones"},
        {"steps": 0},
    ],
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"needs|to be one of|Choose one of|at least one unit"):
        attacks.load("shadow", **options)


@pytest.mark.parametrize("piece", ["scores", "auxiliary", "weights_active", "bias"])
def test_missing_pieces(piece: str) -> None:
    view, _, _ = black_box(5)
    with pytest.raises(ViewError, match=f"shadow needs.*{piece}"):
        attacks.load("shadow").reconstruct(replace(view, **{piece: None}))  # type: ignore[arg-type]


def test_auxiliary_rows_that_do_not_fit() -> None:
    view, _, _ = black_box(5)
    rows = view.auxiliary
    assert rows is not None
    broken = [
        replace(rows, features_active=rows.features_active[:, :2]),
        replace(rows, features_passive=rows.features_passive[:, :2]),
        replace(rows, scores=rows.scores[:4]),
        replace(rows, features_active=np.ones((0, D_ACTIVE)), features_passive=np.ones((0, D)), scores=np.ones((0, K))),
    ]
    for auxiliary in broken:
        with pytest.raises(ViewError, match="shadow"):
            attacks.load("shadow").reconstruct(replace(view, auxiliary=auxiliary))


def test_auxiliary_rows_with_nan_are_refused_before_any_attack() -> None:
    with pytest.raises(ViewError, match="features_passive holds NaN"):
        attacks.AuxiliaryRows(np.zeros((1, 2)), np.full((1, 2), np.nan), np.ones((1, 2)))
