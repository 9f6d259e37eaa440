"""What a typing error is taken for."""

import pytest

from vfl.suggestions import did_you_mean, nearest

NAMES = ("half", "half_star", "rcc1", "rcc2", "label_recovery")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("half-star", "half_star"),
        ("HALF_STAR", "half_star"),
        ("halfstar", "half_star"),
        ("label_recovry", "label_recovery"),
    ],
)
def test_a_typing_error_is_taken_for_the_nearest_name(typed: str, meant: str) -> None:
    assert nearest(typed, NAMES) == meant
    assert did_you_mean(typed, NAMES) == f" Did you mean {meant!r}?"


def test_a_word_like_none_of_them_suggests_nothing() -> None:
    assert nearest("gradient", NAMES) == did_you_mean("gradient", NAMES) == ""
    assert did_you_mean("half", ()) == ""


def test_a_name_keeps_its_own_spelling() -> None:
    assert nearest("id_column", ["ID-Column"]) == "ID-Column"
