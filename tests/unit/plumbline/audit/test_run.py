"""Where an audit is written, and that it makes its settings once."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from plumbline import recipe
from plumbline.audit import run as audit_run
from plumbline.audit.folder import AuditFolder, _new_folder
from plumbline.audit.further_sessions import ClearSessions
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import NotBegun, prepare, run_audit
from plumbline.processes import LocalProcesses
from vfl.data import readers


def test_runs_of_the_same_second_get_folders_of_their_own(tmp_path: Path) -> None:
    made = [_new_folder(tmp_path / "runs", "now-wine") for _ in range(3)]
    assert [folder.name for folder in made] == ["now-wine", "now-wine-2", "now-wine-3"]
    # Features and labels will be in them.
    assert [folder.stat().st_mode & 0o777 for folder in (*made, tmp_path / "runs")] == [0o700] * 4


def test_a_broken_link_as_folder_of_all_runs_ends_in_an_error(tmp_path: Path) -> None:
    (tmp_path / "runs").symlink_to(tmp_path / "nowhere" / "else")
    with pytest.raises(OSError, match="runs"):
        _new_folder(tmp_path / "runs", "now-wine")


def test_logs_are_written_where_they_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(processes: LocalProcesses) -> None:
        processes.log("active").write_text("last words")
        raise RuntimeError("stopped")

    monkeypatch.setattr(LocalProcesses, "start", fail)
    with pytest.raises(RuntimeError, match="stopped"):
        run_audit(AuditRequest.of(data="wine", cipher="plain", runs=tmp_path), Console(file=io.StringIO()))
    (run,) = tmp_path.iterdir()
    assert (run / "logs" / "active.log").read_text() == "last words"
    status = AuditFolder(run).status
    assert status is not None
    assert (status.status, status.reason) == ("failed", "stopped")


def test_an_interrupted_run_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(processes: LocalProcesses) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalProcesses, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_audit(AuditRequest.of(data="wine", cipher="plain", runs=tmp_path), Console(file=io.StringIO()))
    (run,) = tmp_path.iterdir()
    status = AuditFolder(run).status
    assert status is not None
    assert (status.status, status.reason) == ("stopped", "It was interrupted.")


def test_settings_and_defences_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Once: the environment was read ten times, and what was checked was not what ran.
    made: list[str] = []

    def counted(name: str) -> None:
        original = getattr(recipe, name)

        def call(*arguments: Any, **options: Any) -> Any:
            made.append(name)
            return original(*arguments, **options)

        monkeypatch.setattr(recipe, name, call)

    def fail(processes: LocalProcesses) -> None:
        assert {one.run_dir for one in processes.settings.values()} == {next(tmp_path.iterdir()).resolve() / "parties"}
        raise RuntimeError("stopped")

    for name in ("environment_values", "load_all"):
        counted(name)
    monkeypatch.setattr(LocalProcesses, "start", fail)
    with pytest.raises(RuntimeError, match="stopped"):
        run_audit(
            AuditRequest.of(data="wine", parties=3, cipher="plain", defences=("dp_noise",), runs=tmp_path),
            Console(file=io.StringIO()),
        )
    # Once to look at the tables, and once more with what the plan decides.
    assert made == ["environment_values", "load_all"] * 2


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(processes: LocalProcesses) -> None:
        raise AssertionError("a process is started")

    monkeypatch.setattr(LocalProcesses, "start", fail)


@pytest.mark.usefixtures("nothing_starts")
def test_a_dry_run_shows_the_plan_starts_no_process_and_leaves_nothing(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    request = AuditRequest.of(data="wine", attacks=("all",), cipher="plain", dry_run=True, runs=tmp_path / "runs")
    plan, _ = prepare(request, console)
    with pytest.raises(NotBegun, match="Nothing was run"):
        run_audit(request, console)
    assert list(tmp_path.iterdir()) == []
    assert isinstance(console.file, io.StringIO)
    shown = " ".join(console.file.getvalue().split())
    assert "aligning" in shown
    assert f"{plan.workload.steps} steps" in shown
    assert "INSECURE: in the clear, as asked for." in shown
    assert "one_feature (is for a lone passive feature)" in shown


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize(
    ("answer", "is_terminal", "yes", "is_asked"),
    [("n", True, False, True), ("y", True, False, True), ("n", True, True, False), ("n", False, False, False)],
)
def test_a_long_run_is_asked_about_where_somebody_can_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, is_terminal: bool, yes: bool, is_asked: bool
) -> None:
    monkeypatch.setattr(audit_run, "LONG_SECONDS", 0.0)
    output = io.StringIO()
    console = Console(file=output, width=200, force_terminal=is_terminal, force_interactive=is_terminal)
    monkeypatch.setattr(console, "input", lambda *_, **__: answer)
    declined = is_asked and answer == "n"
    request = AuditRequest.of(data="wine", cipher="plain", assume_yes=yes, runs=tmp_path / "runs")
    with pytest.raises(NotBegun if declined else AssertionError):
        run_audit(request, console)
    assert (tmp_path / "runs").exists() != declined


def test_a_mistake_in_a_setting_is_told_before_tables_are_read(tmp_path: Path) -> None:
    console = Console(file=io.StringIO())
    nowhere = str(tmp_path / "nowhere.csv")
    request = AuditRequest.of(active=nowhere, passive=(nowhere,), label="y", settings={"epochs": -1})
    with pytest.raises(ValueError, match="EPOCHS: expected from 0 to 10000, got -1"):
        prepare(request, console)


def test_whoever_makes_a_mistake_does_not_wait_for_slow_imports() -> None:
    slow = ("sklearn", "scipy.stats", "matplotlib", "torch")
    code = f"import sys, plumbline.cli, plumbline.audit.run; sys.exit(any(name in sys.modules for name in {slow}))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_table_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Four times, before: to look at it, for the plan, and again where a defence changes a party's features.
    tables = {"active": "id,age,y\n", "passive-1": "id,pay\n", "passive-2": "id,rent\n"}
    for name, header in tables.items():
        rows = (f"r{row},{row % 7}" + (f",{row % 2}" if name == "active" else "") for row in range(40))
        (tmp_path / f"{name}.csv").write_text(header + "\n".join(rows))
    files, read, original = [str(tmp_path / f"{name}.csv") for name in tables], list[str](), readers.read_raw

    def counted(source: str, *arguments: Any) -> Any:
        read.append(source)
        return original(source, *arguments)

    monkeypatch.setattr(readers, "read_raw", counted)
    request = AuditRequest.of(
        active=files[0],
        passive=tuple(files[1:]),
        label="y",
        attacks=("half_star",),
        defences=("feature_transform",),
        cipher="plain",
    )
    plan, joined = prepare(request, Console(file=io.StringIO()))
    ClearSessions(joined, plan.recipe.parties, plan.workload.agreement)
    assert read == files
