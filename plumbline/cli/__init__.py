"""The command ``plumbline``: what it says of itself, and of what somebody typed. Its verbs are in `verbs`."""

import sys
from typing import Annotated

import typer

from plumbline import __version__
from plumbline.cli.output import console_errors, console_out
from plumbline.cli.verbs import Verbs

_STATUSES = """\b
Exit status: 0 done; 1 something unexpected, or what `doctor` finds wrong; 2 a
mistake that you can mend, in a sentence; 3 more leaked than --fail-above
allows; 130 interrupted.
Every command that prints results takes --json. TAB completes names once you
have run `plumbline --install-completion`."""

app = typer.Typer(
    cls=Verbs, no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False, epilog=_STATUSES
)


def _show_version(wanted: bool) -> None:
    if wanted:
        console_out.print(f"plumbline {__version__}")
        raise typer.Exit


@app.callback()
def plumbline(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run a real vertical federation, attack it, defend it, and report what leaked."""
    if sys.platform == "win32":
        # Services are stopped by signals and private keys protected by file modes; nobody has tried either there.
        console_errors.print(
            "plumbline: Windows lacks what Plumbline needs: run it inside WSL (`wsl --install`).", style="red"
        )
        raise typer.Exit(2)


# typer keeps click's errors to itself, but for this one.
_CLICK_ERROR = typer.BadParameter.__mro__[2]


# How commands take tables, for who names these alone.
_TABLES = {"audit": "--active TABLE --passive TABLE", "judge": "--own TABLE --received TABLE --secret TABLE"}


def usage_error(error: Exception) -> str | None:
    """Say what is wrong with a command line; None for an error of another kind.

    Empty for a command that shows its help when nothing is asked of it.
    """
    if isinstance(error, typer.Abort):
        return "Nothing was done."
    if not isinstance(error, _CLICK_ERROR):
        return None
    sentence = _value_words(error) or " ".join(str(error.format_message()).split())  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    # A command that lacks an option says so before it looks at what was given without one.
    if sentence.startswith(("Got unexpected extra argument", "Missing option")) and context is not None:
        tables = _TABLES.get(context.info_name, "")
        sentence = f"{sentence.rstrip('.')}. Tables are given as {tables}." if tables else sentence
    if not sentence or context is None:
        return sentence
    return f"{sentence}{'' if sentence.endswith(('.', '?')) else '.'} See `{context.command_path} --help`."


def _value_words(error: Exception) -> str:
    """Say what an option takes in place of what it was given; empty where that isn't what is wrong."""
    from pydantic_core import ValidationError

    from services.common.value_faults import fault_words

    parameter, cause = getattr(error, "param", None), error.__cause__
    if parameter is None or not isinstance(cause, ValidationError):
        return ""
    fault = cause.errors(include_url=False)[0]
    named = max(parameter.opts, key=len) if parameter.param_type_name == "option" else parameter.name.upper()
    sentence = f"{named}: {fault_words(fault)}"
    if fault["type"] == "value_error":
        return sentence
    # Who thinks of per cent.
    is_part = fault["type"] == "less_than_equal" and fault["ctx"]["le"] == 1
    return f"{sentence}, got {fault['input']!r}.{' It is a part: 0.5 is 50 %.' if is_part else ''}"
