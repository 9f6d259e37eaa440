"""The examples of a command's help: a block of its own, on as many lines as a terminal of 80 columns needs."""

import inspect
import re
from collections.abc import Iterator

import typer

# Before a block that is shown as it stands.
_BLOCK = "\b\n"
_HEADING = "Examples:"
_WIDEST = 74


def lay_out_examples(app: typer.Typer) -> None:
    """Give every command of an app, and of the apps within it, help whose examples stand in a block."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.help = laid_out(command.callback.__doc__ or "")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            lay_out_examples(group.typer_instance)
    callback = app.registered_callback
    if callback is not None and callback.callback is not None and callback.callback.__doc__:
        callback.help = laid_out(callback.callback.__doc__)


def laid_out(docstring: str) -> str:
    """Lay out a docstring with its lines ``Example: ...``, which may go on on the next, as a block."""
    text, *examples = re.split(r"\bExample: ", inspect.cleandoc(docstring))
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n")).rstrip()
    if not examples:
        return text
    block = "\n".join(f"  {line}" for example in examples for line in _broken(example))
    return f"{text}\n\n{_BLOCK}{_HEADING}\n{block}"


def split(help_text: str) -> tuple[str, str]:
    """Split a command's help into words and the lines of its examples; empty without any."""
    text, _, block = help_text.partition(f"{_BLOCK}{_HEADING}\n")
    return " ".join(text.split()), "\n".join(line[2:] for line in block.splitlines())


def _broken(command: str) -> Iterator[str]:
    """Break a command into as many lines as it needs, each before a setting, the command or an option."""
    line = ""
    for piece in re.split(r" (?=--|PLUMBLINE_|plumbline )", " ".join(command.split())):
        if line and len(line) + 1 + len(piece) > _WIDEST:
            yield f"{line} \\"
            line = " "
        line += f" {piece}" if line else piece
    yield line
