"""``plumbline datasets``: the registered data sets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from plumbline.cli.completion import dataset_names
from plumbline.cli.output import AsJson, console_errors, console_out, plain_errors, print_json
from vfl.installed_plugins import error_line, installed_plugins, origin

if TYPE_CHECKING:
    from vfl.data.datasets import Dataset

app = typer.Typer(
    no_args_is_help=False, invoke_without_command=True, help="List the registered data sets, or fetch one."
)
# Packages tell who reads a data set: ``VERB = "module:function"``, from its name to names of what that verb runs.
_READERS = "plumbline.data_readers"


@app.callback()
def list_datasets(
    context: typer.Context,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of raw files; default: PLUMBLINE_DATA_DIR or data.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the registered data sets.

    Example: plumbline datasets
    Example: plumbline datasets fetch bank
    """
    if context.invoked_subcommand is not None:
        return
    from rich.table import Table

    from services.common.settings import load_settings
    from vfl.data import DATASETS, missing_files, sampled_rows

    with plain_errors():
        folder = data_dir or load_settings().data_dir
        readers = _readers(DATASETS)
        if as_json:
            print_json([_facts(one, folder, readers) for one in DATASETS.values()])
            return
        who = f" {', '.join(readers)}: who reads it." if readers else ""
        table = Table(title="Data sets", caption=f"Raw files are read from PLUMBLINE_DATA_DIR.{who}")
        for heading in ("name", "rows", "features", "classes", "here", *readers, "simulation"):
            table.add_column(heading, justify="right" if heading in ("rows", "features", "classes") else "left")
        for dataset in DATASETS.values():
            sample = sampled_rows(dataset.name, folder)
            here = "fetch it" if missing_files(dataset.name, folder) else f"{sample:,} rows" if sample else "yes"
            table.add_row(
                dataset.name,
                f"{dataset.rows:,}",
                str(dataset.features),
                str(dataset.classes),
                here,
                *(", ".join(read[dataset.name]) for read in readers.values()),
                " ".join(dataset.simulation),
            )
        Console().print(table)


def _readers(names: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Find who reads each data set, by verb; a package that can't tell is left out, and said to be."""
    readers_by_verb = {}
    for verb, (point, *_) in sorted(installed_plugins(_READERS).points.items()):
        try:
            readers = point.load()
            readers_by_verb[verb] = {name: list(readers(name)) for name in names}
        except (Exception, SystemExit) as error:
            console_errors.print(f"plumbline: {origin(point)} is left out of the list: {error_line(error)}")
    return readers_by_verb


def _facts(dataset: Dataset, folder: Path, readers: dict[str, dict[str, list[str]]]) -> dict[str, Any]:
    """List the facts on a data set; ``missing`` names the raw files that have to be fetched.

    ``sample`` is how many rows there are where only a published sample is there; ``readers`` are named by verb.
    """
    from vfl.data import missing_files, sampled_rows

    return {
        "name": dataset.name,
        "rows": dataset.rows,
        "features": dataset.features,
        "classes": dataset.classes,
        "missing": list(missing_files(dataset.name, folder)),
        "sample": sampled_rows(dataset.name, folder),
        **{verb: read[dataset.name] for verb, read in readers.items()},
        "simulation": list(dataset.simulation),
    }


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Name of the data set.", autocompletion=dataset_names)],
    data_dir: Annotated[Path | None, typer.Option(help="Where to put it; default: PLUMBLINE_DATA_DIR or data.")] = None,
) -> None:
    """Download a data set's raw files from OpenML or UCI and check their sums.

    Example: plumbline datasets fetch bank --data-dir data
    """
    from rich.progress import DownloadColumn, Progress, TimeRemainingColumn

    from services.common.settings import load_settings
    from vfl.data import dataset
    from vfl.data import fetch as fetch_files

    with plain_errors():
        if not dataset(name).files:
            console_out.print(f"{name} comes with scikit-learn: there is nothing to fetch.")
            return
    with plain_errors(), Progress(*Progress.get_default_columns()[:3], DownloadColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task(name, total=None)

        def show(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        folder = data_dir or load_settings().data_dir
        fetch_files(name, folder, show)
        bar.console.print(f"{name} is in {folder}.")
