"""Other people's words made harmless: one line, printable, of bounded length, whatever stood in them.

A log is read line by line and a terminal obeys escape sequences: who can write either at will can forge the one and
take over the other. What can't be seen is therefore written out, as Python writes it (``\\n``, ``\\x1b``, ``\\u202e``).
"""

import unicodedata

_ELLIPSIS = "…"


def escaped(words: str, most: int) -> str:
    """Write words as one printable line of at most ``most`` characters.

    Written out: control characters (line ends and ANSI escapes among them), Unicode's own separators of lines and
    paragraphs, formatting characters (those that turn the direction of text), surrogates, unassigned and private
    characters. Spaces of any width stay.
    """
    # Cut first: the words may be megabytes.
    line = "".join(map(_shown, words[: most + 1]))
    return line if len(line) <= most else line[: most - 1] + _ELLIPSIS


def escaped_lines(words: str, most: int) -> str:
    """Escape our own text of several lines: its line ends stay, each line is made harmless."""
    return "\n".join(escaped(line, most) for line in words.split("\n"))


def _shown(letter: str) -> str:
    if letter.isprintable() or unicodedata.category(letter) == "Zs":
        return letter
    return letter.encode("unicode_escape").decode("ascii")
