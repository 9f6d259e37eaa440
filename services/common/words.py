"""Other people's words made harmless: one line, printable, of bounded length, whatever stood in them.

A log is read line by line and a terminal obeys escape sequences: who can write either at will can forge the one and
take over the other. What can't be seen is therefore written out, as Python writes it (``\\n``, ``\\x1b``, ``\\u202e``).
"""

import errno
import unicodedata

_ELLIPSIS = "…"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def escaped(text: str, most: int) -> str:
    """Write words as one printable line of at most ``most`` characters.

    Written out: control characters (line ends and ANSI escapes among them), Unicode's own separators of lines and
    paragraphs, formatting characters (those that turn the direction of text), surrogates, unassigned and private
    characters. Spaces of any width stay.
    """
    # Cut first: the words may be megabytes.
    line = "".join(map(_shown, text[: most + 1]))
    return line if len(line) <= most else line[: most - 1] + _ELLIPSIS


def escaped_lines(text: str, most: int) -> str:
    """Escape our own text of several lines: its line ends stay, each line is made harmless."""
    return "\n".join(escaped(line, most) for line in text.split("\n"))


def system_words(error: OSError) -> str:
    """Say what the operating system says of a file, and what to do about it."""
    if error.filename is None or error.strerror is None:
        return str(error)
    if error.errno in _NO_ROOM:
        return f"There is no room for {error.filename} ({error.strerror}): make room there, or choose another folder."
    return f"Cannot use {error.filename} ({error.strerror}): check the path, or choose a place that you can write to."


def _shown(letter: str) -> str:
    if letter.isprintable() or unicodedata.category(letter) == "Zs":
        return letter
    return letter.encode("unicode_escape").decode("ascii")
