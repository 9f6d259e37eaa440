"""What tests cost: a plugin of pytest that adds up each test's seconds, by the clock and of the processors.

``pytest --costs FILE`` writes them, and prints the slowest tests, the sum of each folder, and which unit tests take
long and don't say why: ``@pytest.mark.slow("why")``. None fails by it: how long one takes is the machine's as well.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time

import pytest

_SHOWN = 30
# Of a processor, for a unit test without its fixtures; and what the same test takes more of a busy one.
MOST_SECONDS, _BUSY = 2.0, 1.5
_WORTH_A_LOOK = 0.05


@dataclass
class Cost:
    """Seconds of a test with its fixtures.

    Attributes:
        clock: by the clock.
        cpu: of the processors, with all processes that it started.
        call: of the processors, without its fixtures.
        is_slow: whether it says why it takes long.
    """

    clock: float = 0.0
    cpu: float = 0.0
    call: float = 0.0
    is_slow: bool = False


def descendants_seconds() -> float:
    """Return processor seconds of all descendants of this process, those that ended and were waited for included.

    Elsewhere than on Linux they count when they have ended.
    """
    total = sum(os.times()[2:4])
    if sys.platform == "linux" and _has_children():
        children = defaultdict[int, list[int]](list)
        spent = dict[int, float]()
        for process in filter(str.isdigit, (entry.name for entry in os.scandir("/proc"))):
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
                # After the name, which may have spaces: the parent, and times of the process and its waited children.
                fields = Path("/proc", process, "stat").read_text().rpartition(")")[2].split()
                children[int(fields[1])].append(int(process))
                spent[int(process)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        waiting = children[os.getpid()]
        while waiting:
            process_id = waiting.pop()
            total += spent[process_id]
            waiting += children[process_id]
    return total


def _has_children() -> bool:
    with suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return True
    return False


class Costs:
    """Measures in whichever process a test runs, and adds up in the one that reports."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._own = self._descendants = 0.0
        self._costs = defaultdict[str, Cost](Cost)

    def pytest_collection_finish(self) -> None:
        """What collecting took is no test's."""
        self._own, self._descendants = process_time(), descendants_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Iterator[None]:
        """A test's set-up, call or end is over: its report takes along what it cost."""
        report = yield
        own, descendants = process_time(), self._descendants
        # To look at every process of the machine takes milliseconds: what others did in so little time counts later.
        if call.duration > _WORTH_A_LOOK:
            descendants = descendants_seconds()
        # Negative where a process was orphaned, and took its seconds along.
        spent = own - self._own + max(0.0, descendants - self._descendants)
        report.user_properties = [("cpu", spent)]  # type: ignore[attr-defined]
        self._own, self._descendants = own, descendants
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Reached where tests are reported: under xdist not in a worker."""
        cost = self._costs[report.nodeid]
        cpu = sum(float(str(seconds)) for name, seconds in report.user_properties if name == "cpu")
        cost.clock += report.duration
        cost.cpu += cpu
        cost.is_slow = "slow" in report.keywords
        if report.when == "call":
            cost.call = cpu

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the tables and write the file."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps({name: asdict(cost) for name, cost in self._costs.items()}, indent=1))
        for line in cost_tables(self._costs):
            terminalreporter.write_line(line)
        for name in long_ones(self._costs):
            terminalreporter.write_line(
                f"{name} took {self._costs[name].call:.1f} s of the processors: make it faster, or say why by "
                '@pytest.mark.slow("why").'
            )


def long_ones(costs: Mapping[str, Cost]) -> list[str]:
    """Name the unit tests that take longer than any should, and don't say why."""
    most = MOST_SECONDS * _BUSY
    return [
        name for name, cost in costs.items() if name.startswith("tests/unit/") and cost.call > most and not cost.is_slow
    ]


def folder_of(name: str) -> str:
    """Return the folder that a test is counted under: tests/integration, and one level below tests/unit."""
    parts = name.partition("::")[0].split("/")
    return "/".join(parts[: 3 if parts[1:2] == ["unit"] and len(parts) > 3 else 2])


def cost_tables(costs: Mapping[str, Cost]) -> Iterator[str]:
    """Lay out the slowest tests and the sum of each folder; clock and processors in seconds."""
    yield f"the slowest {_SHOWN} of {len(costs)} tests: seconds by the clock, and of the processors"
    for name, cost in sorted(costs.items(), key=lambda named: -named[1].clock)[:_SHOWN]:
        yield f"{cost.clock:8.1f} {cost.cpu:8.1f}  {name}"
    sums = defaultdict[str, list[Cost]](list)
    for name, cost in costs.items():
        sums[folder_of(name)].append(cost)
    sums["all"] = list(costs.values())
    yield "each folder: tests, seconds by the clock, and of the processors"
    for folder, members in sorted(sums.items(), key=lambda named: -sum(cost.clock for cost in named[1])):
        clock, cpu = sum(cost.clock for cost in members), sum(cost.cpu for cost in members)
        yield f"{len(members):6} {clock:8.1f} {cpu:8.1f}  {folder}"
