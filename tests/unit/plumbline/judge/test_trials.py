"""Which of the tried defences is advised: the cheapest that holds, in accuracy and then in time."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.judge.findings import DefenceTrial, recommendation_words, recommended

DEAR = DefenceTrial("class_label", holds=True, part=0.02, accuracy=0.9, accuracy_change=-0.04, seconds=0.0)
SLOW = DefenceTrial("dp_noise", holds=True, part=0.01, accuracy=0.94, accuracy_change=0.0, seconds=9.0)
QUICK = replace(SLOW, defence="black box", seconds=0.5)
LUCKY = replace(SLOW, defence="score_noise", accuracy_change=0.02, seconds=4.0)
LEAKS = DefenceTrial("score_rounding", part=0.4, exposed=2, accuracy=0.94)
LESS = DefenceTrial("score_scheme2", part=0.3, exposed=1, accuracy=0.94)
REFUSED = DefenceTrial("purification", reason="It needs torch.")


@pytest.mark.parametrize(
    ("trials", "best"),
    [
        ((), None),
        ((LEAKS, REFUSED), None),
        ((DEAR, LEAKS), DEAR),
        ((DEAR, SLOW), SLOW),
        ((SLOW, QUICK), QUICK),
        # More accuracy than without a defence is chance, and doesn't outweigh time.
        ((LUCKY, QUICK), QUICK),
        ((QUICK, replace(QUICK, defence="twin")), QUICK),
    ],
)
def test_the_cheapest_that_holds_is_recommended(trials: tuple[DefenceTrial, ...], best: DefenceTrial | None) -> None:
    assert recommended(trials) is best


@given(st.lists(st.builds(DefenceTrial, st.just("x"), holds=st.booleans(), accuracy_change=st.floats(-1, 1))))
def test_what_is_recommended_holds_and_nothing_that_holds_keeps_more_accuracy(trials: list[DefenceTrial]) -> None:
    best = recommended(trials)
    holding = [one for one in trials if one.holds]
    assert (best is None) == (not holding)
    if best:
        assert best.holds
        assert all(min(0, best.accuracy_change) >= min(0, one.accuracy_change) for one in holding)


def test_words_name_the_defence_and_its_price_or_what_comes_closest() -> None:
    assert recommendation_words(()) == ""
    assert recommendation_words((DEAR, LEAKS)) == (
        "The cheapest defence that holds is class_label: it costs 4.0 points of accuracy and 0.0 s of training."
    )
    assert "costs no accuracy and 0.5 s" in recommendation_words((QUICK, DEAR))
    assert recommendation_words((LEAKS, LESS)) == (
        "None of the 2 defences that were tried holds. score_scheme2 comes closest: 1 leak, the largest with a part of "
        "30 %."
    )


def test_what_was_not_run_is_said_to_be_neither_open_nor_closed() -> None:
    assert recommendation_words((LEAKS, LESS, REFUSED)).endswith(
        "1 of 3 weren't run (purification): what they leave isn't known."
    )
    assert recommendation_words((QUICK, REFUSED)).startswith("The cheapest defence that was run and holds is black box")
    assert recommendation_words((REFUSED,)).startswith("None of the 1 defences could be tried (purification)")
    assert (REFUSED.was_run, REFUSED.exposed, LEAKS.was_run) == (False, None, True)
