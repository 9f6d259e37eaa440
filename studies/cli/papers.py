"""``plumbline figures``: the papers' experiments, redrawn by one command each."""

import inspect
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand

from plumbline.cli.completion import plugin_names
from plumbline.cli.output import INTERRUPTED, UNEXPECTED, console_errors, plain_errors
from studies.catalogue import STUDIES, StudyEntry, StudyOption, load_study

app = typer.Typer(no_args_is_help=True, help="Redraw a paper's experiments by one command.")
_FOLDER = Path("runs/figures")


@app.callback()
def _figures() -> None:
    """The papers' experiments, beside what the papers state."""


class _StudyCommand(TyperCommand):
    """A study's command, whose help lists its sections; they are read when somebody asks for help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        known = ", ".join(load_study(self.name or "").sections)
        for parameter in self.params:
            if parameter.name == "section":
                parameter.help = f"One of {known}; may be given several times. Default: all."  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def _run(  # the options that all studies have
    entry: StudyEntry,
    own: Mapping[str, Any],
    section: Annotated[list[str] | None, typer.Option(help="One section; may be given several times.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small samples: to see that it works, not to quote.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The first seed of models, splits and simulated noise.")] = 0,
    brought: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            help="Draw an attack or a defence into the figures: NAME or NAME:option=value.",
            autocompletion=plugin_names,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default: one per processor.", show_default=False)
    ] = None,
    dask: Annotated[
        str | None, typer.Option(help="A Dask scheduler, tcp://host:port, instead of this machine.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of raw files; default: PLUMBLINE_DATA_DIR or data.")
    ] = None,
    store: Annotated[Path, typer.Option(help="Where finished measurements are kept.")] = Path("runs/cells"),
    out: Annotated[Path, typer.Option(help="Where to write.")] = _FOLDER,
) -> None:
    from services.common.settings import load_settings
    from studies.brought_plugins import brought as plugins_of
    from studies.figures.index_page import write_index
    from studies.figures.running import run_study
    from studies.measurements import SweepOptions
    from studies.study import StudyRun

    name = next(name for name, one in STUDIES.items() if one is entry)
    with plain_errors():
        attacks, defences = plugins_of(brought or ())
        sweep = SweepOptions(store=store, data_dir=data_dir or load_settings().data_dir, workers=workers, dask=dask)
        run = StudyRun(sweep, quick=quick, seed=seed, attacks=attacks, defences=defences, options=own)
        console = Console()
        try:
            outcome = run_study(load_study(name), out, run, sections=section, command=_typed(name), console=console)
        except KeyboardInterrupt as stopped:
            console_errors.print(
                f"plumbline: Interrupted: finished sections are in {out}, finished measurements in {store}, and the "
                "same command goes on from there."
            )
            raise typer.Exit(INTERRUPTED) from stopped
        console.print(f"Report: {outcome.page}", highlight=False, soft_wrap=True)
        if out == _FOLDER / name:
            console.print(f"All studies: {write_index(_FOLDER)}", highlight=False, soft_wrap=True)
    for words in outcome.undrawn:
        console_errors.print(f"plumbline: {words} is in none of these sections: they compare no such thing.")
    for words in outcome.left_out:
        console_errors.print(f"plumbline: Left out of {words}")
    if outcome.failures or outcome.left_out:
        failed = ", ".join(outcome.failures) or "some measurements"
        console_errors.print(f"plumbline: {failed} failed; the page says why.", style="red")
        raise typer.Exit(UNEXPECTED)


def _typed(name: str) -> str:
    """The command as a user would type it again."""
    words = sys.argv[1:] if sys.argv[1:3] == ["figures", name] else ["figures", name]
    return shlex.join(["plumbline", *words])


def _command_of(name: str, entry: StudyEntry) -> Callable[..., None]:
    """The command of one study: the options of all, and its own."""

    def command(**given: Any) -> None:
        own = {one.name: _value(one, given.pop(one.name)) for one in entry.options}
        _run(entry, own, **given)

    common = [one for one in inspect.signature(_run).parameters.values() if one.name not in ("entry", "own")]
    common = [one.replace(default=_FOLDER / name) if one.name == "out" else one for one in common]
    parameters = [*map(_parameter, entry.options), *common]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__doc__ = f"{entry.help}\n\nExample: plumbline figures {name} {entry.example}".rstrip()
    return command


def _parameter(option: StudyOption) -> inspect.Parameter:
    """An option of a study as typer takes it."""
    default: Any = option.default
    if isinstance(default, bool):
        kind: Any = Annotated[bool, typer.Option(f"--{option.name.replace('_', '-')}", help=option.help)]
    elif isinstance(default, int):
        kind = Annotated[int, typer.Option(min=1, help=option.help)]
    else:
        kind, default = Annotated[list[str] | None, typer.Option(help=option.help)], list(default) or None
    return inspect.Parameter(option.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)


def _value(option: StudyOption, given: Any) -> Any:
    return tuple(given or ()) if isinstance(option.default, tuple) else given


for _name, _entry in STUDIES.items():
    app.command(_name, cls=_StudyCommand)(_command_of(_name, _entry))


@app.command()
def index(folder: Annotated[Path, typer.Option(help="The folder that has a folder per study.")] = _FOLDER) -> None:
    """Write the page that leads to every study, with what came out in each.

    Example: plumbline figures index
    """
    from studies.figures.index_page import write_index

    with plain_errors():
        typer.echo(write_index(folder))
