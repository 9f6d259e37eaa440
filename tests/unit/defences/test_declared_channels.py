"""What defences say of themselves to all parties: every built-in one does, by its options alone, never a secret."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

import defences
from defences import Defence, DefenceError, DefenceSpec, NoiseSource, ScoreContext, channel_of, disclosure_of
from vfl.channels import (
    Decision,
    Distorted,
    Noise,
    ParameterChannel,
    Purifier,
    Rounding,
    ScoreChannel,
    StrongestDirection,
    Temperature,
    Undeclared,
)
from vfl.learning import confidence_scores

K = 4
SCORES = confidence_scores(np.random.default_rng(0).standard_normal((20, K)))
GRAM = np.diag([1.0, 2.0, 3.0, 4.0])
CHANNELS: dict[str, tuple[dict[str, Any], ScoreChannel]] = {
    "score_rounding": ({"decimals": 3}, Rounding(3)),
    "score_noise": ({"sigma": 0.2}, Noise(0.2)),
    "class_label": ({"remainder": 0.1}, Decision()),
    "score_scheme1": ({"alpha": 2.0, "sign": -1}, StrongestDirection(1, 2.0, -1)),
    "score_scheme2": ({"alpha": 2.0, "delta": 0.5}, StrongestDirection(2, 2.0, 1, 0.5)),
    "score_scheme3": ({"alpha": 0.75}, Temperature(0.25)),
}
DISCLOSURES: list[tuple[str, dict[str, Any], ParameterChannel]] = [
    ("feature_transform", {"kind": "negate"}, Distorted("negated", 0.0, sign_is_guess=True)),
    ("feature_transform", {"kind": "negate", "at": "training"}, Distorted("negated", 0.5, sign_is_guess=True)),
    ("feature_transform", {"kind": "random"}, Distorted("orthonormal")),
    ("feature_transform", {"kind": "permutation", "at": "training"}, Distorted("orthonormal", 0.5)),
    ("feature_transform", {"kind": "optimal"}, Distorted("orthonormal", sign_is_guess=True)),
    ("parameter_rotation", {"secret": "sign"}, Distorted("any", sign_is_guess=True)),
]


def of_stage(*stages: str) -> set[str]:
    return {name for name in defences.names() if set(stages) & set(defences.load(name).spec.stages)}


def test_every_defence_of_scores_declares_its_channel() -> None:
    assert of_stage("scores") == {*CHANNELS, "purification"}
    for name, (options, expected) in CHANNELS.items():
        assert channel_of(defences.load(name, **options), K) == expected


def test_every_defence_that_changes_what_is_disclosed_says_how() -> None:
    assert of_stage("features", "parameters") == {name for name, _, _ in DISCLOSURES}
    for name, options, expected in DISCLOSURES:
        assert disclosure_of(defences.load(name, **options)) == expected
    for name in set(defences.names()) - of_stage("features", "parameters"):
        assert disclosure_of(defences.load(name)) is None


@pytest.mark.parametrize("name", CHANNELS)
def test_two_secrets_have_one_channel(name: str) -> None:
    """Even after each was at work: noise differs, what is declared doesn't."""
    one, other = (defences.load(name, **CHANNELS[name][0]) for _ in range(2))
    delivered = [
        defence.protect_scores(SCORES, ScoreContext(NoiseSource(key=secret), GRAM))
        for defence, secret in ((one, bytes(32)), (other, bytes([1] * 32)))
    ]
    assert np.array_equal(*delivered) == (name != "score_noise")
    assert channel_of(one, K) == channel_of(other, K)
    assert hash(channel_of(one, K)) == hash(channel_of(other, K))


@pytest.mark.parametrize(("name", "options", "expected"), DISCLOSURES)
def test_two_secrets_have_one_disclosure(name: str, options: dict[str, Any], expected: ParameterChannel) -> None:
    features, weights = np.random.default_rng(1).random((30, 3)), np.random.default_rng(2).standard_normal((K, 3))
    for secret in (bytes(32), bytes([1] * 32)):
        defence = defences.load(name, **options)
        defence.disclose(weights, features, NoiseSource(key=secret))
        assert disclosure_of(defence) == expected


def test_purification_is_the_network_that_anyone_can_train() -> None:
    pytest.importorskip("torch")
    defence = defences.load("purification", epochs=1)
    channel = channel_of(defence, K)
    assert isinstance(channel, Purifier)
    protected = defence.protect_scores(SCORES, ScoreContext(NoiseSource(0)))
    np.testing.assert_array_equal(channel.purify(SCORES), protected)


def test_purification_by_a_private_history_declares_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "history.npy", SCORES)
    defence = defences.load("purification", scores=str(tmp_path / "history.npy"))
    assert channel_of(defence, K) == Undeclared("purification")


@dataclass(frozen=True)
class Silent:
    """Another package's defence, from before channels."""

    name: ClassVar[str] = "silent"
    spec: ClassVar[DefenceSpec] = DefenceSpec(("coordinator",), ("scores", "parameters"), "nothing", "a test")


@dataclass(frozen=True)
class Muddled(Silent):
    """Declares what no adversary knows."""

    def channel(self, classes: int) -> str:
        return "wide"

    def disclosure(self) -> str:
        return "turned"


def test_a_defence_that_says_nothing_is_undeclared() -> None:
    assert channel_of(Silent(), K) == Undeclared("silent")
    assert disclosure_of(Silent()) == Undeclared("silent")


def test_a_channel_that_nobody_knows_is_refused() -> None:
    with pytest.raises(DefenceError, match=r"silent declares 'wide', which no adversary knows.*Rounding"):
        channel_of(cast(Defence, Muddled()), K)
    with pytest.raises(DefenceError, match=r"declares 'turned'.*Distorted, Undeclared"):
        disclosure_of(cast(Defence, Muddled()))
