"""Process-CPU time of a piece of work."""

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def timed(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> tuple[float, T]:
    """Do the work once, and return its seconds of process CPU with its result."""
    start = time.process_time()
    result = work(*arguments, **options)
    return time.process_time() - start, result
