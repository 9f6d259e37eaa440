"""What a shell offers after TAB."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from typer import Context

from plumbline.__main__ import main
from plumbline.cli import completion


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("rc", ["rcc1", "rcc2"]),
        ("rcc1,rc", ["rcc1,rcc2"]),  # not the same name twice
        ("al", ["all"]),
        ("half,half_s", ["half,half_star"]),
        ("nothing_like_it", []),
    ],
)
def test_a_list_of_attacks_goes_on_with_its_last_name(typed: str, offered: list[str]) -> None:
    assert completion.listed_attacks(typed) == offered


def test_names_of_all_kinds_are_offered() -> None:
    assert completion.attack_names("half_") == ["half_star"]
    assert completion.defence_names("dp_") == ["dp_noise", "dp_sgd"]
    assert completion.listed_defences("dp_noise,dp_") == ["dp_noise,dp_sgd"]
    assert completion.dataset_names("breast") == ["breast_cancer"]
    assert completion.setting_names("key_") == ["key_bits="]


def test_runs_are_offered_newest_first_and_a_folder_that_is_not_there_offers_latest_only(tmp_path: Path) -> None:
    for name in ("20260101-000000-wine", "20260202-000000-bank"):
        (tmp_path / name).mkdir()
    (tmp_path / "notes.txt").write_text("")
    here = cast(Context, SimpleNamespace(params={"runs": tmp_path}))
    assert completion.run_names(here, "") == ["latest", "20260202-000000-bank", "20260101-000000-wine"]
    assert completion.run_names(here, "20260101") == ["20260101-000000-wine"]
    nowhere = cast(Context, SimpleNamespace(params={"runs": tmp_path / "missing"}))
    assert completion.run_names(nowhere, "") == ["latest"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("plumbline audit --attacks rcc", ["rcc1", "rcc2"]),
        ("plumbline aud", ["audit"]),
        ("plumbline attacks gi", ["gia"]),
    ],
)
def test_a_shell_that_asks_is_answered_by_the_command_itself(
    line: str, offered: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = line.split()
    monkeypatch.setattr(sys, "argv", ["plumbline"])
    for name, value in {
        "_PLUMBLINE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.split() == offered
