"""What `make` does again when something has changed, tried with programs that only note that they were called."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = Path("vfl", "crypto", "native", "kernel.c")
COMPILES = "-m vfl.crypto.native"

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="there is no make here")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of the Makefile and two C sources, with environments whose installation is done."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("build.py", "kernel.c", "kernel.h"):
        path = tmp_path / SOURCE.with_name(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name in ("pyproject.toml", "scripts/install-dev"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for environment, installed in ((".venv", ".installed-dev"), (".venv-demo", ".installed")):
        programs = tmp_path / environment / "bin"
        programs.mkdir(parents=True)
        for name in ("python", "plumbline", "pytest", "ruff", "mypy"):
            fake(programs / name, status=0)
        (tmp_path / environment / installed).touch()
    return tmp_path


def fake(program: Path, *, status: int) -> None:
    """A program that notes its arguments and ends so."""
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$*\" >>calls\necho $0 >>programs\nexit {status}\n")
    program.chmod(0o755)


def calls(checkout: Path, target: str = "demo") -> list[str]:
    """What make calls for a target; it must succeed."""
    (checkout / "calls").write_text("")
    (checkout / "programs").write_text("")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    subprocess.run(["make", target], cwd=checkout, env=environment, capture_output=True, check=True, timeout=30)
    return (checkout / "calls").read_text().splitlines()


def test_an_environment_from_before_gets_its_kernel_once(checkout: Path) -> None:
    first, second = calls(checkout), calls(checkout)
    assert first[0] == COMPILES
    assert first[1].startswith("audit")
    assert COMPILES not in second


@pytest.mark.parametrize("name", ["kernel.c", "kernel.h", "build.py"])
def test_a_changed_source_is_compiled_again(checkout: Path, name: str) -> None:
    calls(checkout)
    ahead = time.time() + 10
    os.utime(checkout / SOURCE.with_name(name), (ahead, ahead))
    assert COMPILES in calls(checkout)


def test_without_a_compiler_all_goes_on_and_the_next_run_tries_again(checkout: Path) -> None:
    fake(checkout / ".venv-demo" / "bin" / "python", status=1)
    for _ in range(2):
        first, *audits, comparison = calls(checkout)
        assert first == COMPILES
        assert [one.split()[0] for one in audits] == ["audit", "audit"]
        assert comparison.startswith("runs compare")


@pytest.mark.parametrize(("target", "environment"), [("demo", ".venv-demo/"), ("test", ".venv/")])
def test_demo_and_tests_have_environments_of_their_own(checkout: Path, target: str, environment: str) -> None:
    calls(checkout, target)
    programs = (checkout / "programs").read_text().split()
    assert programs
    assert all(program.startswith(environment) for program in programs)


def test_the_two_commands_run_every_test_between_them_and_none_twice(checkout: Path) -> None:
    (test,) = (call for call in calls(checkout, "tests") if "-n 2" in call)
    (check,) = (call for call in calls(checkout, "beyond") if "-n 2" in call)
    *options, last = test.split(" tests/unit ")
    chosen = ["tests/unit", *last.split()]
    assert all((ROOT / path).exists() for path in chosen)
    rest = check[check.index(" tests ") :].split()
    assert rest == ["tests", *(f"--ignore={path}" for path in chosen)]
    # Of the same kinds, each with its own table of costs.
    assert check.partition(" tests ")[0] == options[0].replace("costs/test.json", "costs/check.json")
