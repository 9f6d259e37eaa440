"""What an audit prints of its findings."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from plumbline.audit.console import print_prediction_findings, print_training_findings, session_words
from plumbline.judge.predictions import AttackFinding
from plumbline.judge.training import TrainingFinding
from services.common.run_records import FAILED, NOT_APPLICABLE, ChannelRecord
from tests.harness.findings import SIZES, attack, column, findings


def printed(found: list[AttackFinding], training: list[TrainingFinding]) -> str:
    text = io.StringIO()
    console = Console(file=text, width=200)
    print_prediction_findings(console, findings(*found))
    print_training_findings(console, training)
    return text.getvalue()


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


@pytest.mark.parametrize(
    ("equations", "rows", "words"),
    [(28, 127, "within 5 epochs"), (127, 127, ""), (200, 127, ""), (0, 127, "")],
)
def test_a_count_of_one_step_says_what_a_session_can_tell(equations: int, rows: int, words: str) -> None:
    channel = ChannelRecord("active", "passive", rows, 1, 2048, 15, 63, 34, equations, 0, 0)
    told = session_words(channel)
    assert told.endswith(words)
    assert bool(told) == bool(words)
