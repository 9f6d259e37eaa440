"""What does work on several cores at once."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Cores(Protocol):
    """Some cores. Thread-safe."""

    @property
    def count(self) -> int:
        """How many tasks run at once, at least 1."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Run a function over tasks and give the results in order.

        Tasks are drawn a few per core ahead of the results, so that neither is ever in memory whole. A task whose
        worker dies or stands still is run again elsewhere, at last here. What the function raises is raised here.

        Args:
            function: of a module, pure: a task may run twice.
            tasks: what one call needs. Where cores are processes it is pickled, to this process's own children only.
        """

    def forget(self) -> None:
        """End what workers remember of secrets. Tasks under way are done, and further ones may come."""

    def close(self) -> None:
        """End the workers. Nothing is mapped afterwards."""


class OneCore:
    """The core that calls."""

    count = 1

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Run the tasks here, one after the other."""
        return map(function, tasks)

    def forget(self) -> None:
        """Do nothing: there are no workers."""

    def close(self) -> None:
        """Do nothing: there are no workers."""
