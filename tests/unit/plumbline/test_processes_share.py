"""Parties of one machine share its cores, unless their settings say otherwise."""

from pathlib import Path

import pytest

from plumbline import processes
from plumbline.processes import LocalProcesses
from services.common.settings import settings_of


@pytest.mark.parametrize(
    ("cores", "parties", "share"), [(1, 1, 1), (2, 1, 1), (4, 1, 2), (8, 2, 2), (9, 2, 3), (2, 5, 1)]
)
def test_each_party_that_encrypts_gets_its_share(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cores: int, parties: int, share: int
) -> None:
    monkeypatch.setattr(processes, "available_cores", lambda: cores)
    names = ["coordinator", "active", *(f"passive-{number}" for number in range(parties))]
    assert LocalProcesses(tmp_path, {name: settings_of({}) for name in names}).fair_share() == share


@pytest.mark.parametrize(("workers", "expected"), [(None, "3"), (7, "7")])
def test_settings_have_the_last_word(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, workers: int | None, expected: str
) -> None:
    started: list[dict[str, str]] = []
    monkeypatch.setattr(processes, "available_cores", lambda: 6)
    monkeypatch.setattr(processes, "launch", lambda *_, env, **__: started.append(env))
    settings = {"transport": "insecure"} if workers is None else {"transport": "insecure", "workers": workers}
    LocalProcesses(tmp_path, {name: settings_of(settings) for name in ("coordinator", "active", "passive")}).start()
    assert [environment["PLUMBLINE_WORKERS"] for environment in started] == [expected] * 3
