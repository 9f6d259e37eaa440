"""What an adversary knows of a session's defences, from the agreement alone."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from defences import load
from services.adversary.declared import disclosure, score_channels
from services.common.agreement import Agreement, PartyDescription
from services.common.announced import AnnouncedDefence
from tests.harness.agreements import agreed
from tests.harness.documented_plugin import install
from vfl.channels import Decision, Distorted, Rounding, Temperature, Undeclared

NEGATED = load("feature_transform", kind="negate")
TURNED = load("feature_transform")
ROTATED = load("parameter_rotation")
ABOUT_HALF = load("feature_transform", kind="random", at="training")


def told(*defences: Any) -> tuple[AnnouncedDefence, ...]:
    return tuple(AnnouncedDefence.of(defence) for defence in defences)


def under(*announced: AnnouncedDefence) -> Agreement:
    return replace(agreed(), announced=announced, score_defences=tuple(one.name for one in announced))


def disclosing(*parties: tuple[AnnouncedDefence, ...]) -> Agreement:
    described = [
        PartyDescription(f"passive-{number}", 2, 0, False, 400, True, announced)
        for number, announced in enumerate(parties, start=1)
    ]
    return replace(agreed(), parties=(agreed().parties[0], *described))


def test_channels_come_in_the_sessions_order() -> None:
    agreement = under(*told(load("score_rounding"), load("score_scheme3", alpha=0.75), load("class_label")))
    assert score_channels(agreement) == (Rounding(2), Temperature(0.25), Decision())
    assert score_channels(agreed()) == ()


def test_names_without_options_are_undeclared() -> None:
    """Of a coordinator, or of a kept session, from before options were told."""
    agreement = replace(agreed(), score_defences=("score_rounding", "class_label"))
    assert score_channels(agreement) == (Undeclared("score_rounding"), Undeclared("class_label"))


@pytest.mark.parametrize(
    ("announced", "words"),
    [
        (AnnouncedDefence("velvet"), "Unknown defence 'velvet'"),
        (AnnouncedDefence("score_rounding", '{"decimals": 99}'), "0 to 15"),
        (AnnouncedDefence("score_rounding", '{"teeth": 4}'), "teeth"),
        (AnnouncedDefence("dp_sgd"), "Undeclared|dp_sgd"),
        (AnnouncedDefence("purification", '{"scores": "/etc/hostname"}'), "for its own party alone"),
        (AnnouncedDefence("purification", withheld=("scores",)), "not told"),
    ],
    ids=lambda value: repr(value)[:70],
)
def test_what_can_not_be_told_from_here_is_undeclared(
    announced: AnnouncedDefence, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert score_channels(under(announced)) == (Undeclared(announced.name),)
    if announced.name != "dp_sgd":
        assert words in caplog.text


def test_no_file_is_opened_on_another_partys_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "own.npy"
    np.save(file, np.full((3, 2), 0.5))
    monkeypatch.setattr(Path, "open", lambda *_, **__: pytest.fail("a file was opened"))
    announced = AnnouncedDefence("purification", f'{{"scores": "{file}"}}')
    assert score_channels(under(announced)) == (Undeclared("purification"),)


def test_a_defence_of_another_package_needs_no_code_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one of docs/adding-a-defence.md, which declares its channel: installed here, then not."""
    with monkeypatch.context() as here:
        install("adding-a-defence.md", "score_power", tmp_path, here)
        (announced,) = told(load("score_power", power=3.0))
        assert score_channels(under(announced)) == (Temperature(3.0),)
    assert score_channels(under(announced)) == (Undeclared("score_power"),)


@pytest.mark.parametrize(
    ("parties", "expected"),
    [
        ([()], None),
        ([told(load("dp_noise"))], None),
        ([told(NEGATED)], Distorted("negated", sign_is_guess=True)),
        ([told(NEGATED), told(NEGATED)], Distorted("negated", sign_is_guess=True)),
        # Blocks that are turned, or not, make a whole that is turned.
        ([told(NEGATED), ()], Distorted("orthonormal")),
        ([told(NEGATED), told(TURNED)], Distorted("orthonormal")),
        ([told(TURNED), told(ABOUT_HALF)], Distorted("any")),
        ([told(ROTATED), ()], Distorted("any")),
        ([told(ROTATED), told(NEGATED)], Distorted("any", sign_is_guess=True)),
        ([told(ABOUT_HALF, ROTATED)], Distorted("any")),
        ([(AnnouncedDefence("velvet"),), told(NEGATED)], Undeclared("velvet")),
        ([(*told(ROTATED), AnnouncedDefence("velvet"))], Undeclared("velvet")),
    ],
)
def test_what_several_parties_disclose_side_by_side(
    parties: list[tuple[AnnouncedDefence, ...]], expected: Distorted | Undeclared | None
) -> None:
    assert disclosure(disclosing(*parties)) == expected
