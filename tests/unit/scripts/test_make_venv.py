"""Which Python the Makefile takes, and what it says when none fits. The Pythons on the path are stand-ins."""

import subprocess
from pathlib import Path

import pytest

from scripts.platforms import ROOT

# Answers the three questions of make-venv, and writes down what it is asked to make.
PYTHON = """#!/bin/sh
case "$2" in
*print*) echo {version} ;;
*exit*) exit {unfit} ;;
*ensurepip*) exit {no_venv} ;;
*) echo "$0 $*" ;;
esac
"""
BROKEN = "#!/bin/sh\necho 'pyenv: command not found' >&2\nexit 127\n"
NAME_IT = "install it, or name another with PYTHON=/path/to/python.\n"


def python(version: str, *, unfit: bool = False, no_venv: bool = False) -> str:
    return PYTHON.format(version=version, unfit=int(unfit), no_venv=int(no_venv))


def make_venv(folder: Path, programs: dict[str, str], **environment: str) -> subprocess.CompletedProcess[str]:
    for name, content in programs.items():
        (folder / name).write_text(content)
        (folder / name).chmod(0o755)
    # By its path: only the stand-ins are on PATH.
    command = ["/bin/sh", str(ROOT / "scripts" / "make-venv"), "new"]
    return subprocess.run(
        command, env={"PATH": str(folder), **environment}, capture_output=True, text=True, check=False, timeout=30
    )


@pytest.mark.parametrize(
    ("programs", "taken"),
    [
        ({"python3": python("3.13"), "python3.11": python("3.11")}, "python3"),
        ({"python3": python("3.9", unfit=True), "python3.12": python("3.12")}, "python3.12"),
        ({"python3": BROKEN, "python3.11": BROKEN, "python3.14": python("3.14")}, "python3.14"),
        ({"python3": python("3.12", no_venv=True), "python3.13": python("3.13")}, "python3.13"),
    ],
    ids=["the usual one", "not an old one", "not a shim without a Python", "not one without venv"],
)
def test_the_first_python_that_fits_is_taken(tmp_path: Path, programs: dict[str, str], taken: str) -> None:
    done = make_venv(tmp_path, programs)
    assert done.stdout == f"{tmp_path / taken} -m venv new\n"
    assert (done.returncode, done.stderr) == (0, "")


def test_a_named_python_is_the_only_one(tmp_path: Path) -> None:
    programs = {"python3": python("3.11"), "mine": python("3.13"), "theirs": python("3.10", unfit=True)}
    assert make_venv(tmp_path, programs, PYTHON="mine").stdout == f"{tmp_path / 'mine'} -m venv new\n"
    done = make_venv(tmp_path, programs, PYTHON="theirs")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Plumbline needs Python 3.11 to 3.14 (theirs is 3.10): {NAME_IT}"


def test_uv_is_the_last_resort(tmp_path: Path) -> None:
    uv = {"uv": '#!/bin/sh\necho "uv $*"\n'}
    unfit = {"python3": python("3.9", unfit=True)}
    assert make_venv(tmp_path, uv | unfit).stdout == "uv venv --quiet --seed --python >=3.11,<3.15 new\n"
    assert make_venv(tmp_path, uv | unfit, PYTHON="python3").returncode == 1


@pytest.mark.parametrize(
    ("programs", "missing"),
    [
        ({}, "Python 3.11 to 3.14"),
        ({"python3": BROKEN}, "Python 3.11 to 3.14"),
        ({"python3": python("3.9", unfit=True)}, "Python 3.11 to 3.14 (python3 is 3.9)"),
        ({"python3": python("3.15", unfit=True)}, "Python 3.11 to 3.14 (python3 is 3.15)"),
        (
            {"python3": python("3.12", no_venv=True)},
            "the module venv of python3 (on Debian and Ubuntu in the package python3.12-venv)",
        ),
    ],
    ids=["none", "a shim without a Python", "too old", "too new", "no venv"],
)
def test_one_sentence_says_what_is_missing(tmp_path: Path, programs: dict[str, str], missing: str) -> None:
    done = make_venv(tmp_path, programs)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Plumbline needs {missing}: {NAME_IT}"
