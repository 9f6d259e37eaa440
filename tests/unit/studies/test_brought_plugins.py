"""``--with``: which attacks and defences a user's words name."""

from collections.abc import Sequence

import pytest

import attacks.registry
import defences.registry
from studies.brought_plugins import Foreknowledge, brought, foreknowledge_of
from studies.measurements import Choice


@pytest.mark.parametrize(
    ("words", "attacks", "defences"),
    [
        ((), (), ()),
        (("rcc2",), (Choice.of("rcc2"),), ()),
        (("gia:init=half,distance=kld",), (Choice.of("gia", init="half", distance="kld"),), ()),
        (
            ("score_rounding:decimals=2", "rcc2", "rcc2"),
            (Choice.of("rcc2"),),
            (Choice.of("score_rounding", decimals=2),),
        ),
    ],
)
def test_attacks_and_defences_are_told_apart(
    words: Sequence[str], attacks: tuple[Choice, ...], defences: tuple[Choice, ...]
) -> None:
    assert brought(words) == (attacks, defences)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("rcc3", "Did you mean 'rcc2'"),
        ("qqqqqqq", "`plumbline attacks` and `plumbline defences` list them"),
        ("feature_order", "attack on training"),
        ("gia:init=nowhere", "one of zero, half, random|init"),
        ("gia:star=half", "can't take star"),
        ("gia:init", "gia:option=value"),
        ("score_rounding:decimals=two", "whole number"),
    ],
)
def test_what_is_no_plugin_or_no_option_is_refused(words: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        brought([words])


def test_a_name_of_both_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defences.registry, "names", lambda: ("rcc2",))
    assert "rcc2" in attacks.registry.names()
    with pytest.raises(ValueError, match="an attack and of a defence"):
        brought(["rcc2"])


@pytest.mark.parametrize(
    ("choice", "records", "moments"),
    [
        (Choice.of("half_star"), False, False),
        (Choice.of("posterior", prior="half"), False, False),
        (Choice.of("posterior", prior="covariance"), False, True),
        (Choice.of("imputation"), True, False),
    ],
)
def test_what_an_attack_must_know_is_what_it_declares(choice: Choice, records: bool, moments: bool) -> None:
    assert foreknowledge_of(choice) == Foreknowledge(records, moments)
