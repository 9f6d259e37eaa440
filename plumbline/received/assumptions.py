"""What is assumed of received columns by their kind, and what looks otherwise: clipped or binned scores."""

from collections.abc import Iterator, Sequence

import numpy as np

from plumbline.received.kinds import SCORES, Kind, ReceivedColumn
from plumbline.telling.numbers import percent
from vfl.arrays import FloatArray
from vfl.data import TypedTable
from vfl.data.faults import counted, quoted

# How each kind is read.
ASSUMED: dict[Kind, str] = {
    "probability": "read as log-odds, neither clipped nor binned; trained on whatever it was",
    "log-odds": "read as they are, neither clipped nor binned; trained on whatever it was",
    "points": "read as they are, neither clipped nor binned; trained on whatever it was",
    "category": "read as names of groups: near numbers aren't alike",
    "embedding": "read as numbers, all of one model",
    "explanation": "read as numbers, a share of the score each, all of one model",
    "gradient": "read as numbers, all of one step",
}
# From which share of rows at one end on a score looks clipped, and up to how many values it looks binned.
_CLIPPED, _BINNED, _LEAST_ROWS = 0.02, 20, 200


def doubts(table: TypedTable, columns: Sequence[ReceivedColumn]) -> Iterator[str]:
    """Say which scores look clipped or binned, a sentence each without a cell.

    Args:
        table: what was received.
        columns: what its columns are.
    """
    for column in columns:
        if column.kind not in SCORES:
            continue
        values: FloatArray = table.frame[column.name].dropna().to_numpy(np.float64)
        distinct = len(np.unique(values))
        if len(values) < _LEAST_ROWS or distinct < 2:
            continue
        low, high = (float((values == end).mean()) for end in (values.min(), values.max()))
        if distinct <= _BINNED:
            yield (
                f"{quoted(column.name)} has {counted(distinct, 'value')} in {len(values):,} rows: was it binned? Finer "
                "scores of the same model would tell more. It is read as numbers; --kind COLUMN=category reads names."
            )
        elif max(low, high) >= _CLIPPED:
            end = "largest" if high >= low else "smallest"
            yield (
                f"{percent(max(low, high))} of {quoted(column.name)} have its {end} value: was it clipped? Unclipped, "
                "it would tell more of these records."
            )
