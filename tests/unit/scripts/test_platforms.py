"""The table of platforms: its rows, its result, and the requirement that it names."""

import sys
import tomllib
from pathlib import Path

import pytest

from scripts import platforms
from scripts.platforms import PLATFORMS, PYTHONS, ROOT, Check, CheckFailed, CheckSkipped, checks, reason, report

RUNNING = "{}.{}".format(*sys.version_info)


def test_every_python_meets_every_platform_and_is_tried_here_once() -> None:
    rows = [(check.target, check.subject) for check in checks(Path("a.whl"))]
    assert rows.count(("Python 3.13, Linux arm64", "wheels")) == 1
    assert len([row for row in rows if row[1] == "wheels"]) == len(PYTHONS) * len(PLATFORMS)
    assert ("Python 3.11, here", "audit, unit tests, oldest wheels") in rows
    tried = [target for target, subject in rows if subject == "audit, unit tests"]
    assert tried == [f"Python {python}, here" for python in PYTHONS if python != RUNNING]


def test_the_package_says_what_is_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={PYTHONS[0]}"
    words = "Programming Language :: Python :: "
    claimed = {line.removeprefix(words) for line in project["classifiers"] if line.startswith(words)}
    assert claimed <= set(PYTHONS)


# What uv says of torch==2.13.0 for macOS 13, in the marks of two of its versions.
@pytest.mark.parametrize("marks", ["error: No solution found\n  cause: ", "  × No solution found:\n  ╰─▶ "])
def test_the_reason_names_the_requirement(marks: str) -> None:
    because = (
        "Because torch==2.13.0 has no wheels with a matching platform tag\n      (e.g., `macosx_13_0_arm64`) and "
        "plumbline depends on torch==2.13.0, we can conclude that your requirements are unsatisfiable.\n\nhint: ..."
    )
    assert reason(marks + because) == (
        "torch==2.13.0 has no wheels with a matching platform tag (e.g., `macosx_13_0_arm64`) and "
        "plumbline depends on torch==2.13.0"
    )


def test_another_message_is_shown_by_its_last_line() -> None:
    assert reason("warning: slow\nerror: cannot reach the index\n") == "error: cannot reach the index"


def test_a_row_per_check_and_the_output_of_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        raise CheckFailed("installing ended with status 1", "the last words")

    def skips() -> None:
        raise CheckSkipped("this machine has no such Python")

    rows = [Check("Python 3.11, here", "a", lambda: None), Check("there", "b", fails), Check("elsewhere", "c", skips)]
    assert report(rows) == 1
    table, _, below = capsys.readouterr().out.partition("\n\n")
    assert [" ".join(line.split()) for line in table.splitlines()] == [
        "Python 3.11, here a ok, 0 s",
        "there b FAILED: installing ended with status 1",
        "elsewhere c skipped: this machine has no such Python",
    ]
    assert below == "there, b:\nthe last words\n"


def test_a_missing_interpreter_is_skipped_and_a_failed_audit_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = "finding it"

    def run(step: str, *command: str, folder: Path = ROOT) -> None:
        if step == failing:
            raise CheckFailed(step)

    monkeypatch.setattr(platforms, "_run", run)
    with pytest.raises(CheckSkipped, match="no such Python"):
        platforms.try_out("3.14", Path("a.whl"), "highest")
    failing = "the audit"
    with pytest.raises(CheckFailed, match="the audit"):
        platforms.try_out("3.14", Path("a.whl"), "highest")


def test_a_developers_settings_stay_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "versions/3.12.1/bin").mkdir(parents=True)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PLUMBLINE_TEST_POSTGRES_URL", "postgresql://shared")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    environment = platforms._environment()
    assert not {"PLUMBLINE_TEST_POSTGRES_URL", "PYTHONPATH"} & set(environment)
    assert environment["PATH"].endswith(f":{tmp_path / 'versions/3.12.1/bin'}")
