"""What a defence says of itself: words that mean something, and the methods that its stages are called by."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

import defences
from defences import DefenceSpec
from vfl.channels import Decision
from vfl.plugin_registry import PluginRegistry

SPEC = DefenceSpec(sits=("coordinator",), stages=("scores",), keeps="nothing", source="a test")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sits", ("server",)),
        ("sits", "coordinator"),
        ("stages", ("residual",)),
        ("stages", "scores"),
        ("keeps", "everything"),
        ("needs", ("gram",)),
        ("replaces", ("scores",)),
        ("replaces", "score"),
    ],
)
def test_a_word_that_nothing_knows_is_refused_with_those_there_are(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"spec has {field} from .*'.*, not"):
        replace(SPEC, **{field: value})


@dataclass(frozen=True)
class Half:
    """A defence of residuals that forgot two of its methods."""

    name: ClassVar[str] = "half"
    spec: ClassVar[DefenceSpec] = DefenceSpec(("active",), ("residuals",), "nothing", "a test")

    def protect_residuals(self, *_: object) -> None:
        """Never called."""


def test_a_defence_without_the_methods_of_its_stage_is_refused_when_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PluginRegistry, "class_of", lambda *_: Half)
    with pytest.raises(ValueError, match="half works on residuals and lacks check, prediction, which its service"):
        defences.load("half")


def test_one_that_trains_models_can_train_both_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    training = type("Training", (), {"name": "half", "spec": DefenceSpec(("lab",), ("training",), "nothing", "a test")})
    monkeypatch.setattr(PluginRegistry, "class_of", lambda *_: training)
    with pytest.raises(ValueError, match="half works on training and lacks train_linear, train_network, which"):
        defences.load("half")


@dataclass(frozen=True)
class Widened:
    """A defence of scores whose channel is no method."""

    name: ClassVar[str] = "widened"
    spec: ClassVar[DefenceSpec] = SPEC
    channel: ClassVar[Decision] = Decision()

    def protect_scores(self, *_: object) -> None:
        """Never called."""


def test_a_channel_that_is_no_method_is_refused_when_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PluginRegistry, "class_of", lambda *_: Widened)
    with pytest.raises(ValueError, match="widened has channel, which is no method"):
        defences.load("widened")


@pytest.mark.parametrize("name", defences.names())
def test_the_built_in_ones_have_all_of_theirs(name: str) -> None:
    assert defences.load(name).spec.sits
