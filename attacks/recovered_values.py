"""How attacks name the arrays of the features that they recover, by peer; the run folder reads them back by it."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from vfl.arrays import FloatArray, IntArray

# Before a peer's name.
VALUES_OF, ROWS_OF, GUESSES_OF = "values-", "rows-", "guesses-"


def value_arrays(
    values: Mapping[str, FloatArray], rows: Mapping[str, IntArray] | None = None
) -> dict[str, NDArray[Any]]:
    """Name the values of every peer, and the rows that they are of.

    Arguments:
        values: by peer, (n,) one column in the common order or (m, d) rows of features.
        rows: by peer, (m,) which records, as rows of the common order; None for columns.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for peer, found in values.items():
        if rows is not None:
            arrays[ROWS_OF + peer] = rows[peer]
        arrays[VALUES_OF + peer] = found
    return arrays
