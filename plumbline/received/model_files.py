"""A model as a file: what it sends of the records in the tables, and whether scores that were handed in are its own.

Formats are read by plugins (entry points ``plumbline.models``). Nothing is unpickled.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from plumbline.received.judge_request import OWN, RECEIVED, SECRET, SENT, JudgeRequest
from plumbline.received.kinds import SCORES, kinds_of
from plumbline.received.known_records import with_known
from services.common.run_files import RunFolderError
from vfl.arrays import FloatArray, IntArray
from vfl.data import Table, TypedTable, common_order, rows_of, typed_table_of
from vfl.data.faults import TableError, counted, name_list, quoted, row_list
from vfl.plugin_registry import PluginRegistry

if TYPE_CHECKING:
    import pandas as pd

ENTRY_POINT_GROUP = "plumbline.models"
# Scores that differ by more are of another model.
TOLERANCE = 1e-6


class SentModel(Protocol):
    """A model whose scores, or leaf numbers, are sent.

    Examples:
        >>> model: SentModel = read_model(Path("model.json"))
        >>> model.inputs, model.assumed
        (('age', 'income'), 'A linear model of 2 columns, link logit, not clipped or rounded.')
    """

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns that it reads."""

    @property
    def assumed(self) -> str:
        """What its reader takes for granted, a sentence."""

    def scores(self, cells: "pd.DataFrame") -> Mapping[str, FloatArray]:
        """Compute the score, (n,), on every scale that it may be sent on; the first is the usual one.

        Args:
            cells: n rows of its columns: numbers, dates as days since 1970, categories as text; NaN for gaps.

        Raises:
            TableError: for cells that it can't read; the sentence has none of them.
        """

    def leaves(self, cells: "pd.DataFrame") -> IntArray:
        """Find which leaf of each tree a record falls into, (n, trees); (n, 0) of a model without trees."""


class ModelReader(Protocol):
    """Reads one format of files."""

    def read(self, path: Path) -> SentModel | None:
        """Read a model, or None where the file is of another format; raises ValueError for a broken one."""


class UnknownModelReader(ValueError):
    """No reader of models has this name."""


REGISTRY = PluginRegistry(
    "reader of models",
    ENTRY_POINT_GROUP,
    {
        "linear": "plumbline.received.linear_file:LinearReader",
        "xgboost": "plumbline.received.xgboost_file:XgboostReader",
    },
    UnknownModelReader,
)


def read_model(path: Path) -> SentModel:
    """Read a model by the first reader that knows its format.

    Raises:
        TableError: where none does, and for a file that is broken or missing.
    """
    if not path.is_file():
        raise TableError(f"--model: there is no file {quoted(path.name)}. Check the path.")
    try:
        for name in REGISTRY.usable():
            model: SentModel | None = REGISTRY.load(name).read(path)
            if model is not None:
                return model
    except RunFolderError as error:
        raise TableError(f"--model: {error}") from None
    raise TableError(
        f"--model {path.name} is no model that a reader knows ({', '.join(REGISTRY.names())}): write a linear one as "
        "docs/how-to/received.md has it, or save XGBoost's with save_model('model.json')."
    )


def with_model(
    request: JudgeRequest, tables: Mapping[str, TypedTable]
) -> tuple[dict[str, TypedTable], tuple[str, ...]]:
    """Set known records beneath the tables, and beside them what ``--model`` sends, unless it was handed in.

    Returns:
        The tables, and sentences on the model.

    Raises:
        TableError: for a model of another table, and for scores that aren't the model's.
    """
    file = request.tables.model
    if not file:
        return with_known(request, tables), ()
    model = read_model(Path(file))
    if RECEIVED in tables:
        return with_known(request, tables), (model.assumed, check_scores(model, request, tables))
    tables = with_known(request, tables)
    return {**tables, RECEIVED: sent_by(model, request, tables)}, (model.assumed,)


def sent_by(model: SentModel, request: JudgeRequest, tables: Mapping[str, TypedTable]) -> TypedTable:
    """Compute what a model sends of the records that both tables have, as a table of what was received.

    Raises:
        TableError: for a model of another table, and for leaves of one without any.
    """
    ids = common_order(set(tables[OWN].ids) & set(tables[SECRET].ids))
    cells, columns = _cells(model, tables, ids), dict[str, FloatArray]()
    sends = request.tables.sends or SENT[:1]
    if "scores" in sends:
        columns["score"] = next(iter(model.scores(cells).values()))
    if "leaves" in sends:
        leaves = model.leaves(cells).astype(np.float64)
        if not leaves.shape[1]:
            raise TableError("--sends leaves: this model has no trees. Leave it out, for scores.")
        columns |= {f"leaf_{number}": leaf for number, leaf in enumerate(leaves.T, start=1)}
    return typed_table_of(Table(tuple(ids), np.column_stack(list(columns.values())), tuple(columns)))


def check_scores(model: SentModel, request: JudgeRequest, tables: Mapping[str, TypedTable]) -> str:
    """Compare the scores that were handed in with the model's, and say of which column they are.

    Raises:
        TableError: where no column is a score, and where the nearest differs by more than a millionth: in which rows.
    """
    received = tables[RECEIVED]
    ids = common_order(set.intersection(*(set(table.ids) for table in tables.values())))
    rows, scores = rows_of(received.ids, ids), model.scores(_cells(model, tables, ids)).values()
    names = [one.name for one in kinds_of(received, request.tables.kinds, ()) if one.kind in SCORES]
    if not names:
        raise TableError("--model: no column that was received is a score, so none can be the model's. Leave it out.")
    handed = {name: received.frame[name].to_numpy(np.float64)[rows] for name in names}
    compared = [
        (~np.isclose(column, score, rtol=TOLERANCE, atol=TOLERANCE), name)
        for name, column in handed.items()
        for score in scores
    ]
    differs, name = min(compared, key=lambda one: int(one[0].sum()))
    if differs.any():
        raise TableError(
            f"{quoted(name)} isn't this model's score: {counted(int(differs.sum()), 'row')} of {len(ids):,} differ by "
            f"more than {TOLERANCE:g} ({row_list(sorted(rows[differs] + 1))}). Was it rounded, or is it of another "
            "model or table? Leave out --received, and what the model sends is computed."
        )
    return f"{quoted(name)} is this model's score, in all of {counted(len(ids), 'row')}."


def _cells(model: SentModel, tables: Mapping[str, TypedTable], ids: Sequence[str]) -> "pd.DataFrame":
    """Collect the columns that a model reads from the tables that have them, in the order of these ids."""
    import pandas as pd

    owners = {name: [part for part in (OWN, SECRET) if name in tables[part].frame] for name in model.inputs}
    if missing := [name for name, parts in owners.items() if not parts]:
        raise TableError(
            f"--model is of another table: it reads {name_list(missing)}, which neither --own nor --secret has, or "
            "which is left out there (--encode COLUMN=number keeps a constant one)."
        )
    if twice := [name for name, parts in owners.items() if len(parts) > 1]:
        raise TableError(f"--own and --secret both have {name_list(twice)}, which the model reads: rename one of them.")
    frames = {part: tables[part].frame.iloc[rows_of(tables[part].ids, ids)] for part in (OWN, SECRET)}
    return pd.DataFrame({name: frames[part][name].array for name, (part,) in owners.items()})


def numbers_of(cells: "pd.DataFrame", name: str) -> FloatArray:
    """Read a column as numbers, (n,), NaN for gaps; raises TableError where it is text."""
    if cells[name].dtype == "category":
        raise TableError(f"--model is of another table: it reads {quoted(name)} as numbers, and here it is text.")
    numbers: FloatArray = cells[name].to_numpy(np.float64)
    return numbers
