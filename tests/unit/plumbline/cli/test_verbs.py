"""Verbs that packages bring: equal to ours, imported when they are asked for, and never in the way of the others."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer import Context
from typer.main import get_command
from typer.testing import CliRunner

from plumbline.cli import app
from plumbline.cli.verbs import GROUP, OURS, _first_paragraph
from tests.harness.documented_plugin import install, lay_out

RUNNER = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"})
GREETS = '''
def greet(name: str, loud: bool = False) -> None:
    """Greet somebody.

    Example: plumbline greet Ada --loud
    """
    print(name.upper() if loud else name)
'''
APP = "import typer\napp = typer.Typer(help='Two of them.')\napp.command('a')(print)\napp.command('b')(print)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("brought_"):
            del sys.modules[name]


def bring(folder: Path, module: str, code: str, place: str = "greet", *, verb: str = "greet") -> None:
    lay_out(folder, module, code, {GROUP: f"{verb} = {module}:{place}"})


def run(*arguments: str) -> tuple[int, str]:
    done = RUNNER.invoke(app, arguments)
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize("name", OURS)
def test_the_list_of_all_says_of_a_verb_what_the_verb_says_first(name: str) -> None:
    command: Any = get_command(app)
    verb = command.get_command(Context(command), name)
    assert " ".join(verb.help.split("\n\n")[0].split()) == _first_paragraph(name)


def test_a_function_becomes_a_verb_with_its_options_and_examples(folder: Path) -> None:
    bring(folder, "brought_function", GREETS)
    assert run("greet", "Ada", "--loud") == (0, "ADA")
    status, shown = run("greet", "--help")
    assert status == 0
    assert "Examples: plumbline greet Ada --loud" in shown
    assert run("greet")[0] == 2
    assert "Did you mean 'greet'?" in run("greeet")[1]


def test_the_verb_of_the_page_is_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("how-to/bring-a-verb.md", "drift", folder, monkeypatch)
    assert run("drift", "runs/mine") == (0, "runs/mine: nothing moved")


def test_an_app_becomes_a_group_of_verbs(folder: Path) -> None:
    bring(folder, "brought_app", APP, "app")
    status, shown = run("greet", "--help")
    assert status == 0
    assert "Two of them." in shown
    assert "install-completion" not in shown


def test_the_help_lists_what_others_bring_and_imports_none_of_it(folder: Path) -> None:
    bring(folder, "brought_ends", "import os\nos._exit(7)")
    status, shown = run("--help")
    assert status == 0
    assert "Of brought_ends 1.0 (brought_ends:greet)." in shown
    assert "brought_ends" not in sys.modules
    # Ours are told in their own words.
    assert "Measure a grid of attacks" in shown


@pytest.mark.parametrize(
    ("code", "place", "words"),
    [
        ("import no_such_library", "greet", "It needs no_such_library, which isn't installed: pip install 'brought'."),
        (
            "import no_such_library",
            "greet [charts]",
            "It needs no_such_library, which isn't installed: pip install 'brought[charts]'.",
        ),
        ("raise RuntimeError('sad')", "greet", "brought 1.0 (brought:greet) fails here: RuntimeError: sad"),
        ("import sys; sys.exit(0)", "greet", "fails here: SystemExit: 0"),
        ("greet = 3", "greet", "fails here: "),
        ("", "greet", "fails here: AttributeError"),
    ],
)
@pytest.mark.parametrize("arguments", [(), ("--help",), ("one", "--two=3")])
def test_what_cannot_be_used_says_so_in_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, place: str, words: str, arguments: tuple[str, ...]
) -> None:
    monkeypatch.delitem(sys.modules, "brought", raising=False)
    bring(folder, "brought", code, place)
    status, shown = run("greet", *arguments)
    assert status == 2
    assert shown.startswith("plumbline: greet can't be used. ")
    assert words in shown


def test_two_packages_with_one_verb_are_both_named(folder: Path) -> None:
    bring(folder, "brought_one", GREETS)
    bring(folder, "brought_two", GREETS)
    status, shown = run("greet", "Ada")
    assert status == 2
    assert "brought_one 1.0" in shown
    assert "brought_two 1.0" in shown


@pytest.mark.parametrize(("verb", "own"), [("audit", "Run a federation of local"), ("figures", "The papers' exp")])
def test_nobody_takes_the_place_of_a_verb_of_ours_and_who_tries_is_told(folder: Path, verb: str, own: str) -> None:
    bring(folder, "brought_rival", GREETS, verb=verb)
    told = f"plumbline: {verb} of brought_rival 1.0 (brought_rival:greet) is left out: Plumbline itself has a verb"
    for arguments in ((verb, "--help"), ("--help",)):
        status, shown = run(*arguments)
        assert status == 0
        assert own in shown
        assert told in shown
    assert told not in run("certs", "--help")[1]
    assert "brought_rival" not in sys.modules


def test_who_reads_a_data_set_is_told_by_packages_and_a_broken_one_is_left_out(folder: Path) -> None:
    readers = {"plumbline.data_readers": "greet = brought_reader:reads\nsad = brought_reader:fails"}
    lay_out(folder, "brought_reader", "def reads(name): return ['mine'] if name == 'wine' else []", readers)
    status, shown = run("datasets")
    assert status == 0
    assert "greet" in shown
    assert "mine" in shown
    assert "brought_reader 1.0 (brought_reader:fails) is left out of the list" in shown
