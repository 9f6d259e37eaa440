"""Labels of a whole batch from the integer sums of one honest answer, by lattice reduction.

Sums of s rows over D columns of b-bit integers, each row taken or not, hold about D (b + log2(s) / 2) bits, and the
labels no more than s. So they mostly determine all labels long after s > D has made the equations unsolvable. To find
the labels is a subset-sum problem with D equations. Its integer solutions are one of them plus the lattice of all
integer vectors without any sums. The labels are the solution nearest to their mean, s - D dimensions below s.
"""

from dataclasses import dataclass

import numpy as np

from attacks.solving.lattices import KernelLattice, block_reduced, kernel_lattice, nearest_points
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.theory.label_sums import log2_other_labels

# log2 of how many other labels may be expected to fit by chance: to be reported at all, and to be called certain.
MOST_OTHERS = -7.0
CERTAIN = -30.0

_NONE, _SEVERAL = "no choice of labels fits", "several choices of labels fit"
_BLOCK, _BLOCK_WIDTH = 30, 300
# Bits per dimension of the lattice with which labels are easily found, and how near a column may come to others' span.
_VECTOR_BITS, _DEPENDENT = 5, 1e-9
# Bits per dimension of the longest vectors that are reduced: of few different rows, more columns would tell nothing.
_LONGEST_BITS = 40
# Partial combinations that a search keeps: most batches need few.
_WIDTHS = (1, 64, 4096)


@dataclass(frozen=True, eq=False)
class LatticeAnswer:
    """What lattice reduction found.

    Attributes:
        rows: (s,) whether each row is taken, the only solution found; None where there is none or several.
        certain: whether another solution is as good as impossible: fewer than 2^-30 are expected.
        reason: why there is no solution; empty when there is one.
    """

    rows: BoolArray | None
    certain: bool = False
    reason: str = ""


class RowSums:
    """Finds which rows make given sums. The work on the matrix is done once, for as many sums as there are columns.

    Arguments:
        matrix: (s, D) integers, below 2^53.
        most_rows: the most rows that are searched; what has as many independent equations as rows is solved.
        tours: how often blocks are reduced where LLL's basis isn't enough.
    """

    def __init__(self, matrix: IntArray, *, most_rows: int = 320, tours: int = 4) -> None:
        # What a column's entries have in common, such as the 2^16 of zeros and ones, tells nothing.
        divisors = np.maximum(np.gcd.reduce(matrix, axis=0), 1)
        self._every_column, self._divisors = matrix // divisors, divisors
        self._taken = _telling_columns(self._every_column)
        self._matrix = self._every_column[:, self._taken]
        self._most_rows, self._tours = most_rows, tours
        self._lattice: KernelLattice | None = None
        self._bases: list[IntArray] = []

    def find(self, sums: IntArray) -> LatticeAnswer:
        """Find the rows whose entries add up to the (D,) sums, exactly. Raises FlintMissing."""
        if (sums % self._divisors).any():
            return LatticeAnswer(None, reason=_NONE)
        sums = sums // self._divisors
        if (solved := self._solved(sums)) is not None:
            return LatticeAnswer(solved, True)
        if len(self._matrix) < 2 or not self._every_column.any():
            several = not (self._every_column.any() or sums.any())
            return LatticeAnswer(None, reason=_SEVERAL if several else _NONE)
        centre = self._share_of_rows(sums)
        rank, log2_volume = self._size()
        log2_others = log2_other_labels(len(self._matrix), rank, log2_volume, centre)
        if log2_others > MOST_OTHERS:
            return LatticeAnswer(None, reason=_ambiguous(log2_others))
        if len(self._matrix) > self._most_rows:
            return LatticeAnswer(None, reason=f"lattice_rows allows {self._most_rows} rows to be searched together")
        solutions = self._search(sums, centre)
        if not len(solutions):
            return LatticeAnswer(None, reason="no choice of labels that fits was found")
        return self._judged(solutions)

    def _solved(self, sums: IntArray) -> BoolArray | None:
        """Solve for the rows where there are enough independent equations: least squares, verified in whole numbers."""
        matrix = self._every_column
        if matrix.shape[1] < len(matrix):
            return None
        solution, _, rank, _ = np.linalg.lstsq(matrix.T.astype(np.float64), sums.astype(np.float64), rcond=None)
        rows: BoolArray = solution > 0.5
        return rows if rank == len(rows) and (matrix.T @ rows == sums).all() else None

    def _size(self) -> tuple[int, float]:
        """Rank, and log2 of the volume of the lattice or, before it is known, of the largest it can have."""
        if self._lattice is not None:
            return len(self._lattice.images), self._lattice.log2_volume
        return self._matrix.shape[1], float(np.log2(_heights(self._matrix)).sum())

    def _share_of_rows(self, sums: IntArray) -> float:
        """Guess how many of the rows are taken, by least squares of the sums on those of all rows."""
        everything, wanted = self._every_column.sum(axis=0).astype(np.float64), sums.astype(np.float64)
        share = float(everything @ wanted) / max(float(everything @ everything), 1.0)
        return float(np.clip(share, 1 / len(self._matrix), 1 - 1 / len(self._matrix)))

    def _search(self, sums: IntArray, centre: float) -> IntArray:
        """Find all solutions together, (found, s), by the least reduction that finds any."""
        lattice = self._reduced()
        start = lattice.point_with(sums[self._taken].astype(object))
        if start is None:
            return np.empty((0, len(self._matrix)), dtype=np.int64)
        middle = np.full(len(start), centre)
        start -= nearest_points(lattice.basis, start - middle, width=1)[0]
        solutions = start[None, :]
        for tour in range(self._tours + 1):
            basis = self._basis(tour)
            for width in _WIDTHS:
                solutions = start - nearest_points(basis, start - middle, width=width)
                solutions = solutions[((solutions == 0) | (solutions == 1)).all(axis=1)]
                solutions = np.unique(solutions[(solutions @ self._every_column == sums).all(axis=1)], axis=0)
                if len(solutions):
                    return solutions
        return solutions

    def _reduced(self) -> KernelLattice:
        if self._lattice is None:
            self._lattice = kernel_lattice(self._matrix)
            self._bases = [self._lattice.basis]
        return self._lattice

    def _basis(self, tours: int) -> IntArray:
        while len(self._bases) <= tours:
            self._bases.append(block_reduced(self._bases[-1], block=_BLOCK, width=_BLOCK_WIDTH)[0])
        return self._bases[tours]

    def _judged(self, solutions: IntArray) -> LatticeAnswer:
        """Tell whether a solution is the only one: none found beside it, no short step away, none to be expected."""
        solution = solutions[0]
        steps = np.vstack([solution + self._bases[-1], solution - self._bases[-1]])
        if len(solutions) > 1 or ((steps == 0) | (steps == 1)).all(axis=1).any():
            return LatticeAnswer(None, reason=_SEVERAL)
        rank, log2_volume = self._size()
        share = float(np.clip(solution.mean(), 1 / len(solution), 1 - 1 / len(solution)))
        log2_others = log2_other_labels(len(solution), rank, log2_volume, share)
        if log2_others > MOST_OTHERS:
            return LatticeAnswer(None, reason=_ambiguous(log2_others))
        return LatticeAnswer(solution == 1, log2_others <= CERTAIN)


def _telling_columns(matrix: IntArray) -> IntArray:
    """Find independent columns, and no more than are plenty: each makes the reduction take longer."""
    heights = _heights(matrix)
    bits = 0.0
    different = len(np.unique(matrix[matrix.any(axis=1)], axis=0))
    columns: list[int] = []
    for column in np.flatnonzero(heights > 0).tolist():
        plenty = max(_VECTOR_BITS * (len(matrix) - len(columns)), len(matrix) - 2 * CERTAIN)
        remaining = different - len(columns) - 1
        longer = bits + float(np.log2(heights[column]))
        # Rows that are alike have short vectors to themselves; those of what is left mustn't exceed whole numbers here.
        if bits > plenty or longer > _LONGEST_BITS * remaining:
            break
        bits = longer
        columns.append(column)
    return np.array(columns, dtype=np.int64)


def _heights(matrix: IntArray) -> FloatArray:
    """Measure the distance of each column from the span of those before it; 0 where it lies in that."""
    heights = np.abs(np.diag(np.linalg.qr(matrix.astype(np.float64), mode="r")))
    norms = np.linalg.norm(matrix[:, : len(heights)].astype(np.float64), axis=0)
    return np.where(heights > _DEPENDENT * norms, heights, 0.0)


def _ambiguous(log2_others: float) -> str:
    if log2_others > 0:
        return f"about 2^{log2_others:.0f} choices of labels fit"
    return f"another choice of labels fits with probability 2^{log2_others:.0f}"
