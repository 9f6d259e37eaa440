"""Runs the cells of a sweep: those that aren't in the store yet, those that share a model together."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from plumbline.simulation.rounds import Done, unwatched
from plumbline.sweep.cells import AttackCell, Cell, DataChoice, ModelChoice, plain
from plumbline.sweep.jobs import outcome_of
from plumbline.sweep.keys import canonical, data_of, digest_of_data, key_of, shared_of, versions_of
from plumbline.sweep.measuring import prepare
from plumbline.sweep.outcomes import Outcome
from plumbline.sweep.store import ResultStore, open_store


@dataclass(frozen=True)
class SweepOptions:
    """How a sweep is run. None of it enters a result.

    Attributes:
        store: folder of finished cells; None keeps none.
        data_dir: of raw files.
        workers: processes; None for the processors of this process.
        dask: address of a Dask scheduler, None for this machine.
        done: told which share of the cells is done.
    """

    store: Path | None = None
    data_dir: Path | None = None
    workers: int | None = None
    dask: str | None = None
    done: Done = unwatched


def run_cells(cells: Sequence[Cell], options: SweepOptions) -> pd.DataFrame:
    """Measure the cells that the store lacks, and return a row per cell in their order.

    Columns: what describes the cell (``description``), ``status`` (done, not applicable, failed), ``reason``, and every
    measure; a measure that a cell doesn't have is NaN. A failed cell stops nothing.

    Raises:
        DatasetNotFound: when raw files are missing.
        SweepStopped: when finished cells can't be kept.
    """
    keys = [key_of(cell, digest_of_data(data_of(cell), options.data_dir)) for cell in cells]
    with _opened(options.store) as store:
        found = {key: one for key, one in store.read(keys).items() if one.status != "failed"} if store else {}
        missing = {key: cell for key, cell in zip(keys, cells, strict=True) if key not in found}
        options.done(_share(found, missing))
        for outcomes in _measured(missing, options):
            found |= outcomes
            if store:
                store.append(_row(key, missing[key], outcome) for key, outcome in outcomes.items())
            options.done(_share(found, missing))
    return pd.DataFrame([description(cell) | found[key].columns for key, cell in zip(keys, cells, strict=True)])


def _share(found: Mapping[str, Outcome], missing: Mapping[str, Cell]) -> float:
    everything = found.keys() | missing.keys()
    return len(found) / len(everything) if everything else 1.0


def _opened(folder: Path | None) -> AbstractContextManager[ResultStore | None]:
    return nullcontext() if folder is None else open_store(folder)


def _measured(missing: Mapping[str, Cell], options: SweepOptions) -> Iterator[dict[str, Outcome]]:
    """Measure cells, those that share a model together, and tell of some at a time."""
    groups: dict[str, list[str]] = {}
    for key, cell in missing.items():
        groups.setdefault(canonical(plain(shared_of(cell))), []).append(key)
    for keys in groups.values():
        on = shared_of(missing[keys[0]])
        prepared = None if on is None else prepare(on, options.data_dir)
        for key in keys:
            yield {key: outcome_of(missing[key], prepared)}


def _row(key: str, cell: Cell, outcome: Outcome) -> dict[str, object]:
    return {"key": key, "cell": canonical(plain(cell)), "versions": canonical(versions_of(cell))} | asdict(outcome)


def description(cell: Cell) -> dict[str, Any]:
    """The columns that describe a cell in a table of results.

    Of an attack: dataset, model, trainer, seed, d, start (its first column), attack (with options), defence (all of
    them, "none" without), access, records, auxiliary. Of a task: function, what it is on, and its
    options.
    """
    if isinstance(cell, AttackCell):
        return {
            **_of_model(cell.model),
            "d": len(cell.passive),
            "start": cell.passive[0],
            "attack": cell.attack.words,
            "defence": " + ".join(one.words for one in cell.defences) or "none",
            "access": cell.access,
            "records": cell.records,
            "auxiliary": cell.auxiliary,
        }
    return {"function": cell.function.partition(":")[2], **_of_model(cell.on), **dict(cell.options)}


def _of_model(on: ModelChoice | DataChoice | None) -> Mapping[str, Any]:
    if on is None:
        return {}
    if isinstance(on, DataChoice):
        return {"dataset": on.name}
    return {"dataset": on.data.name, "model": on.kind, "trainer": on.trainer, "seed": on.seed}
