"""A party whose owner has patched its program, in a federation of processes: interruptions buy it no answer."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from plumbline import processes as own_processes
from plumbline.federation import FederationFailed
from services.common.run_folder import RunFolder
from tests.harness.hostile import assert_sound
from tests.harness.patched_peer import FIRST, ROUNDS
from tests.harness.processes import quick_federation


def test_interruptions_buy_a_patched_peer_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes, launch = tmp_path / "notes.json", own_processes.launch

    def patched(command: list[str], **named: Any) -> Any:
        if command[-1] != "passive":
            return launch(command, **named)
        return subprocess.Popen([sys.executable, "-m", "tests.harness.patched_peer", str(notes), *command[3:]], **named)

    monkeypatch.setattr(own_processes, "launch", patched)
    with quick_federation(tmp_path, batch_size=16, resume_within=60, step_timeout=30) as federation:
        try:
            federation.train()
            assert_sound(federation.processes)
            has_trained = True
        except FederationFailed:
            has_trained = False
    told = json.loads(notes.read_text())
    extra = [one for one in told if any(abs(value) > 1e-6 for value in one.get("sums", ()))]
    assert not extra, f"{len(extra)} answers beyond the one of step {FIRST}"
    # Whoever is refused is told why, and the record says what was passed over.
    assert all("sums" in one or one["refused"].endswith(".") for one in told)
    if has_trained:
        assert {one["round"] for one in told} == {*range(1, ROUNDS + 1)}
        assert FIRST in (RunFolder(tmp_path / "parties").record("active").skipped_steps or ())
    else:
        # A question of the next step came in time: its right to that is spent, and its own, later one is refused.
        assert any(one["step"] == FIRST + 1 and "sums" in one for one in told)
