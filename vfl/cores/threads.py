"""Threads as cores: for kernels that release the interpreter's lock."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from vfl.cores.cores import Result, Task
from vfl.cores.in_order import in_order

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
        return in_order(lambda task: self._pool.submit(function, task), tasks, _UNDER_WAY * self.count)

    def forget(self) -> None:
        """Do nothing: threads keep nothing of their own."""

    def close(self) -> None:
        """End the threads when their tasks are done."""
        self._pool.shutdown(wait=False)
