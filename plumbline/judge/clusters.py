"""Which records are one person: the tests of what columns give away count persons, not ids.

A table may have a person under two ids. Both records tell the same: two of them are no better evidence than one.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from services.common.run_records import PartyFeatures
from vfl.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Clusters:
    """Records by the person that they are of.

    Attributes:
        numbers: (n,) of each record's person, from 0, in the order of their first records.

    Examples:
        >>> Clusters.of(np.array([[0.5, 1.0], [0.25, 1.0], [0.5, 1.0]]), np.zeros(2)).numbers
        array([0, 1, 0])
    """

    numbers: IntArray

    @classmethod
    def of(cls, cells: FloatArray, roundings: FloatArray) -> "Clusters":
        """Find the records that are equal in every column, or that rounding may have parted.

        Nearness is handed on: the ends of a chain of near records are one person as well.

        Args:
            cells: (n, d) of all parties' columns.
            roundings: (d,) the step to which a column was rounded, so that what was equal is one step apart at most; 0
                for a column whose every difference counts.
        """
        is_rounded = roundings > 0
        steps = np.rint(cells[:, is_rounded] / roundings[is_rounded])
        distinct, row = np.unique(np.column_stack([cells[:, ~is_rounded], steps]), axis=0, return_inverse=True)
        pairs = _near(*np.split(distinct, [int((~is_rounded).sum())], axis=1))
        graph = coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(len(distinct), len(distinct)))
        person = connected_components(graph, directed=False)[1][row]
        _, first, number = np.unique(person, return_index=True, return_inverse=True)
        return cls(np.argsort(np.argsort(first))[number])

    @classmethod
    def alone(cls, records: int) -> "Clusters":
        """Take every record for a person."""
        return cls(np.arange(records))

    @property
    def count(self) -> int:
        """How many persons there are."""
        return int(self.numbers.max(initial=-1)) + 1

    def summed(self, losses: FloatArray) -> FloatArray:
        """Add up (n, m) losses of each person's records, (persons, m), by a factor that leaves the mean over rows."""
        if self.count == len(self.numbers):
            return losses
        order = np.argsort(self.numbers, kind="stable")
        starts = np.searchsorted(self.numbers[order], np.arange(self.count))
        sums: FloatArray = np.add.reduceat(losses[order], starts, axis=0) * (self.count / len(losses))
        return sums


def roundings_of(features: PartyFeatures) -> FloatArray:
    """Tell the step to which a party rounded each of its columns, (d,), a session's fixed point.

    0 for columns on a grid of their own, which are as exact as the table, and where older runs don't say it.
    """
    if features.steps is None or features.widths is None:
        return np.zeros(features.features.shape[1])
    return np.where(features.widths == "full", features.steps, 0.0)


def _near(exact: FloatArray, steps: FloatArray) -> IntArray:
    """List pairs of different rows, (p, 2), that are equal in ``exact`` and one step apart at most in ``steps``.

    Rows are compared that lie near each other on a line which all columns are projected on: a tree of many columns
    would look at most of them.
    """
    if not steps.size:
        return np.empty((0, 2), dtype=np.int64)
    weights: FloatArray = np.random.default_rng(0).uniform(1, 2, (steps.shape[1],))
    place, reach = steps @ weights, weights.sum() + 1.0
    place += np.unique(exact, axis=0, return_inverse=True)[1] * (np.ptp(place) + 2 * reach)
    order = np.argsort(place)
    ahead = np.searchsorted(place[order], place[order] + reach, side="right") - np.arange(len(order)) - 1
    first = np.repeat(np.arange(len(order)), ahead)
    second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(ahead) - ahead, ahead)
    first, second = order[first], order[second]
    for column in steps.T:
        is_near = np.abs(column[first] - column[second]) <= 1
        first, second = first[is_near], second[is_near]
    return np.column_stack([first, second])
