"""A sweep's file from start to end: what is missing and known, a folder with its results, and these on a terminal."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from plumbline.terminal import shown_text
from services.common.durable import write_durably
from studies.measurements.descriptions import Measurement
from studies.measurements.engine import SweepOptions, measure_all
from studies.measurements.keys import data_of, digest_of_data, key_of
from studies.measurements.store import SweepStopped, open_store
from studies.simulation.scaled_tables import SYNTHETIC
from studies.sweeping.file import Sweep
from vfl.data import DatasetNotFound, missing_files

RESULTS, GRID = "results.parquet", "sweep.toml"
# What one row of the means is of; d and the attack always, the others where they vary.
_ALWAYS = ("dataset", "attack")
_VARYING = (
    *("data_options", "model", "trainer", "model_options", "defence", "access", "records"),
    *("auxiliary", "moments", "delivered", "undo"),
)


@dataclass(frozen=True)
class Tally:
    """What became of measurements.

    Attributes:
        done: measured ones.
        not_applicable: those whose attack or defence can't work there.
        failed: those that ended in an error.
        reasons: status, reason and how many measurements, the most frequent first.
    """

    done: int
    not_applicable: int
    failed: int
    reasons: tuple[tuple[str, str, int], ...]


def missing_data(names: Iterable[str], data_dir: Path | None) -> str:
    """Say which data sets lack raw files and how to get them; empty where none does."""
    missing = {name: missing_files(name, data_dir) for name in names if name != SYNTHETIC}
    lacking = [name for name, files in missing.items() if files]
    if not lacking:
        return ""
    files = "; ".join(f"{name}: {', '.join(missing[name])}" for name in lacking)
    place = "No folder of raw files is named: there are none" if data_dir is None else f"{data_dir}/ lacks raw files"
    commands = " && ".join(f"plumbline datasets fetch {name}" for name in lacking)
    return f"{place} of {files}. Get them with: {commands}. Or set PLUMBLINE_DATA_DIR to where they are."


def known_measurements(measurements: Sequence[Measurement], options: SweepOptions) -> int:
    """Count the measurements whose results are kept already; those of missing data sets aren't."""
    if options.store is None or not options.store.is_dir():
        return 0
    keys = [key for measurement in measurements if (key := _key(measurement, options.data_dir))]
    with open_store(options.store) as store:
        found = store.read(keys)
    return sum(key in found and found[key].status != "failed" for key in keys)


def _key(measurement: Measurement, data_dir: Path | None) -> str:
    try:
        return key_of(measurement, digest_of_data(data_of(measurement), data_dir))
    except DatasetNotFound:
        return ""


def run_sweep(sweep: Sweep, grid: bytes, folder: Path, options: SweepOptions) -> pd.DataFrame:
    """Measure a sweep's measurements, and write ``sweep.toml`` and ``results.parquet`` (``measure_all``) into a folder.

    Args:
        sweep: what to measure.
        grid: its file, which is copied.
        folder: for the results.
        options: how it is run.

    Raises:
        DatasetNotFound: when raw files are missing; it names them all.
        OSError: when the folder can't be written: before anything is measured, as far as one can know.
    """
    if said := missing_data(sweep.datasets, options.data_dir):
        raise DatasetNotFound(said)
    write_durably(folder / GRID, grid, private=False)
    results = measure_all(sweep.measurements, options)
    try:
        write_durably(folder / RESULTS, lambda file: results.to_parquet(file, index=False), private=False)
    except OSError as error:
        kept = (
            f" All measurements are kept in {options.store}: the same command then measures nothing."
            if options.store
            else ""
        )
        raise SweepStopped(
            f"{folder / RESULTS} can't be written ({error.strerror or error}): free the disk, or choose another --out."
            f"{kept}"
        ) from error
    return results


def tally_of(results: pd.DataFrame) -> Tally:
    """Count what became of measurements, from their ``status`` and ``reason``."""
    counts = Counter(results["status"])
    pairs = zip(results["status"], results["reason"], strict=True)
    reasons = Counter((status, reason) for status, reason in pairs if status != "done").most_common()
    told = tuple((*what, count) for what, count in reasons)
    return Tally(counts["done"], counts["not applicable"], counts["failed"], told)


def means_of(results: pd.DataFrame) -> pd.DataFrame:
    """Average errors over windows and seeds: a row per attack and d, and per value of all else that varies.

    Columns: dataset, attack, what varies of models, defences and knowledge for one attack, d, ``mse``, ``guess``,
    ``federation_part`` and ``measurements``: how many measured ones were averaged.
    """
    done = results[results["status"] == "done"]
    if done.empty:
        return pd.DataFrame(columns=[*_ALWAYS, "d", "mse", "guess", "federation_part", "cells"])
    # What only tells attacks apart is no column of its own.
    there = [name for name in _VARYING if name in done]
    varying = [name for name in there if (done.groupby(["dataset", "attack"])[name].nunique() > 1).any()]
    grouped = done.groupby([*_ALWAYS, *varying, "d"], sort=False)
    means = grouped[["mse", "guess", "federation_part"]].mean()
    return means.assign(cells=grouped.size()).reset_index()


def facts_of(results: pd.DataFrame, folder: Path) -> dict[str, Any]:
    """The results as JSON has them: ``folder``, counts, ``reasons`` and ``means``."""
    tally = tally_of(results)
    return {
        "folder": str(folder),
        "cells": len(results),
        "done": tally.done,
        "not_applicable": tally.not_applicable,
        "failed": tally.failed,
        "reasons": [{"status": one, "reason": why, "cells": count} for one, why, count in tally.reasons],
        "means": means_of(results).to_dict("records"),
    }


# As wide as a terminal: more values of d stand in the file.
_MOST_SIZES = 7
_MOST_REASONS = 12


def print_results(console: Console, results: pd.DataFrame) -> None:
    """Show mean errors with the number of measurements behind each, and why measurements have none."""
    means = means_of(results)
    for dataset, own in means.groupby("dataset", sort=False):
        console.print(_table(str(dataset), own.drop(columns="dataset")))
    tally = tally_of(results)
    counts = f"{tally.done:,} measurements done, {tally.not_applicable:,} not applicable, {tally.failed:,} failed."
    console.print(counts, highlight=False, style="bold" if not tally.failed else "bold red")
    for status, reason, count in tally.reasons[:_MOST_REASONS]:
        console.print(shown_text(f"{count:,} {status}: {reason}"), highlight=False, soft_wrap=True)
    if (more := len(tally.reasons) - _MOST_REASONS) > 0:
        console.print(f"{more} more reasons stand in the results.", highlight=False)


def _table(dataset: str, means: pd.DataFrame) -> Table:
    """One data set: a row per attack and all else that varies, a column per d."""
    sizes = _spread(sorted(means["d"].unique()))
    shown = Table(
        title=f"{dataset}: mean squared error per feature (measurements)",
        caption="" if len(sizes) == means["d"].nunique() else "Some d; the results have all.",
    )
    keys = [name for name in means.columns if name not in ("d", "mse", "guess", "federation_part", "cells")]
    for name in keys:
        shown.add_column(name, overflow="fold")
    for size in sizes:
        shown.add_column(f"d = {size}", justify="right")
    for values, own in means.groupby(keys, sort=False):
        at = own.set_index("d")
        measurements = (f"{at.mse[size]:.4f} ({at.cells[size]})" if size in at.index else "" for size in sizes)
        shown.add_row(*(shown_text(str(value)) for value in values), *measurements)
    return shown


def _spread(sizes: Sequence[int]) -> list[int]:
    """At most so many of them, the first and the last among them."""
    if len(sizes) <= _MOST_SIZES:
        return list(sizes)
    last = len(sizes) - 1
    return [sizes[round(step * last / (_MOST_SIZES - 1))] for step in range(_MOST_SIZES)]
