"""``plumbline sweep``: a grid of attacks on models, from a file."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from plumbline.cli.output import (
    INTERRUPTED,
    UNEXPECTED,
    AsJson,
    console_errors,
    console_out,
    plain_errors,
    print_json,
)
from plumbline.terminal import shown_text
from studies.sweeping.sweeping import means_of, tally_of

if TYPE_CHECKING:
    from plumbline.cells import SweepOptions
    from plumbline.job_progress import RunProgress
    from studies.sweeping.file import Sweep

app = typer.Typer()
_FILE = """\b
A file, whose lists multiply (examples/sweep.toml has every key):

  data = ["breast_cancer", "wine"]
  attacks = ["half_star", { name = "gia", init = ["zero", "half"] }]
  defences = ["none", { name = "score_rounding", decimals = 2 }]
  records = 100

  \\[split]
  d = [1, 4, 8]
  windows = 4
  seeds = [0, 1]"""


@app.command(epilog=_FILE)
def sweep(
    file: Annotated[Path, typer.Argument(help="The grid, in TOML: see below.", show_default=False)],
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default: one per processor.", show_default=False)
    ] = None,
    dask: Annotated[
        str | None, typer.Option(help="A Dask scheduler, tcp://host:port, instead of this machine.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of raw files; default: PLUMBLINE_DATA_DIR or data.")
    ] = None,
    store: Annotated[Path, typer.Option(help="Where finished cells are kept.")] = Path("runs/cells"),
    out: Annotated[
        Path | None, typer.Option(help="Where to write; default: runs/sweeps/NAME.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many cells there are, and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a grid of attacks on models trained in one place (SIMULATION), each cell once.

    Cells that are finished are kept: an interrupted sweep goes on where it was, and what a figure has measured before
    isn't measured again.

    Example: plumbline sweep examples/sweep.toml --dry-run
    Example: plumbline sweep examples/sweep.toml --workers 2
    """
    from plumbline.cells import SweepOptions
    from plumbline.job_progress import shown_progress
    from services.common.settings import load_settings
    from studies.cli.sweeps import print_results
    from studies.sweeping.file import read_sweep
    from studies.sweeping.sweeping import RESULTS, facts_of, run_sweep, tally_of

    with plain_errors():
        asked = read_sweep(file)
        folder = out or Path("runs/sweeps") / asked.name
        options = SweepOptions(store, data_dir or load_settings().data_dir, workers, dask)
        if dry_run:
            _say_size(asked, options, as_json=as_json)
            return
        try:
            with shown_progress(console_errors) as progress:
                progress.stage(asked.name, "%")
                results = run_sweep(asked, file.read_bytes(), folder, replace(options, done=_percent(progress)))
        except KeyboardInterrupt as stopped:
            console_errors.print(
                f"plumbline: Interrupted: finished cells are kept in {store}, and the same command goes on from there."
            )
            raise typer.Exit(INTERRUPTED) from stopped
        if as_json:
            print_json(facts_of(results, folder))
        else:
            print_results(console_out, results)
            console_out.print(f"Results: {folder / RESULTS}")
    if failed := tally_of(results).failed:
        console_errors.print(
            f"plumbline: {failed:,} {'cell' if failed == 1 else 'cells'} failed: the reasons are in {folder / RESULTS}"
            ", and the same command tries again.",
            style="red",
        )
        raise typer.Exit(UNEXPECTED)


def _percent(progress: "RunProgress") -> Callable[[float], None]:
    return lambda share: progress.at(int(100 * share), 100)


def _say_size(asked: "Sweep", options: "SweepOptions", *, as_json: bool) -> None:
    """How many cells there are, how many are known, and which data sets are missing."""
    from studies.sweeping.sweeping import known_cells, missing_data

    known, missing = known_cells(asked.cells, options), missing_data(asked.datasets, options.data_dir)
    if as_json:
        facts = {"name": asked.name, "cells": len(asked.cells), "known": known, "datasets": list(asked.datasets)}
        print_json({**facts, "missing": missing})
        return
    console_out.print(f"{asked.name}: {len(asked.cells):,} cells, {known:,} of them known already.")
    if missing:
        console_out.print(missing)


# As wide as a terminal: more values of d stand in the file.
_MOST_SIZES = 7
_MOST_REASONS = 12


def print_results(console: Console, results: pd.DataFrame) -> None:
    """Show mean errors with the number of cells behind each, and why cells have none."""
    means = means_of(results)
    for dataset, own in means.groupby("dataset", sort=False):
        console.print(_table(str(dataset), own.drop(columns="dataset")))
    tally = tally_of(results)
    counts = f"{tally.done:,} cells done, {tally.not_applicable:,} not applicable, {tally.failed:,} failed."
    console.print(counts, highlight=False, style="bold" if not tally.failed else "bold red")
    for status, reason, count in tally.reasons[:_MOST_REASONS]:
        console.print(shown_text(f"{count:,} {status}: {reason}"), highlight=False, soft_wrap=True)
    if (more := len(tally.reasons) - _MOST_REASONS) > 0:
        console.print(f"{more} more reasons stand in the results.", highlight=False)


def _table(dataset: str, means: pd.DataFrame) -> Table:
    """One data set: a row per attack and all else that varies, a column per d."""
    sizes = _spread(sorted(means["d"].unique()))
    shown = Table(
        title=f"{dataset}: mean squared error per feature (cells)",
        caption="" if len(sizes) == means["d"].nunique() else "Some d; the results have all.",
    )
    keys = [name for name in means.columns if name not in ("d", "mse", "guess", "federation_part", "cells")]
    for name in keys:
        shown.add_column(name, overflow="fold")
    for size in sizes:
        shown.add_column(f"d = {size}", justify="right")
    for values, own in means.groupby(keys, sort=False):
        at = own.set_index("d")
        cells = (f"{at.mse[size]:.4f} ({at.cells[size]})" if size in at.index else "" for size in sizes)
        shown.add_row(*(shown_text(str(value)) for value in values), *cells)
    return shown


def _spread(sizes: Sequence[int]) -> list[int]:
    """At most so many of them, the first and the last among them."""
    if len(sizes) <= _MOST_SIZES:
        return list(sizes)
    last = len(sizes) - 1
    return [sizes[round(step * last / (_MOST_SIZES - 1))] for step in range(_MOST_SIZES)]
