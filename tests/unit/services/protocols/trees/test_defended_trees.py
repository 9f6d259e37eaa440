"""Defended scores of trees: the coordinator adds up what reached leaves weigh, and tells scores alone."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from defences import load
from defences.base import ScoreContext, ScoreDefence
from defences.noise import NoiseSource
from services.common import limits
from services.common.errors import InvalidMessage, NotAllowed
from services.coordinator.sessions import Sessions
from services.party.party_model import PartyModel
from services.protocols.trees.served_leaves import LeafQuestion, LeavesOnShares
from services.protocols.trees.tree_side import TreeSide
from tests.harness.restarts import IDS, Town
from tests.unit.services.protocols.trees.test_tree_sessions import of_trees, plain_twin, trainings_of
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores

ROUNDED: Any = load("score_rounding", decimals=1)
# What it applies changes nothing, so that scores show what is added up.
EXACT: Any = load("score_rounding", decimals=15)


def undefended(made: Town) -> FloatArray:
    """Scores of the same trees in one place."""
    trainings = list(trainings_of(made))
    sides, labels = [cast(TreeSide, training.side) for training in trainings], trainings[0].models._labels
    assert labels is not None
    twin, owned = plain_twin(sides, labels)
    margins = twin.margins([side._table for side in sides], [one.splits for one in owned])
    return confidence_scores(margins[:, None])


def model_of(made: Town) -> PartyModel:
    active, *_ = trainings_of(made)
    return active.model


@pytest.mark.parametrize(("parties", "cipher", "own_trees"), [(2, "paillier", 0), (3, "plain", 2)])
def test_the_label_party_is_told_defended_scores_and_no_leaf(
    tmp_path: Path, parties: int, cipher: str, own_trees: int
) -> None:
    for defence in (EXACT, ROUNDED):
        folder = tmp_path / str(defence.decimals)
        options = {"own_trees": own_trees}
        with of_trees(folder, parties, cipher=cipher, options=options, score_defences=[defence]) as made:
            made.train()
            rows = list(range(len(IDS)))
            answers = made.active._scoring.answers(model_of(made), rows)
            assert answers.shape == (len(rows), 2)
            expected = defence.protect_scores(undefended(made), ScoreContext(NoiseSource(0)))
            np.testing.assert_array_equal(answers, expected)
            assert len(np.unique(answers)) <= 11 or defence is EXACT


def test_noise_on_a_score_is_the_same_whenever_it_is_asked_for_after_restarts_too(tmp_path: Path) -> None:
    with of_trees(tmp_path, 3, score_defences=[load("score_noise", sigma=0.1)]) as made:
        made.train()
        before = made.scores()
        assert np.abs(before - undefended(made)).max() > 0.01
        np.testing.assert_array_equal(made.scores(), before)
        made.restart(*made.names)
        np.testing.assert_array_equal(made.scores(), before)


def test_other_weights_of_leaves_are_no_second_score(tmp_path: Path) -> None:
    """Who could choose them anew would read the leaf of a record off its scores."""
    with of_trees(tmp_path, score_defences=[EXACT]) as made:
        made.train()
        model = model_of(made)
        made.active._scoring.answers(model, [1, 2])
        weights = LeafQuestion._weights
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LeafQuestion, "_weights", lambda self: (weights(self).view(np.float64) * 2).view(np.uint64))
            with pytest.raises(NotAllowed, match="add up to another sum"):
                made.active._scoring.answers(model, [1, 2])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda weights: np.full_like(weights, np.float64(np.nan).view(np.uint64)), "finite numbers"),
        (lambda weights: np.full_like(weights, np.float64(1e300).view(np.uint64)), "at most 1e\\+150"),
        (lambda weights: weights[:, 1:], "columns of partial scores"),
        (lambda weights: weights[:, :0], "columns of partial scores"),
    ],
    ids=["no number", "too large", "one short", "none"],
)
def test_weights_that_are_none_are_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: Any, words: str
) -> None:
    weights = LeafQuestion._weights
    with of_trees(tmp_path, score_defences=[EXACT]) as made:
        made.train()
        monkeypatch.setattr(LeafQuestion, "_weights", lambda self: wrong(weights(self)))
        with pytest.raises(InvalidMessage, match=words):
            made.active._scoring.answers(model_of(made), [1])


def test_the_coordinator_sees_weights_in_an_order_of_their_own_for_each_record(tmp_path: Path) -> None:
    with of_trees(tmp_path, score_defences=[EXACT]) as made:
        made.train()
        model = model_of(made)
        serving = cast(LeavesOnShares, model.agreement.serving)
        question = serving.ask(model, [1, 1], None)
        first, again = question._weights().view(np.float64).reshape(2, -1, 8)
        assert not np.array_equal(first, again)
        np.testing.assert_array_equal(np.sort(first, axis=1), np.sort(again, axis=1))


@pytest.mark.parametrize("name", ["score_scheme1", "score_scheme2"])
def test_what_needs_weights_of_columns_is_refused_before_anything_is_trained(tmp_path: Path, name: str) -> None:
    with (
        of_trees(tmp_path, score_defences=[load(name)]) as made,
        pytest.raises(InvalidMessage, match=rf"applies {name}, for which .* the learner boosted_trees they have none"),
    ):
        made.train()


def test_more_leaves_than_a_message_has_room_for_with_their_weights_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SHARE_VALUES", 2 * 2 * 8 - 1)
    with of_trees(tmp_path, score_defences=[cast(ScoreDefence, EXACT)]) as made:
        assert isinstance(made.find("coordinator"), Sessions)
        with pytest.raises(InvalidMessage, match="told what each leaf weighs: a message has no room"):
            made.train()
