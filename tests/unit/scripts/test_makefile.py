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
    """A checkout of the Makefile and two C sources, with an environment whose installation is done."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("build.py", "kernel.c", "kernel.h"):
        path = tmp_path / SOURCE.with_name(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    fake(programs / "python", status=0)
    fake(programs / "plumbline", status=0)
    (tmp_path / ".venv" / ".installed").touch()
    return tmp_path


def fake(program: Path, *, status: int) -> None:
    """A program that notes its arguments and ends so."""
    program.write_text(f'#!/bin/sh\necho "$@" >>calls\nexit {status}\n')
    program.chmod(0o755)


def calls(checkout: Path) -> list[str]:
    """What `make demo` calls; it must succeed."""
    (checkout / "calls").write_text("")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    subprocess.run(["make", "demo"], cwd=checkout, env=environment, capture_output=True, check=True, timeout=30)
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
    fake(checkout / ".venv" / "bin" / "python", status=1)
    for _ in range(2):
        first, audit = calls(checkout)
        assert first == COMPILES
        assert audit.startswith("audit")
