"""What was skipped since torch isn't here, and the line that brings it."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

_BRINGS_TORCH = "-m pip install --extra-index-url https://download.pytorch.org/whl/cpu --editable '.[lab]'"
_NEED_TORCH = ("'torch'", "'opacus'")


def skipped_without_torch(skipped: Sequence[pytest.TestReport | pytest.CollectReport]) -> Iterator[str]:
    """Say which tests were skipped for want of torch, by file and number, and what to do; nothing where none was."""
    counts = Counter[str]()
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        if any(name in reason for name in _NEED_TORCH):
            file, _, test = report.nodeid.partition("::")
            counts[file] += 1 if test else _tests_in(Path(file))
    if counts:
        yield f"{counts.total()} tests in {len(counts)} files were skipped, since torch isn't here. To bring it:"
        yield f"    {sys.executable} {_BRINGS_TORCH}"
        yield from (f"{count:6}  {file}" for file, count in sorted(counts.items()))


def _tests_in(file: Path) -> int:
    """Count the test functions of a file that was skipped as a whole; one with parameters counts once."""
    return sum(line.lstrip().startswith("def test_") for line in file.read_text().splitlines())
