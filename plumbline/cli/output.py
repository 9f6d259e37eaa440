"""Where commands write, and how they end for errors that the user can mend."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console

from plumbline.terminal import MOST_SHOWN
from services.common.words import escaped_lines

# How a command ends; 0 is done.
UNEXPECTED, MENDABLE, ABOVE_THRESHOLD, INTERRUPTED = 1, 2, 3, 130

console_out = Console(soft_wrap=True, highlight=False, markup=False)
console_errors = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print the same facts as one JSON document.")]


def print_json(facts: Any) -> None:
    """Print one JSON document on standard output: text that isn't ASCII is escaped, so that no terminal obeys it."""
    typer.echo(json.dumps(facts, indent=1, default=str))


class EndedEarly(RuntimeError):
    """Something that a command called, another package's code perhaps, was about to end it as if it were done."""


@contextmanager
def plain_errors(say: Callable[[str], object] | None = None) -> Iterator[None]:
    """End the command with one sentence for errors that the user can mend, and status 2.

    ``say`` tells the sentence; by default standard error has it.

    Raises:
        EndedEarly: where something would end the command as if it were done before it has come to its end.
    """
    from plumbline.federation import FederationFailed
    from plumbline.processes import ProcessFailed
    from services.common.errors import FederationError

    try:
        yield
    except (ValueError, OSError, FederationError, FederationFailed, ProcessFailed) as error:
        words = _system_words(error) if isinstance(error, OSError) else str(error)
        (say or _say)(words)
        raise typer.Exit(MENDABLE) from error
    except (SystemExit, typer.Exit) as early:
        if early.exit_code if isinstance(early, typer.Exit) else early.code:
            raise  # nobody takes it for done
        raise EndedEarly("The command was ended before its work was done.") from early


def _say(words: str) -> None:
    # Several lines where a log's last words are among them; each of them may quote another party.
    console_errors.print(f"plumbline: {escaped_lines(words, MOST_SHOWN)}", style="red")


def _system_words(error: OSError) -> str:
    """Say what the operating system says, and what to do about it."""
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"Cannot use {error.filename} ({error.strerror}): check the path, or choose a place that you can write to."
