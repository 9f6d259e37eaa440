"""Make docs/benchmarks.md from the results, measured before if so asked: `make benchmarks`.

    python -m studies.speed.page [--measure [SUBJECT ...]]

All subjects take about ten minutes on two quiet cores. Each is a process of its own.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from studies.speed.result import Result, read_result
from studies.speed.result_table import markdown, number_words
from studies.speed.targets import Results, targets
from vfl.cores import available_cores

_ROOT = Path(__file__).parents[2]
RESULTS, PAGE = _ROOT / "studies" / "results", _ROOT / "docs" / "benchmarks.md"
# What is measured beyond each subject's defaults.
_OPTIONS = {
    "he": ("--scaling", "--workers", str(available_cores())),
    "psi": ("--whole", "300000", "--whole", "1000000", "--workers", str(available_cores())),
    "federation": (),
    "predict": (),
    "attacks": ("--repetitions", "2"),
}
_TITLES = {
    "he": "The encrypted exchange",
    "psi": "Alignment",
    "federation": "A step of a federation",
    "predict": "Predictions",
    "attacks": "Attacks, and judging them",
}
_INTRODUCTION = """# Benchmarks

Times vary with the machine and its neighbours: compare figures of one table only, whose rows were measured in turns in
one run. A cell is a median, with the smallest and the largest in brackets. Every result was compared with the exact one
in the same run; a variant that computes something else stops it.

`make benchmarks` measures all of it again and makes this page from what it found. No figure below was typed."""
_HOLDS = {True: "yes", False: "**no**"}


def read_results(folder: Path = RESULTS) -> Results:
    """Read the results of every subject that was measured."""
    found = {name: folder / f"{name}.json" for name in _TITLES}
    return {name: read_result(path) for name, path in found.items() if path.exists()}


def page_of(results: Results) -> str:
    """Write the page."""
    sections = ["\n".join(_targets(results)), *("\n".join(_section(result)) for result in results.values())]
    return "\n\n".join([_INTRODUCTION, *sections]) + "\n"


def _targets(results: Results) -> Iterator[str]:
    yield "## What was asked for\n"
    yield "| | asked | found | holds |"
    yield "|---|---:|---:|---|"
    for target in targets(results):
        value = target.found(results)
        shown = "not measured" if value is None else number_words(value)
        yield f"| {target.words} | {target.asked} | {shown} | {'' if value is None else _HOLDS[target.holds(value)]} |"


def _section(result: Result) -> Iterator[str]:
    yield f"## {_TITLES[result.subject]}\n"
    yield f"`{result.command}`"
    for table in result.tables:
        yield f"\n### {table.title}\n"
        yield from markdown(table)
        yield from (f"\n{note}" for note in table.notes)
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    yield f"\nMachine: {result.machine.words}. Kernels: {', '.join(result.machine.kernels) or 'none'}."
    yield f"Versions: {versions}."


def _measure(subject: str) -> None:
    command = [sys.executable, "-m", "plumbline", "bench", subject, *_OPTIONS[subject], "--out", str(RESULTS)]
    subprocess.run(command, check=True)  # noqa: S603


def main() -> None:
    """Measure what is asked for, one subject after the other, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", nargs="*", choices=_OPTIONS, metavar="SUBJECT", help="none named: all of them")
    subjects = parser.parse_args().measure
    for subject in _OPTIONS if subjects == [] else subjects or ():
        _measure(subject)
    PAGE.write_text(page_of(read_results()))


if __name__ == "__main__":
    main()
