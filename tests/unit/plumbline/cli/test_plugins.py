"""What ``plumbline attacks`` and ``plumbline defences`` say, of our own and of other packages' plugins."""

import json
import sys
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import pytest
from typer.testing import CliRunner

import attacks
import defences
from attacks.registry import REGISTRY as ATTACKS
from defences.registry import REGISTRY as DEFENCES
from defences.registry import defence_class
from plumbline.cli import app


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner(env={"COLUMNS": "80"}).invoke(app, list(arguments))
    return done.exit_code, done.output


@dataclass(frozen=True)
class Silent:
    """Says little of itself.

    Attributes:
        limit: how far it goes,
            at most.
    """

    limit: int
    name: ClassVar[str] = "silent"
    spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec(
        adversary="either", phase="training", needs=("equations",), source="none"
    )


@pytest.mark.parametrize("kind", ["attacks", "defences"])
def test_every_plugin_is_in_the_list_and_none_is_wider_than_a_terminal(kind: str) -> None:
    status, shown = run(kind)
    assert status == 0
    names = {"attacks": attacks.names, "defences": defences.names}[kind]()
    listed = {line.split()[0] for line in shown.splitlines() if line and not line.startswith(" ")}
    assert set(names) <= listed
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 80


@pytest.mark.parametrize("kind", ["attacks", "defences"])
def test_facts_are_words_and_no_expressions(kind: str) -> None:
    for name in {"attacks": attacks.names, "defences": defences.names}[kind]():
        facts = run(kind, name)[1].partition("Options")[0]
        assert not [sign for sign in ("{", "<", "('", "True", "False", "None", "..") if sign in facts], facts


def test_the_documents_say_the_same_of_every_plugin() -> None:
    documents = {kind: json.loads(run(kind, "--json")[1]) for kind in ("attacks", "defences")}
    assert [one["name"] for one in documents["attacks"]] == list(attacks.names())
    assert [one["name"] for one in documents["defences"]] == list(defences.names())
    assert all(one["summary"] and one["cost"] and one["source"] for kind in documents.values() for one in kind)
    posterior = next(one for one in documents["attacks"] if one["name"] == "posterior")
    assert posterior["needs"] == ["parameters", "scores"]
    assert posterior["adversary"] == attacks.spec_of("posterior").adversary
    scheme = next(one for one in documents["defences"] if one["name"] == "score_scheme1")
    assert (scheme["sits"], scheme["keeps"]) == (["coordinator"], defence_class("score_scheme1").spec.keeps)


def test_one_plugin_shows_its_options_with_defaults_and_its_section() -> None:
    status, shown = run("attacks", "gia")
    assert status == 0
    assert "Jiang Algorithm 1, eq. 16-20" in shown
    for words in ("distance", '"mse"', "5000", '--set attack_options=\'{"gia":'):
        assert words in shown
    options = json.loads(run("attacks", "gia", "--json")[1])["options"]
    assert {one["name"]: one["default"] for one in options}["learning_rate"] == 0.01


def test_a_plugin_without_summary_or_cost_is_listed_with_its_docstring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast(dict[str, str], ATTACKS.built_in), "silent", f"{__name__}:Silent")
    monkeypatch.setattr(sys.modules[__name__], "Silent", Silent)
    assert "Says little of itself." in run("attacks")[1]
    document: dict[str, Any] = json.loads(run("attacks", "silent", "--json")[1])
    assert document["cost"] == ""
    assert document["options"] == [
        {
            "name": "limit",
            "kind": "a whole number",
            "default": None,
            "is_required": True,
            "meaning": "how far it goes, at most.",
        }
    ]
    assert "(give it)" in run("attacks", "silent")[1]


def test_a_plugin_whose_library_is_not_here_is_listed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast(dict[str, str], ATTACKS.built_in), "far", "no_such_library:Far")
    monkeypatch.setitem(cast(dict[str, str], DEFENCES.built_in), "far", "no_such_library:Far")
    for kind in ("attacks", "defences"):
        status, shown = run(kind)
        assert status == 0
        assert "far: needs a library that isn't here" in shown


@pytest.mark.parametrize(
    ("kind", "typed", "meant"), [("attacks", "half-star", "half_star"), ("defences", "dpnoise", "dp_noise")]
)
def test_a_typing_error_is_answered_with_what_was_meant(kind: str, typed: str, meant: str) -> None:
    status, shown = run(kind, typed)
    assert status == 2
    assert f"Did you mean '{meant}'?" in " ".join(shown.split())
