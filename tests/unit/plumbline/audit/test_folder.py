"""What is said of a run that finished, failed, was interrupted or was killed."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from plumbline.audit.folder import AuditFolder, read_status, run_at_work
from services.common.durable import write_durably
from services.common.run_files import RunFolderError
from tests.harness.disks import NoFileSystem, full


def test_a_run_is_running_inside_and_finished_behind(tmp_path: Path) -> None:
    with run_at_work(tmp_path):
        inside = AuditFolder(tmp_path).status
        assert inside is not None
        assert (inside.status, inside.ended) == ("running", "")
    status = read_status(tmp_path)
    assert status is not None
    assert (status.status, status.reason, status.started) == ("finished", "", inside.started)
    assert status.ended >= status.started


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (ValueError("bank.csv has \x1b[31mno rows"), "failed", "bank.csv has"),
        (RuntimeError(), "failed", "RuntimeError"),
        (KeyboardInterrupt(), "stopped", "It was interrupted."),
    ],
)
def test_what_ends_a_run_before_its_time_is_said(
    tmp_path: Path, error: BaseException, status: str, reason: str
) -> None:
    with pytest.raises(type(error)), run_at_work(tmp_path):
        raise error
    found = read_status(tmp_path)
    assert found is not None
    assert (found.status, found.ended != "") == (status, True)
    assert found.reason.startswith(reason)
    assert "\x1b" not in found.reason


def test_a_killed_run_has_stopped(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from plumbline.audit.folder import run_at_work\n"
        "with run_at_work(Path(sys.argv[1])):\n    print('working', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"working\n"
        at_work = read_status(tmp_path)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert at_work is not None
    assert at_work.status == "running"
    status = read_status(tmp_path)
    assert status is not None
    assert status.status == "stopped"
    assert "killed" in status.reason


def test_a_folder_without_a_status_has_none(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    assert read_status(tmp_path / "nowhere") is None


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"status": "asleep"} | dict.fromkeys("abc"))])
def test_a_broken_status_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "status.json").write_text(content)
    with pytest.raises(RunFolderError, match=r"status\.json is broken"):
        read_status(tmp_path)


def test_a_run_whose_disk_is_full_ends_and_says_so(tmp_path: Path) -> None:
    """It was left as running, with no word but a number of the system's."""
    run = tmp_path / "disk"
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(full(run))
        except NoFileSystem as error:
            pytest.skip(str(error))

        def filled() -> None:
            disk.break_(None)  # type: ignore[arg-type]
            write_durably(run / "results.json", b"x" * 100_000)

        with pytest.raises(OSError, match="No space left"), run_at_work(run):
            filled()
        found = read_status(run)
        assert found is not None
        assert (found.status, found.ended != "") == ("failed", True)
        assert found.reason.startswith(f"There is no room for {run / 'results.json'} (No space left on device): make")
