"""Help that a person can read on a terminal of 80 columns: every command, every option, an example."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer import Context
from typer.main import get_command
from typer.testing import CliRunner

from plumbline.cli import app
from plumbline.cli.examples import laid_out, split

WIDTH = 80


def commands(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    for name in command.list_commands(Context(command)) if hasattr(command, "list_commands") else ():
        yield from commands(command.get_command(Context(command), name), *path, name)


def command_at(path: tuple[str, ...]) -> Any:
    command: Any = get_command(app)
    for name in path:
        command = command.get_command(Context(command), name)
    return command


ALL = list(commands(get_command(app)))


def shown(*arguments: str) -> str:
    done = CliRunner(env={"COLUMNS": str(WIDTH), "NO_COLOR": "1"}).invoke(app, [*arguments, "--help"])
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "plumbline")
def test_no_line_is_wider_than_the_terminal_and_every_option_is_explained(path: tuple[str, ...]) -> None:
    text = shown(*path)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= WIDTH
    command = command_at(path)
    assert (command.help or "").strip()
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{path} says nothing of {parameter.name}"
        longest = max(parameter.opts, key=len)
        # An option that the page cuts can't be read there.
        assert longest in text or not longest.startswith("-")


@pytest.mark.parametrize("path", [path for path in ALL if path], ids=" ".join)
def test_every_command_shows_an_example_of_itself(path: tuple[str, ...]) -> None:
    text = shown(*path)
    command = command_at(path)
    if getattr(command, "commands", None) and not command.invoke_without_command:
        return  # what stands below it has examples
    examples = re.split(r"Examples:\s*\n", text)[1]
    assert re.search(rf"plumbline {' '.join(path)}", examples)


def test_the_options_of_an_audit_stand_in_panels() -> None:
    text = shown("audit")
    places = [text.index(f"─ {panel} ─") for panel in ("What to audit", "Attacks and defences", "Training", "Output")]
    assert places == sorted(places)


def test_the_help_says_what_every_exit_status_means() -> None:
    text = " ".join(shown().split())
    for words in (
        "0 done",
        "1 something unexpected",
        "2 a mistake",
        "3 more leaked than --fail-above",
        "130 interrupted",
    ):
        assert words in text


def test_examples_are_broken_where_a_shell_reads_on() -> None:
    help_text = laid_out("""Does it.

    In two
    lines.

    Example: plumbline audit --data satellite --attacks half_star,rcc2 --defences score_scheme1,response_truncation
    Example: plumbline status
    """)
    words, examples = split(help_text)
    assert words == "Does it. In two lines."
    assert examples.splitlines() == [
        "plumbline audit --data satellite --attacks half_star,rcc2 \\",
        "  --defences score_scheme1,response_truncation",
        "plumbline status",
    ]
    assert split("No example.") == ("No example.", "")
