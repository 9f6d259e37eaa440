"""Results in the order of their tasks, a bounded number of them under way."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result_co = TypeVar("Result_co", covariant=True)


class Pending(Protocol[Result_co]):
    """A task that was given to a worker."""

    def result(self) -> Result_co:
        """Wait for its result; raises what it raised."""

    def cancel(self) -> object:
        """Don't begin it where nobody has."""


def in_order(
    submit: Callable[[Task], Pending[Result_co]], tasks: Iterable[Task], under_way: int
) -> Iterator[Result_co]:
    """Submit tasks as results are taken, so that neither is ever in memory whole.

    Args:
        submit: gives a task to a worker.
        tasks: drawn one after the other.
        under_way: how many are submitted ahead of the result that is waited for.
    """
    drawn = iter(tasks)
    pending = deque(map(submit, islice(drawn, under_way)))
    try:
        while pending:
            result = pending.popleft().result()
            pending.extend(map(submit, islice(drawn, 1)))
            yield result
    finally:
        for one in pending:
            one.cancel()
