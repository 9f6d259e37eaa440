"""Runs the cells of a sweep: those that aren't in the store yet, those that share a model together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from plumbline.simulation.rounds import Done, unwatched
from plumbline.sweep.cells import AttackCell, Cell, DataChoice, ModelChoice
from plumbline.sweep.measuring import NotApplicable, Shared, measure, prepare


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
    """
    shared: dict[Shared, Any] = {}
    found: dict[Cell, dict[str, Any]] = {}
    for number, cell in enumerate(cells, start=1):
        if cell not in found:
            on = cell.model if isinstance(cell, AttackCell) else cell.on
            if on is not None and on not in shared:
                shared[on] = prepare(on, options.data_dir)
            found[cell] = _outcome(cell, None if on is None else shared[on])
        options.done(number / len(cells))
    return pd.DataFrame([description(cell) | found[cell] for cell in cells])


def _outcome(cell: Cell, on: Any) -> dict[str, Any]:
    try:
        return {"status": "done", "reason": ""} | measure(cell, on)
    except NotApplicable as error:
        return {"status": "not applicable", "reason": str(error)}
    except Exception as error:
        return {"status": "failed", "reason": f"{type(error).__name__}: {error}"}


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
