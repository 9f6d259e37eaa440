"""dp_sgd: the budget is kept, clipping bounds what one row does, the noise is as large as accounted, seeds repeat."""

import math
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

pytest.importorskip("torch")

import torch

import defences
from defences.dp_sgd import DpSgd
from tests.harness.networks import scores_of
from vfl.arrays import FloatArray, IntArray
from vfl.learning.networks import Activation
from vfl.learning.torch_training import initial_layers
from vfl.theory.gaussian_mechanism import gaussian_epsilon

torch.set_num_threads(1)


def labelled(rows: int = 800) -> tuple[FloatArray, FloatArray, IntArray]:
    """Features of two parties; the label is the largest of three, which both share out."""
    features = np.random.default_rng(3).random((rows, 5))
    return features[:, :2], features[:, 2:], features[:, :3].argmax(axis=1).astype(np.int64)


def one_step(**options: float) -> DpSgd:
    """All rows in one batch, once: what is spent is the Gaussian mechanism's."""
    return DpSgd(**{"epochs": 1, "batch_size": 10_000, "delta": 1e-3, **options})  # type: ignore[arg-type]


def test_a_linear_model_learns_and_repeats_with_its_seed_only() -> None:
    active, passive, labels = labelled()
    features, defence = np.hstack([active, passive]), DpSgd(epsilon=2.0, epochs=30, batch_size=800)
    weights, bias = defence.train_linear(features, labels, seed=1)
    assert (weights.shape, bias.shape) == ((3, 5), (3,))
    assert ((features @ weights.T + bias).argmax(axis=1) == labels).mean() > 0.8
    np.testing.assert_array_equal(defence.train_linear(features, labels, seed=1)[0], weights)
    assert (defence.train_linear(features, labels, seed=2)[0] != weights).all()
    unseeded = [defence.train_linear(features, labels)[0] for _ in range(2)]
    assert (unseeded[0] != unseeded[1]).all()


@pytest.mark.parametrize(("hidden", "activation"), [((), "sigmoid"), ((8,), "tanh"), ((6, 4), "relu")])
def test_a_network_learns_in_the_shapes_of_the_lab(hidden: tuple[int, ...], activation: Activation) -> None:
    active, passive, labels = labelled()
    defence = DpSgd(epsilon=10.0, epochs=60, batch_size=800, clipping=2.0)
    network = defence.train_network(active, passive, labels, hidden=hidden, activation=activation, classes=4, seed=0)
    assert [len(part.weights) for part in (network.active, network.passive)] == [len(hidden) + 1] * 2
    assert (network.active.inputs, network.passive.inputs, network.passive.outputs) == (2, 3, 4)
    assert network.passive.activation == activation
    assert (scores_of(network, active, passive).argmax(axis=1) == labels).mean() > 0.6


# --- the accounting ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "delta", "epochs"), [(100, 1e-2, 20), (50, 1e-5, 1), (2, None, 5)])
def test_what_is_spent_is_exact_where_every_row_is_in_every_batch(rows: int, delta: float | None, epochs: int) -> None:
    """Then T steps are one Gaussian mechanism of sensitivity sqrt(T), whose epsilon has a closed form."""
    spent = DpSgd(delta=delta, epochs=epochs, batch_size=1000).spent(rows)
    assert (spent.sample_rate, spent.steps, spent.delta) == (1.0, epochs, delta or 1 / rows)
    exact = gaussian_epsilon(math.sqrt(epochs), spent.noise_multiplier, spent.delta)
    assert exact <= spent.epsilon <= 1.0
    assert exact > 0.96


def test_a_sampled_run_spends_its_budget_and_less_budget_is_more_noise() -> None:
    large, small = (DpSgd(epsilon=epsilon, epochs=4, batch_size=100).spent(1050) for epsilon in (2.0, 0.5))
    assert (large.steps, large.delta) == (42, 1 / 1050)
    assert large.sample_rate == pytest.approx(100 / 1050)
    assert 0.97 * 2.0 <= large.epsilon <= 2.0
    assert 0.97 * 0.5 <= small.epsilon <= 0.5
    assert small.noise_multiplier > 2 * large.noise_multiplier


def test_a_budget_that_the_accountant_cannot_keep_is_refused() -> None:
    with pytest.raises(ValueError, match=r"finds no noise.*raise epsilon"):
        one_step(epsilon=1e-5).spent(100)
    with pytest.raises(ValueError, match="at least two rows"):
        DpSgd().spent(1)


# --- the mechanism -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clipping", [0.3, 2.0])
def test_one_row_moves_a_step_by_no_more_than_the_clipping_norm(clipping: float) -> None:
    """With the same seed, start and noise are the same: the rest is a row's clipped gradient, per row, times eta."""
    defence = one_step(clipping=clipping, learning_rate=1.5)
    active, passive, labels = labelled(40)
    features = np.hstack([active, passive])
    changed = features.copy()
    changed[7] *= -1000.0
    before, after = (np.column_stack(defence.train_linear(x, labels, seed=4)) for x in (features, changed))
    moved = float(np.linalg.norm(before - after))
    # Of the changed row, one gradient goes and another comes, each at the clipping norm or below.
    assert 0.3 * clipping * 1.5 / 40 < moved <= 2 * clipping * 1.5 / 40 * (1 + 1e-5)


def test_the_noise_of_a_step_is_as_large_as_accounted() -> None:
    """Features of zero have no gradient: what moves their weights is noise alone."""
    defence = one_step(clipping=0.5, learning_rate=2.0)
    weights, _ = defence.train_linear(np.zeros((20, 300)), np.arange(20) % 4, seed=9)
    ((start, _),) = initial_layers([300, 4], torch.Generator().manual_seed(9))
    deviation = defence.spent(20).noise_multiplier * 0.5 * 2.0 / 20
    assert kstest((weights - start.numpy().T).ravel() / deviation, "norm").pvalue > 1e-3


@pytest.mark.slow("many steps of a network")
def test_empty_batches_are_steps_like_others() -> None:
    """One row a batch on average: more than a third of the batches are empty, and the noise still comes."""
    features, labels = np.random.default_rng(0).random((6, 2)), np.array([0, 1, 0, 1, 1, 0])
    weights, bias = DpSgd(batch_size=1, epochs=3, epsilon=5.0).train_linear(features, labels, seed=0)
    assert np.isfinite(weights).all()
    assert np.isfinite(bias).all()


def test_nothing_is_drawn_from_the_global_generator_and_nobody_is_warned() -> None:
    active, passive, labels = labelled(50)
    before = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one_step().train_network(active, passive, labels, seed=0)
    assert torch.equal(before, torch.get_rng_state())


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": 101.0}, "at most 100.*Train without dp_sgd"),
        ({"clipping": 0.0}, "clipping"),
        ({"clipping": math.inf}, "clipping"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"sigma": 1.0}, "Its options: epsilon, clipping"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        defences.load("dp_sgd", **options)


@pytest.mark.parametrize("module", ["opacus", "torch"])
def test_without_the_lab_extra_it_says_what_to_install(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In training, so that an audit's services, which never train with it, can name it."""
    active, passive, labels = labelled(20)
    defence = defences.load("dp_sgd")
    monkeypatch.setitem(sys.modules, module, None)
    told = r"dp_sgd needs opacus and torch: pip install 'plumbline\[lab\]'"
    with pytest.raises(ValueError, match=told):
        defence.spent(20)
    with pytest.raises(ValueError, match=told):
        defence.train_linear(active, labels)
    with pytest.raises(ValueError, match=told):
        defence.train_network(active, passive, labels)


def test_data_that_do_not_fit_are_refused() -> None:
    active, passive, labels = labelled(20)
    defence = one_step()
    with pytest.raises(ValueError, match="one label per row"):
        defence.train_linear(active, labels[:5])
    with pytest.raises(ValueError, match="one label per row"):
        defence.train_network(active, passive[:5], labels)
    with pytest.raises(ValueError, match="below 2"):
        defence.train_linear(active, labels, classes=2)
    with pytest.raises(ValueError, match="at least 2 classes"):
        defence.train_linear(active, np.zeros(20, dtype=np.int64))
    with pytest.raises(ValueError, match="finite features"):
        defence.train_linear(np.full((20, 2), np.nan), labels)
    with pytest.raises(ValueError, match="at least one unit"):
        defence.train_network(active, passive, labels, hidden=(0,))
    with pytest.raises(ValueError, match="Unknown activation"):
        defence.train_network(active, passive, labels, activation="step")  # type: ignore[arg-type]


def test_torch_is_not_imported_before_training() -> None:
    code = "import sys, defences; defences.load('dp_sgd'); assert not {'torch', 'opacus'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
