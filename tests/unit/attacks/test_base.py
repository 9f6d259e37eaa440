"""What an attack declares: words that a service understands, needs that a view can lack."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import pytest

import attacks
from attacks.base import NEEDS
from vfl.learning.networks import DenseNetwork

GOOD: dict[str, Any] = {
    "adversary": "active",
    "phase": "prediction",
    "knowledge": "agnostic",
    "needs": (),
    "source": "a test",
}


@pytest.mark.parametrize(
    ("field", "word", "known"),
    [
        ("adversary", "coordinator", "either"),
        ("phase", "predicton", "prediction"),
        ("knowledge", "grey_box", "black_box"),
        ("conduct", "shouts", "replaces_messages"),
        ("needs", ("truth",), "network_active"),
        ("needs", "scores", "scores"),
    ],
)
def test_a_spec_refuses_words_that_it_does_not_know_and_names_those_it_does(field: str, word: Any, known: str) -> None:
    with pytest.raises(ValueError, match=rf"spec has {field}.*'{known}'.*not ") as caught:
        attacks.AttackSpec(**{**GOOD, field: word})
    assert repr(word) in str(caught.value)


def test_needs_are_those_of_the_phase() -> None:
    attacks.AttackSpec(**{**GOOD, "phase": "training", "needs": ("equations",)})
    with pytest.raises(ValueError, match="needs on prediction"):
        attacks.AttackSpec(**{**GOOD, "needs": ("equations",)})
    with pytest.raises(ValueError, match="needs on training"):
        attacks.AttackSpec(**{**GOOD, "phase": "training", "needs": ("scores",)})


def test_an_attack_on_predictions_has_no_messages_to_replace() -> None:
    with pytest.raises(ValueError, match="no messages of its own"):
        attacks.AttackSpec(**{**GOOD, "conduct": "replaces_messages"})


def test_whatever_a_view_may_lack_can_be_needed() -> None:
    optional = {field.name for field in fields(attacks.PredictionView) if field.default is None}
    assert set(NEEDS["prediction"]) == optional | {"earlier"}
    assert set(NEEDS["training"]) <= {field.name for field in fields(attacks.TrainingView)}


@pytest.mark.parametrize("piece", NEEDS["prediction"])
def test_a_missing_piece_is_named_with_the_remedy(piece: str) -> None:
    @dataclass(frozen=True)
    class Needy:
        name: ClassVar[str] = "needy"
        spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec(**{**GOOD, "needs": (piece,)})

    view = attacks.PredictionView(features_active=np.zeros((2, 1)))
    with pytest.raises(attacks.ViewError, match=f"needy needs {piece}, which this view lacks: .") as caught:
        attacks.require(Needy(), view)
    assert NEEDS["prediction"][piece] in str(caught.value)


def test_a_piece_that_is_there_is_enough() -> None:
    @dataclass(frozen=True)
    class Needy:
        name: ClassVar[str] = "needy"
        spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec(**{**GOOD, "needs": ("network_active",)})

    own = DenseNetwork((np.ones((1, 2)),), (np.zeros(2),))
    attacks.require(Needy(), attacks.PredictionView(features_active=np.zeros((2, 1)), network_active=own))
