"""Make docs/benchmarks.md from the results: `python -m benchmarks.page`; `--check` says whether it is stale."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.targets import Results, targets
from studies.speed.result import Result, read_result
from studies.speed.result_table import markdown, number_words

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "benchmarks.md"
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


def main() -> None:
    """Write the page, or say whether it is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 where the page is stale")
    page = page_of(read_results())
    if parser.parse_args().check:
        sys.exit(
            0 if PAGE.read_text() == page else f"{PAGE.relative_to(ROOT)} is stale: run `python -m benchmarks.page`."
        )
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
