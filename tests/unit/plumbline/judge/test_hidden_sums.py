"""What an answer says of a network's hidden sums: what was measured, or that nothing was."""

import pytest

from plumbline.judge.hidden_sums import known_words, knows_records, unmeasured_sums
from plumbline.judge.training import TrainingFinding

FEW = "Not possible: 1 units in 4 epochs are 4 sums of a record, fewer than 5 columns."


def finding(attack: str, success: float = float("nan"), reason: str = "") -> TrainingFinding:
    return TrainingFinding(attack, "active", reason, 0.1, kind="estimates", success=success, resolved=1.0)


def test_sums_are_unmeasured_unless_an_attack_on_them_was_scored() -> None:
    assert unmeasured_sums([]) == (
        "What the hidden sums of training tell was not measured: gram_space (--attacks) was not mounted."
    )
    others = [finding("hidden_space", 0.9), finding("gram_space(prior=nothing)", reason=FEW)]
    assert unmeasured_sums(others) == f"What the hidden sums of training tell was not measured: {FEW}"
    assert unmeasured_sums([*others, finding("gram_space(prior=covariance)", 0.0)]) == ""


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        ("hidden_space", "in full"),
        ("gram_space(prior=records)", "in full"),
        ("gram_space(prior=covariance)", "means and covariance"),
        ("gram_space(prior=marginals)", "means and variances"),
    ],
)
def test_what_an_adversary_knows_beforehand_is_said_with_what_it_found(attack: str, words: str) -> None:
    assert words in known_words(attack)
    assert knows_records(finding(attack, 0.5)) == (words == "in full")
    assert not knows_records(finding(attack))


def test_an_attack_that_is_not_installed_knows_nothing_here() -> None:
    assert known_words("somebody_elses(prior=records)") == ""
