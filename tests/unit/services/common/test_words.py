"""Another party's words become one printable line of bounded length."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from services.common.words import escaped, escaped_lines

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@given(ANY_TEXT, st.integers(1, 200))
def test_any_words_become_one_printable_line_of_bounded_length(words: str, most: int) -> None:
    line = escaped(words, most)
    assert len(line) <= most
    assert len(line.splitlines()) <= 1
    assert all(letter.isprintable() or unicodedata.category(letter) == "Zs" for letter in line)
    # Twice is once: words pass through several parties.
    assert escaped(line, most) == line


@given(ANY_TEXT)
def test_printable_words_stay_as_they_are_and_what_cant_be_seen_is_written_out(words: str) -> None:
    whole = escaped(words, 20 * len(words) + 1)
    assert (whole == words) == all(letter.isprintable() or unicodedata.category(letter) == "Zs" for letter in words)


def test_known_answers() -> None:
    assert escaped("Größe 3 — fine,\u00a0里\u3000.", 50) == "Größe 3 — fine,\u00a0里\u3000."
    assert escaped("a\n\x1b[2Jb\u2028c\u202ed\x85\ud800\x7f", 90) == r"a\n\x1b[2Jb\u2028c\u202ed\x85\ud800\x7f"
    assert escaped("x" * 11, 10) == "x" * 9 + "…"


def test_lines_of_our_own_stay_lines_and_nothing_else_ends_one() -> None:
    assert escaped_lines("passive ended:\nlast\x1b[0m\rwords\u2028here", 50) == (
        "passive ended:\nlast\\x1b[0m\\rwords\\u2028here"
    )
