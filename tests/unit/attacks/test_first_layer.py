"""Attacks on linear models, on the first layer of a network that was trained in the federation."""

import numpy as np
import pytest

import attacks
from attacks.views import AuxiliaryRows, PredictionView
from tests.harness.network_views import NetworkRun, breast_cancer, network_run
from vfl.learning.confidence import unit_rows, unit_scores

# The label party trains with it.
pytest.importorskip("torch")

ATTACKED, KNOWN = slice(0, 50), slice(50, 150)


def view_of(run: NetworkRun, *, disclosed: bool) -> PredictionView:
    own, other = run.data.blocks
    parts = run.training.parts
    sums = own @ parts[0].weights + other @ parts[1].weights
    units = unit_rows(parts[0].weights)
    return PredictionView(
        features_active=own[ATTACKED, :-1],
        scores=unit_scores(sums[ATTACKED]),
        weights_active=units[:, :-1],
        bias=units[:, -1],
        weights_passive=unit_rows(parts[1].weights) if disclosed else None,
        passive_features=other.shape[1],
        auxiliary=AuxiliaryRows(own[KNOWN, :-1], other[KNOWN], unit_scores(sums[KNOWN])),
    )


@pytest.mark.parametrize("name", ["ls", "half_star", "rcc2", "posterior"])
def test_as_many_units_as_columns_tell_a_record_whatever_lies_above(name: str) -> None:
    run = network_run(*breast_cancer(), upper=4)
    estimate = attacks.load_prediction(name).reconstruct(view_of(run, disclosed=True))
    assert np.abs(estimate - run.data.blocks[1][ATTACKED]).max() < 1e-6


def test_fewer_units_leave_half_star_better_than_one_half() -> None:
    run = network_run(*breast_cancer(), hidden=4)
    truth = run.data.blocks[1][ATTACKED]
    estimate = attacks.load_prediction("half_star").reconstruct(view_of(run, disclosed=True))
    assert ((estimate - truth) ** 2).mean() < ((0.5 - truth) ** 2).mean()


def test_complete_records_tell_what_kept_weights_hide() -> None:
    run = network_run(*breast_cancer())
    truth = run.data.blocks[1][ATTACKED]
    view = view_of(run, disclosed=False)
    estimate = attacks.load_prediction("regression", records=11).reconstruct(view)
    guess = run.data.blocks[1][KNOWN][:11].mean(axis=0)
    assert ((estimate - truth) ** 2).mean() < 0.5 * ((guess - truth) ** 2).mean()
