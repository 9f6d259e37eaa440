"""Columns of 0 and 1 from what a network's passive parties forward, with nothing known of any record (ours).

The products Z = X W of one step span the columns of X, where W has at least as many columns as X and full rank. A
column of 0 and 1 is then a combination of Z's that is 0 or 1 in every record. It is settled by its values in as many
records as Z has rank: all these 2^rank patterns are tried on the others, and by chance none passes.

Of more directions there are too many patterns. But all combinations of Z that are whole numbers in every record form a
lattice, and columns of 0 and 1 are short in it: LLL finds a basis, and the columns are sums of a few of its vectors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from attacks.base import AttackSpec, Json, require
from attacks.solving.lattices import FlintMissing, has_flint, lll_reduced
from attacks.training_views import TrainingView
from vfl.arrays import FloatArray, IntArray

# Of Z's largest direction: products are whole numbers of 2^-32.
_RANK = 1e-6
# How far from 0 or 1 rounding may leave a value.
_NEAR = 1e-3
# Records that a pattern is tried on at a time, and how many more than the rank there must be for chance to pass none.
_AT_A_TIME, _MORE = 8, 40
# Of more directions not all patterns are tried, but a lattice is reduced.
_ALL_PATTERNS = 16
# Of a lattice: directions and further records at most, how much a whole number missed counts, and how near is whole.
_MOST_DIRECTIONS, _MOST_RECORDS, _WEIGHT, _WHOLE = 64, 90, 1 << 20, 0.1


@dataclass(frozen=True, eq=False)
class BinaryValues:
    """Columns of 0 and 1 that follow, whosever and whatever they are.

    Attributes:
        rows: (s,) which records, as indices in the common order.
        values: (s, m), a column each; none of them holds another, or is all but another.
        rank: of what was forwarded.
        reason: why there is none; empty when there is one.
    """

    kind: ClassVar[str] = "binary columns"
    rows: IntArray
    values: FloatArray
    rank: int
    reason: str = ""

    def facts(self) -> Mapping[str, Json]:
        """Tell how many columns follow, of how many records, and how often each is 1."""
        return {
            "columns": self.values.shape[1],
            "records": len(self.rows),
            "ones": self.values.sum(axis=0).astype(int).tolist(),
            "rank": self.rank,
            "reason": self.reason,
        }

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Give rows and values."""
        return {"rows": self.rows, "values": self.values}


@dataclass(frozen=True)
class BinaryColumns:
    """Finds the columns of 0 and 1 in the largest batch.

    All of them where there are few directions. Of more it finds those that are sums of at most three vectors of a
    reduced basis; the last category of a column whose others are found may be missing.
    """

    name: ClassVar[str] = "binary_columns"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="training",
        needs=("forwarded",),
        source="ours",
        learners=("network",),
        summary="reads columns of 0 and 1 off a network's forwarded first layer, with no record known",
        cost="a second",
    )

    def attack(self, view: TrainingView) -> BinaryValues:
        """Find the columns of the batch with most records. Raises ViewError for a passive party's view."""
        require(self, view)
        largest = max(view.forwarded, key=lambda step: len(step.rows))
        values = binary_values(largest.rows, largest.products)
        columns = sum(view.peer_features.values())
        if view.columns < columns and values.rank == view.columns:
            reason = f"Not possible: {view.columns} units for {columns} columns, so that units hide them."
            return BinaryValues(largest.rows, np.zeros((len(largest.rows), 0)), values.rank, reason)
        return values


def binary_values(rows: IntArray, products: FloatArray) -> BinaryValues:
    """Find the columns of 0 and 1 that (s, h) products span, of records that are (s,) rows of the common order."""
    _, triangle, order = qr(products.T, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    rank = int((sizes > _RANK * max(float(sizes.max(initial=0.0)), 1e-300)).sum())
    reason = ""
    if rank > _MOST_DIRECTIONS or len(rows) < rank + _MORE:
        reason = (
            f"Not possible: {rank} directions of {len(rows)} records; at most {_MOST_DIRECTIONS}, and {_MORE} "
            "records more than directions."
        )
    elif rank > _ALL_PATTERNS and not has_flint():
        reason = f"Not possible: of {rank} directions {FlintMissing()}"
    if reason:
        return BinaryValues(rows, np.zeros((len(rows), 0)), rank, reason)
    # What every record's values are, of values in the first ``rank`` records of the order.
    settled = products @ np.linalg.pinv(products[order[:rank]])
    values = _irreducible(_binary(settled, order[rank:]) if rank <= _ALL_PATTERNS else _short(settled, order[rank:]))
    reason = "" if values.shape[1] else "Not possible: no column of the passive parties has but 0 and 1."
    return BinaryValues(rows, values, rank, reason)


def _binary(settled: FloatArray, records: IntArray) -> FloatArray:
    """Find all columns of 0 and 1, (s, m), that the (s, rank) matrix has, but for constants."""
    rank = settled.shape[1]
    patterns = (np.arange(1, 1 << rank)[:, None] >> np.arange(rank) & 1).astype(np.float64)
    for first in range(0, len(records), _AT_A_TIME):
        values = patterns @ settled[records[first : first + _AT_A_TIME]].T
        nearest = np.clip(np.rint(values), 0, 1)
        patterns = patterns[(np.abs(values - nearest) < _NEAR).all(axis=1)]
    columns = np.abs(np.rint(settled @ patterns.T))
    return columns[:, np.ptp(columns, axis=0) > 0]


def _short(settled: FloatArray, records: IntArray) -> FloatArray:
    """Columns of 0 and 1, (s, m), among sums of up to three vectors of the lattice of whole columns."""
    basis = _whole_columns(settled, records)
    binary: dict[bytes, FloatArray] = {}
    for number, first in enumerate(basis):
        later = basis[number + 1 :]
        pairs = [first + sign * one for one in later for sign in (1, -1)]
        sums = [first[None], *(pair[None] for pair in pairs)]
        sums += [pair + sign * later[at // 2 + 1 :] for at, pair in enumerate(pairs) for sign in (1, -1)]
        for candidates in sums:
            for columns in (candidates, -candidates):
                is_binary = ((columns == 0) | (columns == 1)).all(axis=1) & (np.ptp(columns, axis=1) > 0)
                binary |= {column.tobytes(): column for column in columns[is_binary]}
    return np.column_stack(list(binary.values())) if binary else np.zeros((len(settled), 0))


def _whole_columns(settled: FloatArray, records: IntArray) -> FloatArray:
    """Find a reduced basis of the columns of whole numbers that the (s, rank) matrix has, (m, s)."""
    rank = settled.shape[1]
    sample = records[: min(3 * rank, _MOST_RECORDS)]
    # Whole values in the first records, beside what they miss of whole ones in others.
    scaled = np.rint(_WEIGHT * settled[sample].T).astype(np.int64)
    modulo = np.hstack([np.zeros((len(sample), rank), dtype=np.int64), _WEIGHT * np.eye(len(sample), dtype=np.int64)])
    reduced = lll_reduced(np.vstack([np.hstack([np.eye(rank, dtype=np.int64), scaled]), modulo]))
    columns = settled @ reduced[:, :rank].T
    rounded = np.rint(columns)
    is_whole = (np.abs(columns - rounded) < _WHOLE).all(axis=0) & rounded.any(axis=0)
    if not is_whole.any():
        return np.zeros((0, len(settled)))
    # By length in all records, so that what is 1 in few of them comes out by itself.
    basis = lll_reduced(rounded[:, is_whole].T.astype(np.int64))
    return basis[basis.any(axis=1)].astype(np.float64)


def _irreducible(columns: FloatArray) -> FloatArray:
    """Keep those of (s, m) columns that hold no smaller one, as sums of categories do, and aren't the rest of one."""
    smallest: list[FloatArray] = []
    for column in columns[:, columns.sum(axis=0).argsort(kind="stable")].T:
        if not any((one <= column).all() or (one + column == 1).all() for one in smallest):
            smallest.append(column)
    return np.column_stack(smallest) if smallest else columns[:, :0]
