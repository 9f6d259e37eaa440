"""The registry: names, unknown names, options, and attacks that other distributions bring along."""

import sys
from pathlib import Path

import pytest

import attacks
from attacks.prediction.baselines import HalfGuess
from attacks.registry import attack_class

LINEAR = ["zero", "random_guess", "half", "ls", "half_star", "clamped_ls", "cls", "rcc1", "rcc2"]
BUILT_IN = [*LINEAR, "gia", "grn", "one_feature", "shadow", "agnostic"]

THIRD_PARTY = """
from dataclasses import dataclass

import attacks


def spec(phase="prediction", **fields):
    return attacks.AttackSpec("active", phase, needs=(), source="a test", **fields)


@dataclass(frozen=True)
class Mine:
    strength: int = 1
    name = "mine"
    spec = spec()

    def reconstruct(self, view):
        return view


class Undeclared:
    name = "undeclared"


class Nameless:
    spec = spec()

    def reconstruct(self, view):
        return view


class Blind:
    name = "blind"
    spec = spec()


class Deaf:
    name = "deaf"
    spec = spec("training")

    def reconstruct(self, view):
        return view


class Mute:
    name = "mute"
    spec = spec("training", conduct="replaces_messages")

    def attack(self, view):
        return view
"""


def install(directory: Path, monkeypatch: pytest.MonkeyPatch, entry_points: str) -> None:
    """A distribution as pip would leave it: a module and a .dist-info with entry points, on sys.path."""
    (directory / "third_party_attack.py").write_text(THIRD_PARTY)
    information = directory / "third_party_attack-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party-attack\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[plumbline.attacks]\n{entry_points}\n")
    monkeypatch.syspath_prepend(str(directory))
    monkeypatch.delitem(sys.modules, "third_party_attack", raising=False)


def test_names_lists_every_built_in_attack_sorted() -> None:
    assert set(BUILT_IN) <= set(attacks.names())
    assert list(attacks.names()) == sorted(attacks.names())


@pytest.mark.parametrize("name", LINEAR)
def test_loaded_attacks_are_called_what_the_registry_calls_them(name: str) -> None:
    assert attacks.load(name).name == name


def test_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(attacks.UnknownAttack) as caught:
        attacks.load("halfstar")
    assert all(name in str(caught.value) for name in ("halfstar", *BUILT_IN))


def test_unknown_option_is_told_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"random_guess can't take sede.*Its options: .*seed"):
        attacks.load("random_guess", sede=1)


def test_unknown_word_of_an_option_is_told_the_choices() -> None:
    with pytest.raises(ValueError, match="regression: expected model to be one of trees, boosting, network, got 'oak'"):
        attacks.load("regression", model="oak")


def test_attacks_are_frozen_and_equal_by_their_options() -> None:
    first = attacks.load("random_guess", seed=1)
    assert first == attacks.load("random_guess", seed=1) != attacks.load("random_guess", seed=2)
    with pytest.raises(AttributeError):
        first.seed = 2


def test_installed_distribution_adds_an_attack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "mine = third_party_attack:Mine")
    assert "mine" in attacks.names()
    assert attacks.load("mine", strength=3).strength == 3
    with pytest.raises(ValueError, match=r"mine can't take power.*strength"):
        attacks.load("mine", power=3)


def test_installed_distribution_cannot_replace_a_built_in_attack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "half = third_party_attack:Mine")
    assert attack_class("half") is HalfGuess
    assert attacks.names().count("half") == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("undeclared", "undeclared declares no spec"),
        ("nameless", "nameless has no name"),
        ("blind", "blind is an attack on prediction and lacks reconstruct"),
        ("deaf", "deaf is an attack on training and lacks attack"),
        ("mute", "mute is an attack on training and lacks messages"),
    ],
)
def test_an_attack_without_what_its_service_calls_is_refused_when_it_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    install(tmp_path, monkeypatch, f"{name} = third_party_attack:{name.capitalize()}")
    with pytest.raises(ValueError, match=words):
        attacks.load(name)


def test_loading_by_phase_refuses_the_other_phase() -> None:
    assert attacks.load_prediction("half").spec.phase == "prediction"
    assert attacks.load_training("feature_order").spec.phase == "training"
    with pytest.raises(ValueError, match="half is an attack on prediction, not on training"):
        attacks.load_training("half")
    with pytest.raises(ValueError, match="feature_order is an attack on training, not on prediction"):
        attacks.load_prediction("feature_order")


@pytest.mark.parametrize("name", attacks.names())
def test_every_attack_of_this_project_has_what_its_service_calls(name: str) -> None:
    if name in ("gia", "grn", "shadow"):
        pytest.importorskip("torch")
    attack = attacks.load(name)
    assert attack.name == name
    assert attack.spec == attacks.spec_of(name)
