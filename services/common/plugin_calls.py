"""Calls code of other packages in time: what takes longer is left alone, and its caller goes on."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def done_within(seconds: float, work: Callable[[], T], hangs: Exception) -> T:
    """Do ``work`` on a thread that is left alone when it takes longer; raises ``hangs`` then, or what it raises."""
    done: Future[T] = Future()
    context = copy_context()

    def run() -> None:
        try:
            done.set_result(context.run(work))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="plugin", daemon=True).start()
    if not wait([done], seconds).done:
        raise hangs
    return done.result()
