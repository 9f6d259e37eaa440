"""Make docs/benchmarks.md from the results, beside what was asked of speed: `make benchmarks`.

    python -m studies.speed.page [--measure [SUBJECT ...]]

All subjects take about ten minutes on two quiet cores. Each is a process of its own.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from studies.speed.result import Cell, Result, ResultTable, Row, markdown, middle, number_words, read_result
from vfl.cores import available_cores

Results = Mapping[str, Result]


@dataclass(frozen=True)
class Target:
    """One number that was asked for.

    Attributes:
        words: what of.
        least: the smallest that will do; None where only ``most`` counts.
        most: the largest that will do; None where only ``least`` counts.
        found: reads it off the results; None where they don't have it.
    """

    words: str
    least: float | None
    most: float | None
    found: Callable[[Results], float | None]

    @property
    def asked(self) -> str:
        """What will do, in words."""
        return f"≥ {self.least:,g}" if self.least is not None else f"≤ {self.most:,g}"

    def holds(self, value: float) -> bool:
        """Whether a value will do."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


def row_of(results: Results, subject: str, table: str, **wanted: Cell) -> Row | None:
    """One row of a subject's table; None where it wasn't measured."""
    found = table_of(results, subject, table)
    return None if found is None else found.row(**wanted)


def table_of(results: Results, subject: str, table: str) -> ResultTable | None:
    """One table of a subject; None where it wasn't measured."""
    result = results.get(subject)
    return None if result is None else result.table(table)


def number(row: Row | None, key: str) -> float | None:
    """A row's number, the median of a repeated one; None without."""
    return None if row is None else middle(row.get(key))


def ratio(above: float | None, below: float | None) -> float | None:
    """One number by another; None where either is missing."""
    return None if above is None or below is None or not below else above / below


def _native(results: Results, table: str) -> Row | None:
    """The quickest of the native kernel's rows."""
    found = table_of(results, "he", table)
    rows = [] if found is None else [row for row in found.rows if "native" in str(row["variant"])]
    return min(rows, key=lambda row: middle(row["total"]) or 0.0, default=None)


def _has_ifma(results: Results) -> bool:
    return "he" in results and "avx512ifma" in results["he"].machine.flags


def _portable(results: Results, table: str) -> Row | None:
    return row_of(results, "he", table, variant="ours, portable")


def _growth(results: Results) -> float | None:
    """The most that 16 times the rows, columns or digits cost, as times the first."""
    found = table_of(results, "he", "scaling")
    return None if found is None else max(middle(row["growth"]) or 0.0 for row in found.rows)


def _worst_step(results: Results, key: str) -> float | None:
    found = table_of(results, "federation", "steps")
    return None if found is None else max(middle(row[key]) or 0.0 for row in found.rows)


def _one_hot_steps(results: Results) -> Iterator[Row]:
    found = table_of(results, "federation", "steps")
    yield from (row for row in (() if found is None else found.rows) if str(row["federation"]).startswith("one-hot"))


def _gain_of_widths(results: Results) -> float | None:
    steps = {str(row["variant"]): middle(row["step"]) for row in _one_hot_steps(results)}
    return ratio(steps.get("portable, all columns full"), steps.get("portable"))


def _bytes_of_widths(results: Results) -> float | None:
    sent = {str(row["variant"]): middle(row["from_passive"]) for row in _one_hot_steps(results)}
    return ratio(sent.get("portable"), sent.get("portable, all columns full"))


def _alignment(results: Results, ids: int, key: str) -> float | None:
    found = table_of(results, "psi", "whole")
    values = [middle(row[key]) for row in (() if found is None else found.rows) if row["ids"] == ids]
    return max((value for value in values if value is not None), default=None)


def targets(results: Results) -> list[Target]:
    """Everything that was asked for of a machine like the results'; native speeds where it has the instructions."""
    return [
        Target(
            "256 rows x 100 one-hot columns: times as fast as dense ones (product, portable)",
            5,
            None,
            lambda all_: ratio(
                number(_portable(all_, "dense 100"), "product"), number(_portable(all_, "one-hot 100"), "product")
            ),
        ),
        Target("one-hot tables: a step, times as fast as with all columns full (portable)", 3, None, _gain_of_widths),
        *(
            Target(
                f"{columns} dense columns: times phe (portable)",
                least,
                None,
                lambda all_, columns=columns: number(_portable(all_, f"dense {columns}"), "times"),  # type: ignore[misc]
            )
            for columns, least in ((392, 14), (12, 25))
        ),
        *(_native_targets() if _has_ifma(results) else []),
        *_worker_targets(),
        Target("16 times the rows, columns or digits: times the cost, at most", None, 17.6, _growth),
        Target("alignment, 2 workers: times as fast as one", 1.7, None, _alignment_gain),
        Target("300,000 ids: MB of a party, at most", None, 400, lambda all_: _alignment(all_, 300_000, "memory")),
        Target("1,000,000 ids: MB of a party", None, 4_000, lambda all_: _alignment(all_, 1_000_000, "memory")),
        Target("a federation's step by its own cryptography's CPU", None, 1.3, lambda all_: _worst_step(all_, "ratio")),
        Target("one-hot tables: bytes of a step by those with all columns full", None, 1, _bytes_of_widths),
        Target(
            "records a second in bulk",
            100_000,
            None,
            lambda all_: number(_first(table_of(all_, "predict", "bulk")), "rate"),
        ),
        *(
            Target(
                f"one record at 500 requests a second: {words}",
                least,
                most,
                lambda all_, key=key: number(_first(table_of(all_, "predict", "alone")), key),  # type: ignore[misc]
            )
            for words, least, most, key in (
                ("answered a second", 450, None, "served"),
                ("p50, ms", None, 50, "p50"),
                ("p99 by p50", None, 3, "ratio"),
                ("CPU of the three services, ms a record", None, 2.5, "cpu"),
            )
        ),
    ]


def _native_targets() -> list[Target]:
    return [
        Target(
            f"{columns} dense columns: {words} (native)",
            least,
            most,
            lambda all_, columns=columns, key=key: number(_native(all_, f"dense {columns}"), key),  # type: ignore[misc]
        )
        for columns in (392, 12)
        for words, least, most, key in (
            ("times phe", 100, None, "times"),
            ("product by its limit", None, 1.3, "beyond"),
        )
    ]


def _worker_targets() -> list[Target]:
    return [
        Target(
            f"2 workers: times as fast as one ({kernel})",
            least,
            None,
            lambda all_, kernel=kernel: number(_two_workers(all_, kernel), "product_gain"),  # type: ignore[misc]
        )
        for kernel, least in (("portable", 1.6), ("native", 1.8))
    ]


def _two_workers(results: Results, kernel: str) -> Row | None:
    found = table_of(results, "he", "workers")
    rows = () if found is None else found.rows
    return next((row for row in rows if str(row["kernel"]).startswith(kernel) and row["workers"] == 2), None)


def _alignment_gain(results: Results) -> float | None:
    return number(row_of(results, "psi", "workers", workers=2), "gain")


def _first(table: ResultTable | None) -> Row | None:
    return None if table is None else table.rows[0]


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
