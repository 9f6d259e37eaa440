"""A sweep's file from start to end: what is missing and what is known, and a folder with its results."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from plumbline.cells.cells import Cell
from plumbline.cells.engine import SweepOptions, run_cells
from plumbline.cells.keys import data_of, digest_of_data, key_of
from plumbline.cells.store import SweepStopped, open_store
from plumbline.simulation.scaled_tables import SYNTHETIC
from services.common.durable import write_durably
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
    """What became of cells.

    Attributes:
        done: measured ones.
        not_applicable: those whose attack or defence can't work there.
        failed: those that ended in an error.
        reasons: status, reason and how many cells, the most frequent first.
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


def known_cells(cells: Sequence[Cell], options: SweepOptions) -> int:
    """Count the cells whose results are kept already; those of missing data sets aren't."""
    if options.store is None or not options.store.is_dir():
        return 0
    keys = [key for cell in cells if (key := _key(cell, options.data_dir))]
    with open_store(options.store) as store:
        found = store.read(keys)
    return sum(key in found and found[key].status != "failed" for key in keys)


def _key(cell: Cell, data_dir: Path | None) -> str:
    try:
        return key_of(cell, digest_of_data(data_of(cell), data_dir))
    except DatasetNotFound:
        return ""


def run_sweep(sweep: Sweep, grid: bytes, folder: Path, options: SweepOptions) -> pd.DataFrame:
    """Measure a sweep's cells, and write ``sweep.toml`` and ``results.parquet`` (``run_cells``) into a folder.

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
    results = run_cells(sweep.cells, options)
    try:
        write_durably(folder / RESULTS, lambda file: results.to_parquet(file, index=False), private=False)
    except OSError as error:
        raise SweepStopped(_unwritten(folder, options.store, error)) from error
    return results


def _unwritten(folder: Path, store: Path | None, error: OSError) -> str:
    kept = f" All cells are kept in {store}: the same command then measures nothing." if store else ""
    why = error.strerror or error
    return f"{folder / RESULTS} can't be written ({why}): free the disk, or choose another --out.{kept}"


def tally_of(results: pd.DataFrame) -> Tally:
    """Count what became of cells, from their ``status`` and ``reason``."""
    counts = Counter(results["status"])
    reasons = Counter(
        (status, reason)
        for status, reason in zip(results["status"], results["reason"], strict=True)
        if status != "done"
    )
    return Tally(
        counts["done"],
        counts["not applicable"],
        counts["failed"],
        tuple((*what, count) for what, count in reasons.most_common()),
    )


def means_of(results: pd.DataFrame) -> pd.DataFrame:
    """Average errors over windows and seeds: a row per attack and d, and per value of all else that varies.

    Columns: dataset, attack, what varies of models, defences and knowledge for one attack, d, ``mse``, ``guess``,
    ``federation_part`` and ``cells``: how many measured ones were averaged.
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
