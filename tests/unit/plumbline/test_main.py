"""How the command ends: a status for each way, and one sentence where something went wrong."""

import sys
from pathlib import Path

import pytest

from plumbline.__main__ import main
from plumbline.audit.folder import ERROR_FILE, run_at_work
from plumbline.cli import plugins


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def ended(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["plumbline", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert isinstance(end.value.code, int)
    return end.value.code


def broken(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise error

    monkeypatch.setattr(plugins, "_defence_facts", fail)


def test_what_is_done_ends_with_0(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended("--version", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out.startswith("plumbline ")


def test_a_mistake_ends_with_2_and_help_without_a_command_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ended("defence", monkeypatch=monkeypatch) == 2
    assert (
        capsys.readouterr().err
        == "plumbline: No such command 'defence'. Did you mean 'defences'? See `plumbline --help`.\n"
    )
    assert ended("state", monkeypatch=monkeypatch) == 2
    shown = capsys.readouterr()
    assert "Usage: plumbline state" in shown.out + shown.err
    assert "plumbline: " not in shown.err


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("audit", "--epochs", "ten"), "--epochs: expected a whole number, got 'ten'."),
        (("audit", "--fail-above", "50"), "--fail-above: expected 1.0 or less, got '50'. It is a part: 0.5 is 50 %."),
        (("audit", "--auxiliary=-4"), "--auxiliary: expected 0 or more, got '-4'."),
        (("audit", "bank.csv"), "extra argument(s) (bank.csv). Tables are given as --active TABLE --passive TABLE."),
        (
            ("judge", "bank.csv", "vendor.csv"),
            "Missing option '--secret'. Tables are given as --own TABLE --received TABLE --secret TABLE.",
        ),
        (("serve", "cordinator"), "ROLE: 'cordinator' is not one of 'coordinator', 'active', 'passive'."),
    ],
)
def test_a_wrong_value_is_told_with_what_is_taken_in_its_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, typed: tuple[str, ...], words: str
) -> None:
    assert ended(*typed, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.endswith(f" See `plumbline {typed[0]} --help`.\n")
    assert len(said.splitlines()) == 1


def test_what_nobody_expected_ends_with_1_and_says_where_the_details_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    broken(RuntimeError("a cell's value"), monkeypatch)
    assert ended("defences", monkeypatch=monkeypatch) == 1
    said = capsys.readouterr().err
    written = next(temporary.glob("plumbline-error-*.txt"))
    assert said.startswith(f"plumbline: This should not have happened (RuntimeError). The details are in {written}")
    assert len(said.splitlines()) == 1
    assert "Traceback" in written.read_text()
    assert written.stat().st_mode & 0o077 == 0


def test_details_are_on_the_terminal_where_they_are_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    monkeypatch.setattr("plumbline.cli.app", _failing)
    assert ended("audit", "--verbose", monkeypatch=monkeypatch) == 1
    assert "Traceback" in capsys.readouterr().err
    assert not list(temporary.glob("plumbline-error-*"))


def _failing(**_: object) -> None:
    raise RuntimeError("broken")


def test_a_run_that_fails_keeps_its_details_in_its_own_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    def fail(**_: object) -> None:
        with run_at_work(temporary):
            raise RuntimeError("broken")

    monkeypatch.setattr("plumbline.cli.app", fail)
    assert ended("audit", monkeypatch=monkeypatch) == 1
    assert f"The details are in {temporary / ERROR_FILE}." in capsys.readouterr().err
    assert "RuntimeError: broken" in (temporary / ERROR_FILE).read_text()


@pytest.mark.parametrize("arguments", [("defences",), ("defences", "dp_noise")])
def test_ctrl_c_ends_with_130_and_without_a_word(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(KeyboardInterrupt(), monkeypatch)
    assert ended(*arguments, monkeypatch=monkeypatch) == 130
    assert "Traceback" not in capsys.readouterr().err
