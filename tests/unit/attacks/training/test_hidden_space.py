"""Passive features from the first layer that a network's passive parties forward."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attacks.training.hidden_space import HiddenSpace
from attacks.training.recovered_values import EstimatedFeatures
from attacks.views import ViewError
from tests.harness.network_views import NetworkRun, breast_cancer, network_run
from vfl.arrays import FloatArray

# The label party trains with it.
pytest.importorskip("torch")


def error(run: NetworkRun, found: EstimatedFeatures, values: dict[str, FloatArray] | None = None) -> float:
    """The mean square error over all peers' columns, as a share of what is guessed without the federation."""
    truth = np.hstack(run.data.blocks[1:])[found.rows]
    estimate, guess = (np.hstack(list(one.values())) for one in (values or found.values, found.guesses))
    return float(((estimate - truth) ** 2).mean() / ((guess - truth) ** 2).mean())


@pytest.mark.parametrize("options", [{}, {"optimiser": "sgd", "activation": "relu"}])
def test_a_hundred_known_records_and_sixteen_units_tell_the_columns_of_all_others(options: dict[str, Any]) -> None:
    run = network_run(*breast_cancer(), **options)
    found = HiddenSpace().attack(run.active(known=range(100)))
    assert len(found.rows) == run.data.blocks[0].shape[0] - 100
    assert error(run, found) <= 1e-8
    assert found.errors["replay"] < found.errors["regression"] < found.errors["guess"]


def test_two_passive_parties_whose_products_are_summed_are_read_alike() -> None:
    (own, other), labels = breast_cancer(columns=12)
    run = network_run([own, other[:, :5], other[:, 5:]], labels)
    found = HiddenSpace().attack(run.active(known=range(60)))
    assert {peer: values.shape[1] for peer, values in found.values.items()} == {"party-1": 5, "party-2": 7}
    assert error(run, found) <= 1e-6


def test_fewer_units_than_columns_tell_more_with_more_epochs() -> None:
    run = network_run(*breast_cancer(), hidden=4, epochs=6, learning_rate=0.3)
    one, all_of_them = (HiddenSpace(epochs=uses).attack(run.active(known=range(100))) for uses in (1, 6))
    assert error(run, all_of_them) < 0.8 * error(run, one) < 0.8


def test_noise_ends_the_replay_and_leaves_no_worse_than_the_guess() -> None:
    run = network_run(*breast_cancer())
    clean = HiddenSpace().attack(run.active(known=range(100)))
    noisy = HiddenSpace().attack(run.active(known=range(100), noise=0.1))
    assert error(run, clean) < error(run, noisy) <= 1


def test_what_is_forwarded_of_other_records_tells_nothing() -> None:
    run = network_run(*breast_cancer())
    view = run.active(known=range(100))
    generator = np.random.default_rng(0)
    fresh = tuple(replace(one, products=generator.standard_normal(one.products.shape)) for one in view.forwarded)
    found = HiddenSpace().attack(replace(view, forwarded=fresh))
    assert error(run, found) >= 0.9


def test_known_records_that_were_not_trained_on_are_no_help() -> None:
    run = network_run(*breast_cancer(), trained_on=500)
    with pytest.raises(ViewError, match="None of known_records was trained on"):
        HiddenSpace().attack(run.active(known=range(510, 540)))
    few = HiddenSpace().attack(run.active(known=[1, 2, 3, 530]))
    assert not few.errors
    assert len(few.rows) == 497


def test_it_says_what_is_missing() -> None:
    run = network_run(*breast_cancer(), epochs=1)
    with pytest.raises(ViewError, match="needs known_records"):
        HiddenSpace().attack(run.active())
    with pytest.raises(ViewError, match="needs forwarded"):
        HiddenSpace().attack(run.passive())
    with pytest.raises(ViewError, match="Only the label party of a network is forwarded a layer"):
        replace(run.passive(), forwarded=run.active().forwarded)
    with pytest.raises(ViewError, match="known_records has a row twice"):
        run.active(known=[1, 1])
    with pytest.raises(ViewError, match="known_labels must be"):
        run.passive(known_labels=np.full(5, -1))
    with pytest.raises(ValueError, match="epochs >= 1"):
        HiddenSpace(epochs=0)
