"""Make docs/benchmarks.md from the results, beside what was asked of speed: `make benchmarks`.

    python -m studies.speed.page [--measure [SUBJECT ...]]

All subjects take about ten minutes on two quiet cores. Each is a process of its own.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from studies.speed.result import Cell, Result, Row, markdown, middle, number_words, read_result
from vfl.cores import available_cores

Results = Mapping[str, Result]


@dataclass(frozen=True)
class Target:
    """One number that was asked for.

    Attributes:
        words: what of.
        least: the smallest that will do; None where only ``most`` counts.
        most: the largest that will do; None where only ``least`` counts.
        found: what the results have; None where they don't have it.
    """

    words: str
    least: float | None
    most: float | None
    found: float | None

    @property
    def asked(self) -> str:
        """What will do, in words."""
        return f"≥ {self.least:,g}" if self.least is not None else f"≤ {self.most:,g}"

    def holds(self, value: float) -> bool:
        """Whether a value will do."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


def rows_of(results: Results, subject: str, table: str, **wanted: Cell) -> list[Row]:
    """The rows of a subject's table that have these cells; none where it wasn't measured."""
    found = results[subject].table(table) if subject in results else None
    rows = () if found is None else found.rows
    return [row for row in rows if all(row.get(key) == cell for key, cell in wanted.items())]


def number(rows: Sequence[Row], key: str) -> float | None:
    """A number of the first row, the median of a repeated one; None without."""
    return middle(rows[0].get(key)) if rows else None


def most(rows: Sequence[Row], key: str) -> float | None:
    """The largest number of all rows; None without."""
    return max((value for row in rows if (value := middle(row[key])) is not None), default=None)


def total(rows: Sequence[Row], *keys: str) -> float | None:
    """The sum of several numbers of the first row; None where one is missing."""
    values = [value for key in keys if (value := number(rows, key)) is not None]
    return sum(values) if len(values) == len(keys) else None


def ratio(above: float | None, below: float | None) -> float | None:
    """One number by another; None where either is missing."""
    return None if above is None or below is None or not below else above / below


def _native(results: Results, table: str) -> list[Row]:
    """The quickest of the native kernel's rows."""
    rows = [row for row in rows_of(results, "he", table) if "native" in str(row["variant"])]
    return sorted(rows, key=lambda row: middle(row["total"]) or 0.0)[:1]


def _portable(results: Results, table: str, key: str) -> float | None:
    return number(rows_of(results, "he", table, variant="ours, portable"), key)


def _two_workers(results: Results, kernel: str) -> list[Row]:
    return [row for row in rows_of(results, "he", "workers", workers=2) if str(row["kernel"]).startswith(kernel)]


def targets(results: Results) -> list[Target]:
    """Everything that was asked for of a machine like the results'; native speeds where it has the instructions."""
    steps = rows_of(results, "federation", "steps")
    one_hot = {str(row["variant"]): row for row in steps if str(row["federation"]).startswith("one-hot")}
    narrow, full = ([one_hot[name]] if name in one_hot else [] for name in ("portable", "portable, all columns full"))
    alone = rows_of(results, "predict", "alone")
    asked = [
        Target(
            "256 rows x 100 one-hot columns: times as fast as dense ones (product, portable)",
            5,
            None,
            ratio(_portable(results, "dense 100", "product"), _portable(results, "one-hot 100", "product")),
        ),
        Target(
            "one-hot tables: a step, times as fast as with all columns full (portable)",
            3,
            None,
            ratio(number(full, "step"), number(narrow, "step")),
        ),
    ]
    for columns, least in ((392, 14), (12, 25)):
        found = _portable(results, f"dense {columns}", "times")
        asked.append(Target(f"{columns} dense columns: times phe (portable)", least, None, found))
    for columns in (392, 12) if "he" in results and "avx512ifma" in results["he"].machine.flags else ():
        native = _native(results, f"dense {columns}")
        asked += [
            Target(f"{columns} dense columns: times phe (native)", 100, None, number(native, "times")),
            Target(f"{columns} dense columns: product by its limit (native)", None, 1.3, number(native, "beyond")),
        ]
    for kernel, gain in (("portable", 1.6), ("native", 1.8)):
        found = number(_two_workers(results, kernel), "product_gain")
        asked.append(Target(f"2 workers: times as fast as one ({kernel})", gain, None, found))
    for columns in (12, 100) if "shared" in results and "avx512ifma" in results["shared"].machine.flags else ():
        rows = [
            row
            for row in rows_of(results, "shared", str(columns), protocol="shared")
            if "8 lanes" in str(row["kernel"])
        ]
        asked += [
            Target(f"{columns} columns on shared weights: {words} (native)", None, limit, number(rows, key))
            for words, limit, key in (
                ("a step by Protocol 1's", 1.5, "times"),
                ("its bytes by Protocol 1's", 0.35, "bytes_times"),
                ("once, ms a row", 1.2, "begin"),
                ("once, kB a row", 6.5, "begin_bytes"),
            )
        ]
    for columns, rung, limit in ((12, "paillier", 1.5), (12, "shared", 8), (100, "paillier", 2), (100, "shared", 4.5)):
        found = most(rows_of(results, "network", str(columns), trained=rung), "times")
        words = f"{columns} columns, a network of 16 units, {rung}: a step by Protocol 1's, any kernel"
        asked.append(Target(words, None, limit, found))
    limits = {"portable": 35}
    if "trees" in results and "avx512ifma" in results["trees"].machine.flags:
        limits = {"native, 8 lanes of AVX512-IFMA": 5, **limits}
    for kernel, limit in limits.items():
        rows = rows_of(results, "trees", "tree", variant=f"encrypted, {kernel}")
        words = f"a tree of 41,188 rows x 10 columns ({kernel.partition(',')[0]})"
        asked += [
            Target(f"{words}: s of CPU", None, limit, number(rows, "total")),
            Target(f"{words}: by its limit", None, 1.3, number(rows, "beyond")),
            Target(f"{words}: MB both ways", None, 25, total(rows, "sent", "answered")),
        ]
    tree_growth = most(rows_of(results, "trees", "scaling"), "growth")
    asked.append(Target("a tree, 16 times the rows or columns: times the cost, at most", None, 17.6, tree_growth))
    growth = most(rows_of(results, "he", "scaling"), "growth")
    gained = number(rows_of(results, "psi", "workers", workers=2), "gain")
    memory = {ids: most(rows_of(results, "psi", "whole", ids=ids), "memory") for ids in (300_000, 1_000_000)}
    sent = ratio(number(narrow, "from_passive"), number(full, "from_passive"))
    return [
        *asked,
        Target("16 times the rows, columns or digits: times the cost, at most", None, 17.6, growth),
        Target("alignment, 2 workers: times as fast as one", 1.7, None, gained),
        Target("300,000 ids: MB of a party, at most", None, 400, memory[300_000]),
        Target("1,000,000 ids: MB of a party", None, 4_000, memory[1_000_000]),
        Target("a federation's step by its own cryptography's CPU", None, 1.3, most(steps, "ratio")),
        Target("one-hot tables: bytes of a step by those with all columns full", None, 1, sent),
        Target("records a second in bulk", 100_000, None, number(rows_of(results, "predict", "bulk"), "rate")),
        *(
            Target(f"one record at 500 requests a second: {words}", least, limit, number(alone, key))
            for words, least, limit, key in (
                ("answered a second", 450, None, "served"),
                ("p50, ms", None, 50, "p50"),
                ("p99 by p50", None, 3, "ratio"),
                ("CPU of the three services, ms a record", None, 2.5, "cpu"),
            )
        ),
    ]


_ROOT = Path(__file__).parents[2]
RESULTS, PAGE = _ROOT / "studies" / "results", _ROOT / "docs" / "benchmarks.md"
# What is measured beyond each subject's defaults.
_OPTIONS = {
    "he": ("--scaling", "--workers", str(available_cores())),
    "shared": (),
    "network": (),
    "trees": ("--scaling",),
    "psi": ("--whole", "300000", "--whole", "1000000", "--workers", str(available_cores())),
    "federation": (),
    "predict": (),
    "attacks": ("--repetitions", "2"),
}
_TITLES = {
    "he": "The encrypted exchange",
    "shared": "Training on shared weights",
    "network": "Training a network",
    "trees": "Boosted trees",
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
        value = target.found
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
