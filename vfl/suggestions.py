"""Finds what a person meant by a name that isn't there."""

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str:
    """Find the known name that is most like this one; empty where none is.

    Capitals, and ``-`` for ``_``, are forgiven.
    """
    by_spelling = {_spelled(one): one for one in names}
    close = difflib.get_close_matches(_spelled(name), by_spelling, n=1)
    return by_spelling[close[0]] if close else ""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Ask for the nearest known name: ``" Did you mean 'rcc2'?"``, with a space in front; empty where none is near."""
    meant = nearest(name, names)
    return f" Did you mean {meant!r}?" if meant else ""


def _spelled(name: str) -> str:
    return name.lower().replace("-", "_")
