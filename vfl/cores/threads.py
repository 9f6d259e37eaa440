"""Threads as cores: for kernels that release the interpreter's lock."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic

from vfl.cores.cores import Result, Task
from vfl.cores.in_order import Pending, in_order

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
        """Nothing has begun."""
