"""What a run without torch says at its end."""

from pathlib import Path

import pytest

from tests.harness.skips import skipped_without_torch

FILE = Path(__file__).relative_to(Path(__file__).parents[4]).as_posix()


def skipped(nodeid: str, reason: str) -> pytest.CollectReport:
    return pytest.CollectReport(nodeid, "skipped", (FILE, 1, reason), [])


def test_the_tests_are_named_and_counted_with_the_line_that_brings_torch() -> None:
    need = "Skipped: could not import 'torch': No module named 'torch'"
    others = skipped("tests/unit/x.py::test_c", "Skipped: no Docker engine answers")
    reports = [skipped(f"{FILE}::test_a", need), skipped(f"{FILE}::test_b", need), others]
    first, line, *files = skipped_without_torch(reports)
    assert first == "2 tests in 1 files were skipped, since torch isn't here. To bring it:"
    assert "pip install --extra-index-url https://download.pytorch.org/whl/cpu" in line
    assert [one.split() for one in files] == [["2", FILE]]


def test_a_file_that_is_skipped_as_a_whole_counts_all_its_tests() -> None:
    need = "Skipped: could not import 'opacus': No module named 'opacus'"
    assert [one.split() for one in list(skipped_without_torch([skipped(FILE, need)]))[2:]] == [["3", FILE]]


def test_nothing_is_said_where_nothing_is_missing() -> None:
    assert list(skipped_without_torch([])) == []
