"""Where an audit is written, and that it makes its settings once."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from plumbline import recipe
from plumbline.audit import run as audit
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import run_audit
from plumbline.processes import LocalProcesses


def test_runs_of_the_same_second_get_folders_of_their_own(tmp_path: Path) -> None:
    made = [audit._new_folder(tmp_path / "runs", "now-wine") for _ in range(3)]
    assert [folder.name for folder in made] == ["now-wine", "now-wine-2", "now-wine-3"]
    # Features and labels will be in them.
    assert [folder.stat().st_mode & 0o777 for folder in (*made, tmp_path / "runs")] == [0o700] * 4


def test_a_broken_link_as_folder_of_all_runs_ends_in_an_error(tmp_path: Path) -> None:
    (tmp_path / "runs").symlink_to(tmp_path / "nowhere" / "else")
    with pytest.raises(OSError, match="runs"):
        audit._new_folder(tmp_path / "runs", "now-wine")


def test_logs_are_written_where_they_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(processes: LocalProcesses) -> None:
        processes.log("active").write_text("last words")
        raise RuntimeError("stopped")

    monkeypatch.setattr(LocalProcesses, "start", fail)
    with pytest.raises(RuntimeError, match="stopped"):
        run_audit(AuditRequest(data="wine", runs=tmp_path), Console(file=io.StringIO()))
    (run,) = tmp_path.iterdir()
    assert (run / "logs" / "active.log").read_text() == "last words"


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
            AuditRequest(data="wine", parties=3, defences=("dp_noise",), runs=tmp_path), Console(file=io.StringIO())
        )
    assert made == ["environment_values", "load_all"]
