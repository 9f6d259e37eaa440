"""What an audit prints of its findings."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

import defences
from plumbline.audit.console import print_prediction_findings, print_training_findings, unaware_words
from plumbline.judge.predictions import AttackFinding
from plumbline.judge.training import TrainingFinding
from services.common.run_records import FAILED, NOT_APPLICABLE
from tests.harness.findings import SIZES, attack, column, findings


def printed(found: list[AttackFinding], training: list[TrainingFinding], unaware: str = "") -> str:
    text = io.StringIO()
    console = Console(file=text, width=200)
    print_prediction_findings(console, findings(*found), unaware)
    print_training_findings(console, training)
    return text.getvalue()


def test_which_defences_the_attacks_do_not_know_is_said() -> None:
    applied = [defences.load(name) for name in ("score_scheme1", "response_truncation", "feature_transform")]
    words = unaware_words(applied)
    assert "feature_transform" in unaware_words([defences.load("feature_transform", kind="negate", at="training")])
    assert words.startswith("These attacks don't know of score_scheme1 and feature_transform: an adversary who does")
    assert "What each one does not stop" in printed([attack("half_star", column("a", 0.9))], [], words)


@pytest.mark.parametrize("names", [[], ["response_truncation"], ["dp_noise"]])
def test_without_a_defence_that_they_meet_nothing_is_said(names: list[str]) -> None:
    assert unaware_words([defences.load(name) for name in names]) == ""


def test_what_attacks_say_of_their_results_is_shown_and_what_is_not_scored_is_no_number() -> None:
    noted = replace(attack("rcc1", column("a", 0.9)), notes=("3 of 10 records are certified to equal rcc2.",))
    shown = printed([noted], [SIZES])
    assert "rcc1: 3 of 10 records are certified" in shown
    assert "residual_size by passive found residual sizes: solved steps: 7" in shown
    assert "nan" not in shown


def test_an_attack_that_failed_is_not_said_to_be_inapplicable() -> None:
    # Once: "Not applicable: gia failed with TypeError".
    failed = AttackFinding("gia", FAILED, "gia failed with TypeError: no", 10, 0.0)
    unable = AttackFinding("half_star", NOT_APPLICABLE, "half_star needs weights_passive", 10, 0.0)
    assert printed([failed, unable], []).splitlines() == [
        "gia: failed: failed with TypeError: no",
        "half_star: not applicable: needs weights_passive",
    ]
