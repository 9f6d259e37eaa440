"""Mutation testing: small faults are put into the code, one at a time, and the tests that run its line should fail.

    python -m scripts.mutants --count 400 --seed 1
    python -m scripts.mutants --count 60 --seed 1 --tiers

The sample is drawn from all faults that ``faults_of`` knows, by its seed. First all tests run once in a copy of this
checkout, and each line of the code in question learns its tests (lines that run at import have those of their file).
Then each fault is written into the copy and its tests run, the quickest first. A fault that no test fails on survives;
one whose tests never end is not counted as killed, and neither is one that changes nothing. Survivors stand with their
reasons in ``scripts/survivors.toml``. Fails under 85 % killed.

With ``--tiers`` the tests are those of `make test` and `make check`: it says how many faults the first kills alone,
which only the second, and fails where `make test` alone kills under 80 %. What processes run is no line of the test
that starts them: where no other test of `make test` kills a fault, those of whole federations run as well.
"""

import argparse
import ast
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
TARGETS = (
    "vfl/crypto",
    "services/exchange",
    "services/ciphers",
    "services/protocols",
    "plumbline/judge/federation_part.py",
    "defences/dp_noise.py",
    "services/adversary",
)
SURVIVORS = ROOT / "scripts" / "survivors.toml"
LEAST_KILLED, LEAST_BY_EVERYDAY = 0.85, 0.8
_MAKEFILE = (ROOT / "Makefile").read_text()
# Tests of `make test`, and what tests of both commands are marked as.
EVERYDAY = tuple(re.findall(r"^TESTS := (.*)$", _MAKEFILE, re.MULTILINE)[0].split())
_MARKS = re.findall(r'^EVERYDAY := -m "(.*)"$', _MAKEFILE, re.MULTILINE)[0]
# Federations of processes, whose lines no map has.
BY_CHECK = "killed by make check only"
_WHOLE = "tests/integration/test_whole_life.py"
# Of the recorded seconds of a line's tests: the quickest that fit are run.
_MOST_SECONDS = 120.0
# A function that a test calls more often than this is no longer watched in that test.
_MOST_CALLS = 200
_NOT_COPIED = (".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "build", "dist", "runs")

_COMPARED: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
}
_COMPUTED: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Add(),
    ast.Div: ast.Mult(),
    ast.FloorDiv: ast.Mult(),
    ast.Mod: ast.FloorDiv(),
    ast.Pow: ast.Mult(),
    ast.LShift: ast.RShift(),
    ast.RShift: ast.LShift(),
    ast.BitAnd: ast.BitOr(),
    ast.BitOr: ast.BitAnd(),
    ast.BitXor: ast.BitAnd(),
    ast.MatMult: ast.Add(),
}


@dataclass(frozen=True, order=True)
class Fault:
    """One change of one expression or statement.

    Attributes:
        file: the code's, relative to the checkout.
        line: its first, from 1.
        start: of the text that is replaced, as an offset in the file.
        end: where that text ends.
        text: what stands there instead.
        was: what stood there.
        whole: the first line, with what stands around it.
    """

    file: str
    line: int
    start: int
    end: int
    text: str
    was: str
    whole: str

    @property
    def title(self) -> str:
        """What it is called in lists: it stays the same when lines are added above."""
        was = " ".join(self.was.split())
        return f"{self.file}: {self.whole}: {'' if was == self.whole else was + ' '}-> {' '.join(self.text.split())}"


def faults_of(file: str, source: str) -> list[Fault]:
    """Every fault that one file can have, in the order of its text."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]

    def fault(node: ast.expr | ast.stmt, text: str) -> Fault:
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        was = source.encode()[start:end].decode()
        return Fault(file, node.lineno, start, end, text, was, lines[node.lineno - 1].decode().strip())

    return sorted({fault(node, text) for node, text in _changes(ast.parse(source))})


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Nodes with the text that may stand in their place. Words for people, annotations and logs are left alone."""
    if isinstance(node, ast.JoinedStr | ast.Raise) or _is_log(node):
        if isinstance(node, ast.Raise):
            yield node, "pass"
        return
    if isinstance(node, ast.expr):
        yield from ((node, f"({text})") for text in _of_expression(node))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield node, "pass"
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield node, "return None"
    elif isinstance(node, ast.If | ast.While):
        yield node.test, f"(not ({ast.unparse(node.test)}))"
    left_out = {"annotation", "returns", "decorator_list", "type_params"}
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in left_out:
                yield from _changes(child)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_log(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith("_log.")


def _of_expression(node: ast.expr) -> Iterator[str]:
    """What may stand in an expression's place."""
    match node:
        case ast.Compare(left, [operator, *more], values) if type(operator) in _COMPARED:
            yield ast.unparse(ast.Compare(left, [_COMPARED[type(operator)], *more], values))
        case ast.BinOp(left, operator, right) if type(operator) in _COMPUTED:
            words = [one for one in (left, right) if isinstance(one, ast.JoinedStr | ast.Constant)]
            types = ast.BitOr, ast.Mod  # of annotations, and of texts
            if not any(
                isinstance(getattr(one, "value", ""), str | None) and isinstance(operator, types) for one in words
            ):
                yield ast.unparse(ast.BinOp(left, _COMPUTED[type(operator)], right))
        case ast.BoolOp(operator, values):
            yield ast.unparse(ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values))
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield ast.unparse(operand)
        case ast.IfExp(test, body, orelse):
            yield ast.unparse(ast.IfExp(test, orelse, body))
        case ast.Constant(bool(value)):
            yield str(not value)
        case ast.Constant(int(value)):
            yield str(value + 1)
        case ast.Constant(float(value)):
            yield str(2 * value + 1)


class Lines:
    """A plugin of pytest, in the copy: which lines of the targets each test runs, or only the tests of one fault.

    ``MUTANTS_FILE`` names a file: of the tests to run, or, where there is none yet, of what is found.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._chosen: list[str] | None = json.loads(file.read_text()) if file.exists() else None
        self._seen: set[tuple[CodeType, int]] = set()
        self._calls = Counter[CodeType]()
        self._tests: dict[str, list[str]] = {}
        self._seconds = defaultdict[str, float](float)
        self._failed: set[str] = set()
        self._prefixes = tuple(f"{Path.cwd()}/{target}" for target in TARGETS)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Only the tests of a fault, in their order."""
        if self._chosen is not None:
            rank = {name: number for number, name in enumerate(self._chosen)}
            items[:] = sorted((one for one in items if one.nodeid in rank), key=lambda one: rank[one.nodeid])

    def pytest_runtest_logstart(self) -> None:
        """A test begins: its threads' lines count too."""
        if self._chosen is None:
            self._seen.clear()
            self._calls.clear()
            threading.settrace(self._of_call)
            sys.settrace(self._of_call)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What ran in a fixture's set-up counts for all tests of the file: they may share it."""
        if self._chosen is not None:
            return
        name = report.nodeid.partition("::")[0] if report.when == "setup" else report.nodeid
        for code, line in self._seen:
            file = code.co_filename.removeprefix(f"{Path.cwd()}/")
            self._tests.setdefault(f"{file}:{line}", []).append(name)
        self._seen.clear()
        self._seconds[report.nodeid] += report.duration
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write what was found of the tests that pass."""
        sys.settrace(None)
        if self._chosen is None:
            kept = {name: seconds for name, seconds in self._seconds.items() if name not in self._failed}
            self._file.write_text(json.dumps({"seconds": kept, "tests": self._tests}))

    def _of_call(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(self._prefixes) or self._calls[code] >= _MOST_CALLS:
            return None
        self._calls[code] += 1
        return self._of_line

    def _of_line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self._seen.add((frame.f_code, frame.f_lineno))
        return self._of_line


def pytest_configure(config: pytest.Config) -> None:
    """Called by pytest, in the copy."""
    config.pluginmanager.register(Lines(Path(os.environ["MUTANTS_FILE"])))


def is_everyday(name: str) -> bool:
    """Whether the test of this id is one of `make test`."""
    return name.startswith(EVERYDAY)


@dataclass(frozen=True)
class Bench:
    """A copy of this checkout in which faults are tried.

    Attributes:
        path: of the copy.
        seconds: of each test that passes.
        tests: ids of tests, or of their files, by "file:line".
    """

    path: Path
    seconds: Mapping[str, float]
    tests: Mapping[str, Sequence[str]]

    def tests_of(self, fault: Fault, is_meant: Callable[[str], bool] = bool) -> list[str]:
        """The tests that run a fault's line, the quickest first; of a line that only an import runs, its file's.

        ``is_meant`` says of a test's id whether it may be among them; all may.
        """
        found = set(self.tests.get(f"{fault.file}:{fault.line}", ()))
        if not found:
            found = {name for line, names in self.tests.items() if line.startswith(f"{fault.file}:") for name in names}
        chosen = [
            name for name in self.seconds if (name in found or name.partition("::")[0] in found) and is_meant(name)
        ]
        quickest, total = list[str](), 0.0
        for name in sorted(chosen, key=self.seconds.__getitem__):
            total += self.seconds[name]
            if quickest and total > _MOST_SECONDS:
                break
            quickest.append(name)
        return quickest

    def tried_by_tiers(self, fault: Fault) -> str:
        """What becomes of a fault under `make test`, and where that doesn't kill it, under `make check`."""
        tiers: tuple[tuple[str, list[str]], ...] = (
            ("killed", self.tests_of(fault, is_everyday)),
            ("killed", [name for name in self.seconds if name.startswith(_WHOLE)]),
            (BY_CHECK, self.tests_of(fault, lambda name: not is_everyday(name))),
        )
        ends = list[str]()
        for killed, tests in tiers:
            if (end := self.tried(fault, tests)) == "killed":
                return killed
            ends.append(end)
        return next((end for end in ("timeout", "survived") if end in ends), "uncovered")

    def tried(self, fault: Fault, tests: Sequence[str]) -> str:
        """What becomes of a fault under these tests: killed, survived, timeout or, where there are none, uncovered."""
        if not tests:
            return "uncovered"
        file = self.path / fault.file
        source = file.read_bytes()
        file.write_bytes(source[: fault.start] + fault.text.encode() + source[fault.end :])
        try:
            with tempfile.NamedTemporaryFile("w", suffix=".json") as chosen:
                chosen.write(json.dumps(tests))
                chosen.flush()
                files = sorted({name.partition("::")[0] for name in tests})
                limit = 120 + 10 * sum(self.seconds[name] for name in tests)
                code = _pytest(self.path, Path(chosen.name), files, limit)
        finally:
            file.write_bytes(source)
        return {0: "survived", None: "timeout"}.get(code, "killed")


def _pytest(folder: Path, file: Path, tests: Sequence[str], limit: float | None) -> int | None:
    """Run tests in the copy; returns pytest's status, None where it took too long. Its children go with it."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "MUTANTS_FILE": str(file), "OMP_NUM_THREADS": "1"}
    options = ["-q", "-p", "scripts.mutants", "-p", "no:cacheprovider", "-o", "timeout=0", "-m", _MARKS]
    if limit is not None:
        options.append("-x")
    process = subprocess.Popen(
        [sys.executable, "-B", "-m", "pytest", *options, *tests],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return None


def bench_at(folder: Path, tests: Sequence[str], kept: Path) -> Bench:
    """Copy this checkout and learn which tests run which line, unless that is kept of the same files."""
    copy = Path(shutil.copytree(ROOT, folder / "copy", ignore=shutil.ignore_patterns(*_NOT_COPIED)))
    digest = hashlib.sha256(repr(tests).encode())
    for file in sorted(copy.rglob("*.py")):
        digest.update(file.read_bytes())
    found = kept / f"{digest.hexdigest()[:16]}.json"
    if not found.exists():
        kept.mkdir(parents=True, exist_ok=True)
        if _pytest(copy, found, tests, None) not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            found.unlink(missing_ok=True)
            sys.exit(f"The tests could not be collected in a copy of this checkout: run pytest on {' '.join(tests)}.")
    return Bench(copy, **json.loads(found.read_text()))


def sample(count: int, seed: int, targets: Sequence[str] = TARGETS) -> list[Fault]:
    """Draw faults of the targets, none twice."""
    files = [file for target in targets for file in sorted((ROOT / target).rglob("*.py")) or [ROOT / target]]
    faults = [fault for file in files for fault in faults_of(str(file.relative_to(ROOT)), file.read_text())]
    return random.Random(seed).sample(faults, min(count, len(faults)))  # noqa: S311 - repeats


def main() -> int:
    """Print what became of each fault; 1 where too few were killed, or a survivor has no reason yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400, metavar="N", help="how many faults; 400")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the sample; 1")
    parser.add_argument("--tests", nargs="+", default=["tests/unit"], metavar="PATH", help="tests/unit")
    parser.add_argument("--tiers", action="store_true", help="of all tests, and say which command kills")
    parser.add_argument("--only", nargs="+", default=TARGETS, metavar="PATH", help="of the code; all that is tried")
    arguments = parser.parse_args()
    os.nice(15)
    reasons: dict[str, str] = tomllib.loads(SURVIVORS.read_text())
    results = Counter[str]()
    untold = 0
    with tempfile.TemporaryDirectory(prefix="plumbline-mutants-") as scratch:
        tests = ["tests"] if arguments.tiers else arguments.tests
        bench = bench_at(Path(scratch), tests, ROOT / "build" / "mutants")
        for fault in sample(arguments.count, arguments.seed, arguments.only):
            result = bench.tried_by_tiers(fault) if arguments.tiers else bench.tried(fault, bench.tests_of(fault))
            results[result] += 1
            if result == BY_CHECK:
                print(f"{result}, line {fault.line} of {fault.title}", flush=True)
            elif result != "killed":
                untold += fault.title not in reasons
                print(
                    f"{result}, line {fault.line} of {fault.title} ({reasons.get(fault.title, 'no reason yet')})",
                    flush=True,
                )
    alone = results["killed"] / max(1, results.total())
    share = alone + results[BY_CHECK] / max(1, results.total())
    print(f"{share:.1%} of {results.total()} killed: {dict(results)}; {untold} of the others have no reason yet.")
    if arguments.tiers:
        print(f"{alone:.1%} are killed by make test alone.")
    return int(share < LEAST_KILLED or alone < LEAST_BY_EVERYDAY or untold > 0)


if __name__ == "__main__":
    sys.exit(main())
