"""Deadlines that nest: what a handler asks of others ends before its own caller gives up. Knows no network."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

# What is left of a caller's time when the inner call has failed: to answer in, with the name of who was silent.
_MOST_MARGIN_SECONDS = 2.0
_MARGIN = 0.2

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextmanager
def answering_within(seconds: float | None) -> Iterator[None]:
    """End calls made inside, on this thread, before these seconds are over. None: whoever asks sets no deadline."""
    token = _deadline.set(None if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def current_deadline() -> float:
    """Tell when calls on this thread have to be over, in seconds of time.monotonic; infinite without a deadline."""
    deadline = _deadline.get()
    return math.inf if deadline is None else deadline


def inner_timeout(timeout: float | None) -> float | None:
    """Shorten a call's timeout so that it ends clearly before the deadline of the call that is being answered.

    Without that the outer caller's time is up in the same moment, and it names the party that it asked in place of
    the silent one behind it.
    """
    deadline = _deadline.get()
    if deadline is None:
        return timeout
    remaining = max(0.0, deadline - time.monotonic())
    if math.isinf(remaining):
        return timeout
    inner = remaining - min(_MARGIN * remaining, _MOST_MARGIN_SECONDS)
    return inner if timeout is None else min(timeout, inner)


def carrying_the_deadline(work: Callable[..., T], *arguments: Any) -> Callable[[], T]:
    """``work`` for another thread, under the deadline of this one."""
    return partial(copy_context().run, work, *arguments)
