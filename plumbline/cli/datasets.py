"""``plumbline datasets``: the registered data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from plumbline.cli.completion import dataset_names
from plumbline.cli.output import AsJson, console_out, plain_errors, print_json
from studies.catalogue import studies_on

if TYPE_CHECKING:
    from vfl.data.datasets import Dataset

app = typer.Typer(
    no_args_is_help=False, invoke_without_command=True, help="List the registered data sets, or fetch one."
)


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
        if as_json:
            print_json([_facts(one, folder) for one in DATASETS.values()])
            return
        table = Table(title="Data sets", caption="Raw files are read from PLUMBLINE_DATA_DIR. figures: who reads it.")
        for heading in ("name", "rows", "features", "classes", "here", "figures", "simulation"):
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
                ", ".join(studies_on(dataset.name)),
                " ".join(dataset.simulation),
            )
        Console().print(table)


def _facts(dataset: Dataset, folder: Path) -> dict[str, Any]:
    """What the list says of a data set; ``missing`` names the raw files that have to be fetched.

    ``sample`` is how many rows there are where only a published sample is there; ``figures`` names the studies on it.
    """
    from vfl.data import missing_files, sampled_rows

    return {
        "name": dataset.name,
        "rows": dataset.rows,
        "features": dataset.features,
        "classes": dataset.classes,
        "missing": list(missing_files(dataset.name, folder)),
        "sample": sampled_rows(dataset.name, folder),
        "figures": list(studies_on(dataset.name)),
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
