"""Runs that tests share: made once, and no test may write into them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.audited import audited_once


def test_a_run_is_made_once_for_its_options_and_a_change_of_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[list[str]]()

    def audit(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        """Stands in for the command, which takes seconds."""
        made.append(command)
        run = Path(command[command.index("--runs") + 1]) / "2026-shared"
        run.mkdir(parents=True)
        (run / "results.json").write_text("{}")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", audit)
    first = audited_once(tmp_path, ["--data", "wine"])
    assert audited_once(tmp_path, ["--data", "wine"]) == first
    assert audited_once(tmp_path, ["--data", "breast_cancer"]) != first
    assert [command[:4] for command in made] == [[sys.executable, "-m", "plumbline", "audit"]] * 2

    (first / "results.json").write_text("[]")
    with pytest.raises(AssertionError, match="a test has changed the run"):
        audited_once(tmp_path, ["--data", "wine"])
