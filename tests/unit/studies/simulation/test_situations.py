"""What an active party sees of a model under defences, one after the other."""

from typing import Any

import numpy as np
import pytest

import defences
from studies.simulation.linear_models import TrainedModel, train
from studies.simulation.situations import Setting, Situation, situation_of
from vfl.channels import Distorted, Rounding, Temperature

SETTING = Setting(tuple(range(5, 13)), 20)


@pytest.fixture(scope="module")
def model() -> TrainedModel:
    return train("wine", None, "lbfgs", 2, held_out=0.4)


def shown(model: TrainedModel, *chosen: Any, setting: Setting = SETTING) -> Situation:
    return situation_of(model, setting, chosen, seed=4)


def test_defences_of_scores_act_in_their_order(model: TrainedModel) -> None:
    rounding, scheme = defences.load("score_rounding", decimals=1), defences.load("score_scheme3")
    one, other = shown(model, rounding, scheme), shown(model, scheme, rounding)
    np.testing.assert_array_equal(other.scores, np.round(other.scores, 1))
    assert not np.array_equal(one.scores, np.round(one.scores, 1))
    assert [type(channel) for channel in one.view.channel] == [Rounding, Temperature]
    assert [type(channel) for channel in other.view.channel] == [Temperature, Rounding]


def test_parameters_and_scores_are_defended_together(model: TrainedModel) -> None:
    both = shown(model, defences.load("feature_transform", kind="negate"), defences.load("score_rounding"))
    plain = shown(model)
    np.testing.assert_array_equal(both.view.weights_passive, -np.asarray(plain.view.weights_passive))
    np.testing.assert_array_equal(both.scores, np.round(plain.scores, 2))
    assert both.view.disclosure == Distorted("negated", 0.0, sign_is_guess=True)
    assert both.interpretability > 0


def test_two_turns_at_training_are_one_turn(model: TrainedModel) -> None:
    """1 - (1 - x) is x: the same model is trained, and no parameter moves."""
    negate = defences.load("feature_transform", kind="negate", at="training")
    twice = shown(model, negate, negate)
    np.testing.assert_allclose(np.asarray(twice.view.weights_passive), model.weights[:, 5:], atol=1e-6)
    assert twice.interpretability == pytest.approx(0.0, abs=1e-9)
    assert twice.view.disclosure == Distorted("any", sign_is_guess=True)


def test_complete_records_are_true_and_delivered_ones_lack_the_passive_columns(model: TrainedModel) -> None:
    complete = shown(model, setting=Setting(SETTING.passive, 20, complete=(30, 25))).view.auxiliary
    delivered = shown(model, setting=Setting(SETTING.passive, 20, delivered=(30, 25))).view.auxiliary
    assert complete is not None
    assert delivered is not None
    np.testing.assert_array_equal(complete.features_passive, model.features[[30, 25], 5:])
    assert delivered.features_passive.shape == (2, 0)
    for known in (complete, delivered):
        np.testing.assert_array_equal(known.features_active, model.features[[30, 25], :5])
        np.testing.assert_array_equal(known.scores, model.scores[[30, 25]])
        np.testing.assert_array_equal(known.labels, model.labels[[30, 25]])


def test_two_defences_of_training_contradict_each_other(model: TrainedModel) -> None:
    private = defences.load("dp_sgd")
    with pytest.raises(defences.DefenceError, match="both train the model"):
        shown(model, private, private)


def test_a_defence_of_training_trains_once_for_all_splits(model: TrainedModel) -> None:
    pytest.importorskip("opacus")
    private = defences.load("dp_sgd", epochs=1)
    one = shown(model, private)
    other = shown(model, private, setting=Setting((0, 1), 20))
    np.testing.assert_array_equal(one.scores, other.scores)
    again = situation_of(train("wine", None, "lbfgs", 2, held_out=0.4), SETTING, [private], seed=4)
    np.testing.assert_array_equal(one.scores, again.scores)
    assert not np.array_equal(one.scores, shown(model).scores)
