"""The command's verbs, ours and those that packages bring by an entry point: ``NAME = "module:app"`` in the group
``plumbline.verbs``.

Such an object is a Typer app, or a function that Typer makes a command of. It is imported when it is asked for.
"""

from collections.abc import Iterator
from contextlib import contextmanager
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
# Ours, in the order of the help: where each is, and what the list of all says of it.
OURS = {
    "serve": ("services:serving", "Run one service of a federation until it is stopped."),
    "certs": (
        "services:certs",
        "Make a certificate authority and one certificate per role: coordinator, active, passive parties, operator.",
    ),
    "doctor": (
        "doctor:doctor",
        "Look at what a service needs before its first session, with the settings that `plumbline serve` would have.",
    ),
    "preflight": (
        "preflight:preflight",
        "Bound what a passive party's own table will leak of itself by predictions, before it joins.",
    ),
    "audit": ("audits:audit", "Run a federation of local processes, attack it, and report what leaked."),
    "judge": (
        "judging_received:judge",
        "Judge what was received, or will be: what its receiver, who also knows some records, learns of secret "
        "columns.",
    ),
    "train": (
        "operators:train",
        "Have a running federation align, agree and train, and watch it. The job goes on without its watcher.",
    ),
    "cancel": (
        "operators:cancel",
        "End the job that a running federation is at, at every party. The model that it serves stays.",
    ),
    "predict": ("operators:predict", "Ask a running federation for confidence scores, as CSV or JSON."),
    "status": (
        "watching:status",
        "Show what a running federation is doing, its parties and its model, and what stands against a prediction.",
    ),
    "attacks": ("plugins:attacks", "List the attacks, or show one with its options."),
    "defences": ("plugins:defences", "List the defences, or show one with its options."),
    "report": (
        "reports:report",
        "Judge a run once more, and write its report again from its folder; or tell what one party may know of a "
        "session.",
    ),
    "ui": (
        "reports:ui",
        "Show the runs of a folder in a browser of this machine until Ctrl-C: list, filter, compare, open reports.",
    ),
    "whatif": (
        "what_if:whatif",
        "Say which columns of an audited federation could go or be coarser, and what that costs in AUC.",
    ),
    "runs": (
        "reports:app",
        "List the runs of a folder, newest first: what each asked, how it ended, and what it found.",
    ),
    "new": (
        "new_plugins:new",
        "Write a package of an attack, a defence, a learner or a protocol, with its test, into a folder of its name.",
    ),
    "state": ("state:app", "Show what a party keeps across restarts, or forget it."),
    "log": ("audit_logs:app", "Look whether a party's audit log is what was written."),
    "datasets": ("datasets:app", "List the registered data sets."),
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
            place, sentence = OURS[cmd_name]
            if self._lists:
                return TyperCommand(cmd_name, help=sentence)
            return _command(cmd_name, EntryPoint(cmd_name, f"{__package__}.{place}", GROUP).load())
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
