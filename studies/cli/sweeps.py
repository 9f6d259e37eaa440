"""``plumbline sweep``: a grid of attacks on models, from a file."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plumbline.cli.output import INTERRUPTED, UNEXPECTED, AsJson, console_errors, console_out, plain_errors, print_json

if TYPE_CHECKING:
    from plumbline.job_progress import RunProgress
    from studies.measurements import SweepOptions
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
    store: Annotated[Path, typer.Option(help="Where finished measurements are kept.")] = Path("runs/cells"),
    out: Annotated[
        Path | None, typer.Option(help="Where to write; default: runs/sweeps/NAME.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many measurements there are, and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a grid of attacks on models trained in one place (SIMULATION), each measurement once.

    What is finished is kept: an interrupted sweep goes on where it was, and what a figure has measured before isn't
    measured again.

    Example: plumbline sweep examples/sweep.toml --dry-run
    Example: plumbline sweep examples/sweep.toml --workers 2
    """
    from plumbline.job_progress import shown_progress
    from services.common.settings import load_settings
    from studies.measurements import SweepOptions
    from studies.sweeping.file import read_sweep
    from studies.sweeping.sweeping import RESULTS, facts_of, print_results, run_sweep, tally_of

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
                f"plumbline: Interrupted: finished measurements are kept in {store}, and the same command goes on from "
                "there."
            )
            raise typer.Exit(INTERRUPTED) from stopped
        if as_json:
            print_json(facts_of(results, folder))
        else:
            print_results(console_out, results)
            console_out.print(f"Results: {folder / RESULTS}")
    if failed := tally_of(results).failed:
        console_errors.print(
            f"plumbline: {failed:,} measurement{'s' if failed > 1 else ''} failed: the reasons are in "
            f"{folder / RESULTS}, and the same command tries again.",
            style="red",
        )
        raise typer.Exit(UNEXPECTED)


def _percent(progress: "RunProgress") -> Callable[[float], None]:
    return lambda share: progress.at(int(100 * share), 100)


def _say_size(asked: "Sweep", options: "SweepOptions", *, as_json: bool) -> None:
    """How many measurements there are, how many are known, and which data sets are missing."""
    from studies.sweeping.sweeping import known_measurements, missing_data

    known, missing = known_measurements(asked.measurements, options), missing_data(asked.datasets, options.data_dir)
    if as_json:
        facts = {"name": asked.name, "cells": len(asked.measurements), "known": known, "datasets": list(asked.datasets)}
        print_json({**facts, "missing": missing})
        return
    console_out.print(f"{asked.name}: {len(asked.measurements):,} measurements, {known:,} of them known already.")
    if missing:
        console_out.print(missing)
