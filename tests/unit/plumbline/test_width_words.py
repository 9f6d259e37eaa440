"""What others see of columns, in words."""

import pytest

from plumbline.width_words import digits_words, narrow_words, seen_words
from services.common.agreement import PartyDescription
from vfl.data import Grid

BINARY, BYTE = Grid(steps=1), Grid(steps=9)


@pytest.mark.parametrize(
    ("counts", "words"), [((0, 0), ""), ((4, 0), "4 binary"), ((0, 9), "9 byte"), ((4, 9), "4 binary, 9 byte")]
)
def test_narrow_columns_are_counted(counts: tuple[int, int], words: str) -> None:
    assert narrow_words(*counts) == words


@pytest.mark.parametrize(
    ("grids", "words"),
    [
        ([BYTE], "8"),
        ([None], "full"),
        ([BINARY, BINARY, BINARY], "1 each"),
        ([BYTE, BINARY], "8 and 1"),
        ([None, BINARY], "full and 1"),
    ],
)
def test_digits_of_the_features_of_one_column(grids: list[Grid | None], words: str) -> None:
    assert digits_words(grids) == words


def test_what_others_see_names_the_setting_that_keeps_it() -> None:
    party = PartyDescription("bank", 13, 0, False, 100, binary_features=4, byte_features=9)
    assert "13 features" in seen_words(party)
    assert "4 binary, 9 byte" in seen_words(party)
    assert "PLUMBLINE_PAD_WIDTHS" in seen_words(party)
    padded = PartyDescription("bank", 13, 0, False, 100)
    assert seen_words(padded) == "all others see their number: 13 features, of one width"
