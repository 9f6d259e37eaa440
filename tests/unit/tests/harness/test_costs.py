"""What tests cost: seconds of all processes that they started, the tables, and the unit tests that take long."""

import os
import subprocess
import sys

import pytest

from tests.harness.costs import MOST_SECONDS, Cost, cost_tables, descendants_seconds, folder_of, long_ones

# Works for a third of a second, says so, and stays until it is told to end.
WORKS = "import time\nwhile time.process_time() < {seconds}: pass\nprint(flush=True)\ninput()"
IN_A_CHILD = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {WORKS.format(seconds=0.35)!r}])"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only processes that have ended count")
@pytest.mark.parametrize("program", [WORKS.format(seconds=0.35), IN_A_CHILD], ids=["child", "its child"])
def test_processes_that_still_run_count(program: str) -> None:
    before = descendants_seconds()
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        running = descendants_seconds()
        process.communicate("\n")
    assert running - before >= 0.3
    # Nothing is counted twice when it has ended and was waited for.
    assert abs(descendants_seconds() - running) < 0.3


def test_processes_that_have_ended_count_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert descendants_seconds() >= sum(os.times()[2:4]) - 0.1


COSTS = {
    "tests/unit/vfl/data/test_a.py::test_one": Cost(1.0, 0.5, 0.5),
    "tests/unit/vfl/test_b.py::test_two[x/y]": Cost(2.0, 9.0, 9.0),
    "tests/unit/test_c.py::test_three": Cost(4.0, 9.0, 9.0, is_slow=True),
    "tests/fault/test_d.py::test_four": Cost(8.0, 9.5, 9.0),
    "tests/unit/vfl/test_b.py::test_five": Cost(0.1, 9.0, MOST_SECONDS),
}


def test_the_slowest_stand_first_and_folders_are_summed() -> None:
    lines = list(cost_tables(COSTS))
    assert lines[1].split() == ["8.0", "9.5", "tests/fault/test_d.py::test_four"]
    assert [line.split() for line in lines[-4:]] == [
        ["5", "15.1", "37.0", "all"],
        ["1", "8.0", "9.5", "tests/fault"],
        ["1", "4.0", "9.0", "tests/unit"],
        ["3", "3.1", "18.5", "tests/unit/vfl"],
    ]
    assert folder_of("tests/unit/vfl/data/test_a.py::test_one") == "tests/unit/vfl"


def test_a_unit_test_that_takes_long_says_why() -> None:
    assert long_ones(COSTS) == ["tests/unit/vfl/test_b.py::test_two[x/y]"]
