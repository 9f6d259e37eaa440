"""The command's verbs, ours and those that packages bring by an entry point: ``NAME = "module:app"`` in the group
``plumbline.verbs``.

Such an object is a Typer app, or a function that Typer makes a command of. It is imported when it is asked for.
"""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from plumbline.cli.examples import lay_out_examples
from plumbline.cli.output import MENDABLE, console_errors
from vfl.installed_plugins import error_line, installed_plugins, origin

GROUP = "plumbline.verbs"
# Ours, in the order of the help: where each is.
OURS = {
    "serve": "services:serving",
    "certs": "services:certs",
    "doctor": "doctor:doctor",
    "preflight": "preflight:preflight",
    "audit": "audits:audit",
    "judge": "judging_received:judge",
    "train": "operators:train",
    "cancel": "operators:cancel",
    "predict": "operators:predict",
    "status": "watching:status",
    "attacks": "plugins:attacks",
    "defences": "plugins:defences",
    "report": "reports:report",
    "ui": "reports:ui",
    "whatif": "what_if:whatif",
    "runs": "reports:app",
    "new": "new_plugins:new",
    "state": "state:app",
    "log": "audit_logs:app",
    "datasets": "datasets:app",
}
# Options that a command of its own has, and a verb of another's hasn't.
_OF_THE_WHOLE = ("install_completion", "show_completion")


class Verbs(TyperGroup):
    """The command with its own verbs and, after them, what packages bring.

    The list of all imports nothing but what this distribution brings by an entry point: others' code may do anything.
    """

    _lists = False

    @cached_property
    def _found(self) -> tuple[dict[str, tuple[EntryPoint, ...]], dict[str, tuple[EntryPoint, ...]]]:
        """What packages bring, and what of it has the name of one of ours, which stays."""
        brought, left_out = {}, {}
        for name, points in sorted(installed_plugins(GROUP).points.items()):
            our_points = tuple(filter(_is_ours, points))
            if our_points or name in OURS:
                left_out[name] = tuple(point for point in points if point not in our_points)
            if name not in OURS:
                brought[name] = our_points or points
        return brought, left_out

    @property
    def _brought(self) -> dict[str, tuple[EntryPoint, ...]]:
        return self._found[0]

    def _say_left_out(self, name: str) -> None:
        for point in self._found[1].get(name, ()):
            console_errors.print(
                f"plumbline: {name} of {origin(point)} is left out: Plumbline itself has a verb of that name. "
                "Uninstall it, or register it under another.",
                style="red",
            )

    @contextmanager
    def _listing(self) -> Iterator[None]:
        """Have verbs found as the list of all needs them: by name and sentence."""
        self._lists = True
        try:
            yield
        finally:
            self._lists = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, and say what is left out of it."""
        with self._listing():
            super().format_help(ctx, formatter)
        for name in self._found[1]:
            self._say_left_out(name)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """List the names that begin so."""
        with self._listing():
            return super().shell_complete(ctx, incomplete)

    def list_commands(self, ctx: Any) -> list[str]:
        """List all names, in the order of the help."""
        return [*OURS, *self._brought]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Find a verb; None for a name that there isn't."""
        if cmd_name in OURS:
            if self._lists:
                return TyperCommand(cmd_name, help=_first_paragraph(cmd_name))
            return _command(cmd_name, EntryPoint(cmd_name, f"{__package__}.{OURS[cmd_name]}", GROUP).load())
        points = self._brought.get(cmd_name)
        if points is None:
            return None
        if self._lists and not all(map(_is_ours, points)):
            return TyperCommand(cmd_name, help=f"Of {' and '.join(map(origin, points))}.")
        return _loaded(cmd_name, points)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb that somebody typed; where there is none, say which are alike."""
        self._say_left_out(args[0])
        # Who proposes one takes it from these.
        self.commands = dict.fromkeys(self.list_commands(ctx))  # type: ignore[assignment]
        return super().resolve_command(ctx, args)


def _first_paragraph(name: str) -> str:
    """Read what a verb of ours says of itself first, or of the verb without another one; nothing is imported for it."""
    source = Path(__file__).with_name(f"{OURS[name].partition(':')[0]}.py").read_text(encoding="utf-8")
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    said = next(node for node in functions if node.name in (name, f"list_{name}"))
    return " ".join((ast.get_docstring(said) or "").partition("\n\n")[0].split())


def _is_ours(point: EntryPoint) -> bool:
    return point.dist is not None and point.dist.name == "plumbline"


def _loaded(name: str, points: tuple[EntryPoint, ...]) -> Any:
    """Load a verb's command; one that says what is wrong with it where it can't be had."""
    if len(points) > 1:
        return _refusing(name, f"It is brought by {' and by '.join(map(origin, points))}: uninstall one of them.")
    try:
        return _command(name, points[0].load())
    except ModuleNotFoundError as error:
        return _refusing(name, _missing(points[0], error))
    except (Exception, SystemExit) as error:
        return _refusing(name, f"{origin(points[0])} fails here: {error_line(error)}")


def _command(name: str, target: Any) -> Any:
    """Make a command of a Typer app or of a function."""
    app = target if isinstance(target, typer.Typer) else typer.Typer(add_completion=False)
    if app is not target:
        app.command()(target)
    lay_out_examples(app)
    command: Any = get_command(app)
    command.name = name
    command.params = [one for one in command.params if one.name not in _OF_THE_WHOLE]
    return command


def _missing(point: EntryPoint, error: ModuleNotFoundError) -> str:
    """Say what to install where a library isn't here; an entry point may name the extra that has it."""
    package = point.dist.name if point.dist is not None else ""
    extras = f"[{','.join(point.extras)}]" if point.extras else ""
    cure = f": pip install '{package}{extras}'" if package else ""
    return f"It needs {error.name}, which isn't installed{cure}."


def _refusing(name: str, sentence: str) -> Any:
    """Make a command that takes anything, and ends with a sentence."""

    def refuse() -> None:
        console_errors.print(f"plumbline: {name} can't be used. {sentence}", style="red")
        raise typer.Exit(MENDABLE)

    return TyperCommand(
        name,
        callback=refuse,
        help=f"Can't be used. {sentence}",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
