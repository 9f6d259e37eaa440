"""Cores of a test: they draw tasks ahead, as real ones do, and work on them out of order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class CoresAhead:
    """Two threads that are up to four tasks ahead of the result that is given on.

    Attributes:
        drawn: how many tasks have been drawn so far.
        forgotten: how often they were told to forget.
    """

    count = 2

    def __init__(self) -> None:
        self.drawn = 0
        self.forgotten = 0
        self._threads = ThreadPoolExecutor(self.count)

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Work on four tasks at a time, and give the results in order."""
        ahead: deque[Future[Result]] = deque()
        for task in tasks:
            self.drawn += 1
            ahead.append(self._threads.submit(function, task))
            if len(ahead) == 4:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()

    def forget(self) -> None:
        """Count: threads keep nothing of their own."""
        self.forgotten += 1

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()
