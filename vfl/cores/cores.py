"""What does work on several cores at once."""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
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


_MOUNT = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def available_cores() -> int:
    """Count the cores that this process may use, at least 1: its affinity, cut to its control group's quota.

    A part of a core counts as one: two workers with a quota of 1.5 do 1.5 times the work of one.
    """
    pinned = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = list(_quotas(_MOUNT, _MEMBERSHIP))
    return max(1, min(pinned, *map(math.ceil, quotas))) if quotas else pinned


def _quotas(mount: Path, membership: Path) -> Iterator[float]:
    """Cores that each control group above this process grants; nothing where none says so."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        hierarchy, controllers, path = line.split(":", 2)
        if hierarchy == "0":
            folders, quota_of = [mount], _unified_quota
        elif "cpu" in controllers.split(","):
            folders, quota_of = [mount / controllers, mount / "cpu"], _legacy_quota
        else:
            continue
        for folder in folders:
            # Within a container the path may be the host's: then the mount's root is this process's group.
            group_folder = folder / path.lstrip("/")
            for group in (group_folder, *group_folder.parents):
                if group.is_relative_to(folder) and (quota := quota_of(group)) is not None:
                    yield quota


def _unified_quota(group: Path) -> float | None:
    """Version 2: ``max 100000``, or microseconds of each period."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _legacy_quota(group: Path) -> float | None:
    """Version 1: -1, or microseconds of each period, in two files."""
    try:
        quota, period = (int((group / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        return quota / period if quota > 0 else None
    except (OSError, ValueError):
        return None
