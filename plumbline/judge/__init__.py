"""The only place that sees truth: what a run amounts to, and how much each attack got."""

from collections.abc import Callable
from typing import TypeAlias

# What is being judged, how much is done, and of how much.
Progress: TypeAlias = Callable[[str, int, int], None]


def silent(what: str, done: int, of: int) -> None:
    """Tell nobody."""
