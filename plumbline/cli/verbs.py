"""The command's verbs that packages bring by an entry point: ``NAME = "module:app"`` in the group ``plumbline.verbs``.

Such an object is a Typer app, or a function that Typer makes a command of.
"""

from functools import cached_property
from importlib.metadata import EntryPoint
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from plumbline.cli.examples import lay_out_examples
from plumbline.cli.output import MENDABLE, console_errors
from vfl.installed_plugins import error_line, installed_plugins, origin

GROUP = "plumbline.verbs"
# Options that a command of its own has, and a verb of another's hasn't.
_OF_THE_WHOLE = ("install_completion", "show_completion")


class Verbs(TyperGroup):
    """The command with its own verbs and, after them, what packages bring; a verb is imported when it is asked for.

    The list of all imports those of this distribution only: others' code may do anything.
    """

    @cached_property
    def _found(self) -> tuple[dict[str, tuple[EntryPoint, ...]], dict[str, tuple[EntryPoint, ...]]]:
        """What packages bring, and what of it has the name of one of ours, which stays."""
        brought, left_out = {}, {}
        for name, points in sorted(installed_plugins(GROUP).points.items()):
            own = tuple(filter(_is_ours, points))
            if own or name in self.commands:
                left_out[name] = tuple(point for point in points if point not in own)
            if name not in self.commands:
                brought[name] = own or points
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

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, and say what is left out of it."""
        super().format_help(ctx, formatter)
        for name in self._found[1]:
            self._say_left_out(name)

    def list_commands(self, ctx: Any) -> list[str]:
        """List all names, in the order of the help."""
        return [*super().list_commands(ctx), *(name for name in self._brought if name not in self.commands)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Find a verb as the list shows it; None for a name that there isn't."""
        if cmd_name in self.commands or cmd_name not in self._brought:
            return super().get_command(ctx, cmd_name)
        points = self._brought[cmd_name]
        if all(map(_is_ours, points)):
            return _loaded(cmd_name, points)
        return TyperCommand(cmd_name, help=f"Of {' and '.join(map(origin, points))}.")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb that somebody typed, and import it."""
        self._say_left_out(args[0])
        if args[0] not in self.commands:
            verbs = {name: self.get_command(ctx, name) for name in self._brought if name != args[0]}
            if args[0] in self._brought:
                verbs = {args[0]: _loaded(args[0], self._brought[args[0]])}
            self.commands.update(verbs)
        return super().resolve_command(ctx, args)


def _is_ours(point: EntryPoint) -> bool:
    return point.dist is not None and point.dist.name == "plumbline"


def _loaded(name: str, points: tuple[EntryPoint, ...]) -> Any:
    """Load a verb's command; one that says what is wrong with it where it can't be had."""
    if len(points) > 1:
        return _refusing(name, f"It is brought by {' and by '.join(map(origin, points))}: uninstall one of them.")
    try:
        found = points[0].load()
        app = found if isinstance(found, typer.Typer) else typer.Typer(add_completion=False)
        if app is not found:
            app.command()(found)
        lay_out_examples(app)
        command: Any = get_command(app)
    except ModuleNotFoundError as error:
        return _refusing(name, _missing(points[0], error))
    except (Exception, SystemExit) as error:
        return _refusing(name, f"{origin(points[0])} fails here: {error_line(error)}")
    command.name = name
    command.params = [one for one in command.params if one.name not in _OF_THE_WHOLE]
    return command


def _missing(point: EntryPoint, error: ModuleNotFoundError) -> str:
    """Say what to install where a library isn't here; an entry point may name the extra that has it."""
    package = point.dist.name if point.dist is not None else ""
    extras = f"[{','.join(point.extras)}]" if point.extras else ""
    cure = f": pip install '{package}{extras}'" if package else ""
    return f"It needs {error.name}, which isn't installed{cure}."


def _refusing(name: str, words: str) -> Any:
    """Make a command that takes anything, and ends with a sentence."""

    def refuse() -> None:
        console_errors.print(f"plumbline: {name} can't be used. {words}", style="red")
        raise typer.Exit(MENDABLE)

    return TyperCommand(
        name,
        callback=refuse,
        help=f"Can't be used. {words}",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
