"""Where commands write, and how they end for errors that the user can mend."""

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console

from plumbline.terminal import MOST_SHOWN
from services.common.words import escaped_lines, system_words

# How a command ends; 0 is done.
UNEXPECTED, MENDABLE, ABOVE_THRESHOLD, INTERRUPTED = 1, 2, 3, 130

console_out = Console(soft_wrap=True, highlight=False, markup=False)
console_errors = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)

# Settings of a service whose names a command has for something else.
_OTHERS = ("DATA", "NAME")

AsJson = Annotated[bool, typer.Option("--json", help="Print the same facts as one JSON document.")]


def print_json(facts: Any) -> None:
    """Print one JSON document on standard output: text that isn't ASCII is escaped, so that no terminal obeys it."""
    typer.echo(json.dumps(facts, indent=1, default=str))


class EndedEarly(RuntimeError):
    """Something that a command called, another package's code perhaps, was about to end it as if it were done."""


@contextmanager
def plain_errors(say: Callable[[str], object] | None = None, context: typer.Context | None = None) -> Iterator[None]:
    """End the command with one sentence for errors that the user can mend, and status 2.

    Args:
        say: tells the sentence; by default standard error has it.
        context: of a command whose options set what services have variables for: the sentence then names these.

    Raises:
        EndedEarly: where something would end the command as if it were done before it has come to its end.
    """
    from plumbline.federation import FederationFailed
    from plumbline.processes import ProcessFailed
    from services.common.errors import FederationError

    try:
        yield
    except (ValueError, OSError, FederationError, FederationFailed, ProcessFailed) as error:
        sentence = system_words(error) if isinstance(error, OSError) else str(error)
        (say or _say)(sentence if context is None else in_options(sentence, context.command.params))
        raise typer.Exit(MENDABLE) from error
    except (SystemExit, typer.Exit) as early:
        if early.exit_code if isinstance(early, typer.Exit) else early.code:
            raise  # nobody takes it for done
        raise EndedEarly("The command was ended before its work was done.") from early


def in_options(sentence: str, options: Sequence[Any]) -> str:
    """Name a command's own options where a sentence names a service's variables; those of the environment stay.

    A setting has the option of its name, else ``--set`` where there is one.
    """
    from services.common.settings import PREFIX, Settings  # slow to import, and few sentences name one

    named = {one.name: one.opts[0] for one in options if one.opts[0].startswith("--")}

    def option(match: re.Match[str]) -> str:
        name, equals = match["name"].lower(), match["equals"]
        if match["name"] in _OTHERS or PREFIX + match["name"] in os.environ or name not in Settings.model_fields:
            return match[0]
        verb = "give " if match["set"] else ""
        if own_option := named.get(name) or named.get(name.removesuffix("_column")):
            return f"{verb}{own_option}{' ' if equals else ''}"
        return f"{verb}--set {name}{equals}" if "--set" in named.values() else match[0]

    # Where a sentence says what a service has in the command's place, it is that.
    return re.sub(
        rf"(?<!of a service, )(?P<set>\bset )?\b{PREFIX}(?P<name>[A-Z_]*[A-Z])(?P<equals>=?)", option, sentence
    )


def _say(sentence: str) -> None:
    # Several lines where a log's last words are among them; each of them may quote another party.
    console_errors.print(f"plumbline: {escaped_lines(sentence, MOST_SHOWN)}", style="red")
