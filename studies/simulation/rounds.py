"""How far a long measurement is, for whoever waits for it."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

_Item = TypeVar("_Item")
# Takes the share that is done, from 0 to 1.
Done: TypeAlias = Callable[[float], object]


def unwatched(_: float) -> None:
    """Tell nobody."""


def told(items: Sequence[_Item], done: Done) -> Iterator[_Item]:
    """Go through items and tell after each how many are behind."""
    for number, item in enumerate(items, start=1):
        yield item
        done(number / len(items))
