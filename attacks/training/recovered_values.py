"""How attacks name the arrays of the features that they recover, by peer; the run folder reads them back by it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attacks.base import Json
from vfl.adversary_words import GUESSES_OF, ROWS_OF, VALUES_OF
from vfl.arrays import FloatArray, IntArray


def value_arrays(
    values: Mapping[str, FloatArray], rows: Mapping[str, IntArray] | None = None
) -> dict[str, NDArray[Any]]:
    """Name the values of every peer, and the rows that they are of.

    Arguments:
        values: by peer, (n,) one column in the common order or (m, d) rows of features.
        rows: by peer, (m,) which records, as rows of the common order; None for columns.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for peer, columns in values.items():
        if rows is not None:
            arrays[ROWS_OF + peer] = rows[peer]
        arrays[VALUES_OF + peer] = columns
    return arrays


@dataclass(frozen=True, eq=False)
class EstimatedFeatures:
    """Passive features of training records, as they are believed to be.

    Attributes:
        rows: (m,) which records, as indices in the common order; those known in full are left out.
        values: by peer, (m, d).
        guesses: by peer, (m, d): what is guessed without the federation; empty for public ranges alone.
        errors: mean squares on known records that were left out, by how they were estimated; empty where none was.
        reason: why nothing is estimated; empty when something is.
        numbers: what else the attack says of how they came about.
    """

    kind: ClassVar[str] = "estimates"
    rows: IntArray
    values: Mapping[str, FloatArray]
    guesses: Mapping[str, FloatArray]
    errors: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    numbers: Mapping[str, Json] = field(default_factory=dict)

    def facts(self) -> Mapping[str, Json]:
        """Errors on known records that were left out, for each way and without the federation."""
        return {
            "left_out_errors": dict(self.errors),
            "records": len(self.rows),
            **self.numbers,
            "reason": self.reason,
        }

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Give rows and values of every peer, and what is guessed without the federation."""
        guesses = {GUESSES_OF + peer: values for peer, values in self.guesses.items()}
        return {**value_arrays(self.values, dict.fromkeys(self.values, self.rows)), **guesses}


def by_peer(peers: Mapping[str, int], values: FloatArray) -> dict[str, FloatArray]:
    """Split the columns of all peers, (m, D), by peer."""
    ends = np.cumsum(list(peers.values()))[:-1]
    return dict(zip(peers, np.split(values, ends, axis=1), strict=True))
