"""Where Plumbline installs and runs: wheels for every platform; audit and unit tests on every Python of this machine.

    python -m scripts.platforms

Nothing is built but Plumbline's own wheel, and no interpreter is downloaded. torch is resolved and never installed: its
general builds for Linux bring gigabytes of CUDA.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# As uv names them. 2.28 is the glibc of the oldest Linux that torch has wheels for.
PLATFORMS = {
    "Linux x86-64": "x86_64-manylinux_2_28",
    "Linux arm64": "aarch64-manylinux_2_28",
    "macOS arm64": "aarch64-apple-darwin",
}
# The oldest macOS that torch has wheels for.
MACOS = "14.0"
# What another Python can break: TLS and certificates, files, native wheels. All the rest is the same code everywhere.
UNIT_TESTS = (
    "tests/unit/services/common",
    "tests/unit/services/network",
    "tests/unit/vfl/crypto",
    "tests/unit/vfl/data",
)
# What old libraries can break; those that need torch are skipped. Of the Bayesian attacks, those on learned models.
OLDEST_TESTS = (
    "tests/unit/services/common",
    "tests/unit/services/coordinator",
    "tests/unit/services/network",
    "tests/unit/services/watching",
    "tests/unit/vfl/crypto",
    "tests/unit/vfl/data",
    "tests/unit/vfl/learning",
    "tests/unit/vfl/theory",
    "tests/unit/attacks",
    "--ignore-glob=*/attacks/bayes/test_[!l]*",
    "tests/unit/defences",
)
_UV = (sys.executable, "-m", "uv")
_SHOWN_LINES = 40
# Several at once start so slowly on few cores that their parties give up on each other.
_ONE_AUDIT = threading.Lock()


class CheckFailed(Exception):
    """What failed, in a sentence; ``output`` is the end of what the command printed."""

    def __init__(self, words: str, output: str = "") -> None:
        super().__init__(words)
        self.output = output


class CheckSkipped(Exception):
    """Why this machine can't do a check."""


@dataclass(frozen=True)
class Check:
    """A row of the table.

    Attributes:
        target: where something is checked.
        subject: what is checked there.
        run: checks it; raises CheckFailed or CheckSkipped.
    """

    target: str
    subject: str
    run: Callable[[], None]


def main() -> int:
    """Print the table; 1 when a check failed."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory(prefix="plumbline-") as folder:
        _run("building the wheel", *_UV, "build", "--quiet", "--wheel", "--out-dir", folder, "--python", sys.executable)
        (wheel,) = Path(folder).glob("*.whl")
        return 1 if report(list(checks(wheel))) else 0


def checks(wheel: Path) -> Iterator[Check]:
    """Every check, the quick ones first; ``wheel`` is Plumbline's own."""
    for python in PYTHONS:
        for name, platform in PLATFORMS.items():
            yield Check(f"Python {python}, {name}", "wheels", partial(resolve_wheels, python, platform))
    oldest, subject = PYTHONS[0], "audit, unit tests"
    yield Check(f"Python {oldest}, here", f"{subject}, oldest wheels", partial(try_out, oldest, wheel, "lowest-direct"))
    for python in PYTHONS:
        # `make test` covers the Python that runs this.
        if python != "{}.{}".format(*sys.version_info):
            yield Check(f"Python {python}, here", subject, partial(try_out, python, wheel, "highest"))


def resolve_wheels(python: str, platform: str) -> None:
    """Find a wheel of every dependency at run time and of the extras `lab`, `notebook` and `postgres`."""
    target = ("--python-version", python, "--python-platform", platform)
    extras = ("--extra", "lab", "--extra", "notebook", "--extra", "postgres")
    try:
        _run("resolving", *_UV, "pip", "compile", "--only-binary", ":all:", *target, *extras, "pyproject.toml")
    except CheckFailed as failed:
        raise CheckFailed(reason(failed.output)) from None


def try_out(python: str, wheel: Path, resolution: Literal["highest", "lowest-direct"]) -> None:
    """Install into a clean environment, audit the demo data and run the unit tests.

    resolution: ``lowest-direct`` takes the oldest version that pyproject.toml allows of every dependency it names, and
    runs more tests.
    """
    with tempfile.TemporaryDirectory(prefix="plumbline-") as folder:
        programs = Path(folder, "venv", "bin")
        try:
            _run("finding it", *_UV, "python", "find", "--system", "--no-project", python)
        except CheckFailed:
            raise CheckSkipped("this machine has no such Python") from None
        _run("making an environment", *_UV, "venv", "--system", "--no-project", "--python", python, f"{folder}/venv")
        install = (*_UV, "pip", "install", "--python", str(programs / "python"), "--resolution", resolution)
        requirements = ("--requirements", "pyproject.toml", "--extra", "postgres", "--extra", "test")
        _run("installing", *install, "--only-binary", ":all:", *requirements, "pytest-xdist>=3.6", str(wheel))
        audit = ("audit", "--data", "breast_cancer", "--attacks", "half,half_star,rcc2", "--epochs", "5")
        with _ONE_AUDIT:
            _run("the audit", str(programs / "plumbline"), *audit, folder=Path(folder))
        tests = UNIT_TESTS if resolution == "highest" else OLDEST_TESTS
        # Examples that fail on one Python fail on all; here a few show that the test runs.
        few = ("-m", "not hostile_long and not thorough", "--hypothesis-profile", "few")
        quick = ("-rfE", "-p", "no:cacheprovider", *few)
        workers = ("-n", "2", "--dist", "worksteal")
        _run("the unit tests", str(programs / "python"), "-m", "pytest", *quick, *workers, *tests)


def reason(message: str) -> str:
    """What uv says about the requirement that it can't satisfy; the last line of any other message."""
    _, found, sentence = " ".join(message.split()).partition("Because ")
    if not found:
        return message.strip().rpartition("\n")[2]
    return sentence.partition(", we can conclude")[0]


def report(everything: Sequence[Check]) -> int:
    """Run the checks side by side, print a row for each and the output of those that failed, and count these."""
    failed: list[tuple[Check, str]] = []
    # One more than cores: there is one that waits, for the index or for an audit.
    with ThreadPoolExecutor((os.cpu_count() or 1) + 1) as pool:
        for check, (result, output) in zip(everything, pool.map(_result, everything), strict=True):
            print(f"{check.target:27}{check.subject:34}{result}", flush=True)
            if result.startswith("FAILED"):
                failed.append((check, output))
    for check, output in failed:
        if output:
            print(f"\n{check.target}, {check.subject}:\n{output}")
    return len(failed)


def _result(check: Check) -> tuple[str, str]:
    """The last column of a row, and output to show below the table."""
    start = time.monotonic()
    try:
        check.run()
    except CheckSkipped as skipped:
        return f"skipped: {skipped}", ""
    except CheckFailed as failed:
        return f"FAILED: {failed}", failed.output
    return f"ok, {time.monotonic() - start:.0f} s", ""


def _run(step: str, *command: str, folder: Path = ROOT) -> None:
    """Run a command in ``folder``; raises CheckFailed with the last lines that it printed."""
    done = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stdout + done.stderr).splitlines()[-_SHOWN_LINES:]
        raise CheckFailed(f"{step} ended with status {done.returncode}", "\n".join(lines))


def _environment() -> dict[str, str]:
    """A developer's environment less his settings, with the interpreters of pyenv on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PLUMBLINE_", "PYTHON"))}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin")
    return kept | {
        "PATH": os.pathsep.join([os.environ["PATH"], *map(str, sorted(pyenv))]),
        "UV_PYTHON_DOWNLOADS": "never",
        "MACOSX_DEPLOYMENT_TARGET": MACOS,
        "OMP_NUM_THREADS": "1",
    }


if __name__ == "__main__":
    sys.exit(main())
