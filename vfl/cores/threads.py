"""Threads as cores: for kernels that release the interpreter's lock."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Generic, Protocol, TypeVar

from vfl.cores.cores import Result, Task

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
    remaining = iter(tasks)
    pending = deque(map(submit, islice(remaining, under_way)))
    try:
        while pending:
            result = pending.popleft().result()
            pending.extend(map(submit, islice(remaining, 1)))
            yield result
    finally:
        for unfinished in pending:
            unfinished.cancel()


_UNDER_WAY = 2  # tasks per core: one runs, one waits


class ThreadCores:
    """Threads of this process. Secrets stay where they are.

    Attributes:
        count: of threads.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="core")

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Run the tasks on threads, and give the results in order."""
        return in_order(lambda task: self._submit(function, task), tasks, _UNDER_WAY * self.count)

    def _submit(self, function: Callable[[Task], Result], task: Task) -> Pending[Result]:
        try:
            return self._pool.submit(function, task)
        except RuntimeError:  # no more threads can be started, or these are closed
            return _Here(function, task)

    def forget(self) -> None:
        """Do nothing: threads keep nothing of their own."""

    def close(self) -> None:
        """End the threads when their tasks are done. What is mapped afterwards runs on the calling one."""
        self._pool.shutdown(wait=False)


@dataclass(frozen=True)
class _Here(Generic[Task, Result]):
    """A task that the thread which waits for it runs."""

    function: Callable[[Task], Result]
    task: Task

    def result(self) -> Result:
        return self.function(self.task)

    def cancel(self) -> None:
        """Do nothing: nothing has begun."""
