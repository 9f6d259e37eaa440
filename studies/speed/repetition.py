"""How things are timed: on one pinned core, in turns, as often as asked, and only where the result is right."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
Name = TypeVar("Name")
Clock = Callable[[], float]


class WrongResult(ArithmeticError):
    """A variant computed something else than it had to: its time means nothing."""


def timed(work: Callable[[], T], clock: Clock = time.process_time) -> tuple[float, T]:
    """Do the work once: its seconds by the clock, this process's CPU by default, and its result."""
    start = clock()
    result = work()
    return clock() - start, result


def in_turns(variants: Mapping[Name, Callable[[], T]], repetitions: int) -> dict[Name, list[T]]:
    """Run every variant once, then every one again: a machine that slows down slows all of them down."""
    found: dict[Name, list[T]] = {name: [] for name in variants}
    for _ in range(repetitions):
        for name, run in variants.items():
            found[name].append(run())
    return found


def require_equal(variant: str, found: Sequence[object], expected: Sequence[object]) -> None:
    """Raises WrongResult where a variant's results aren't exactly the expected ones."""
    if list(found) != list(expected):
        raise WrongResult(f"{variant} found another result than integer arithmetic: its time means nothing.")


@contextmanager
def one_core() -> Iterator[None]:
    """Pin this process to one of its cores, where the system can, and release it afterwards."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
