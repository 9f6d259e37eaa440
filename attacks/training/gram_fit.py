"""All inner products of passive records from a network's hidden sums, with no record known (ours).

The label party reads, at step t, the sums Z_t = X_B W_t of a batch B. It made the backward signals, the optimiser is
public, so that of W_t = c_t W_0 - X^T A_t it knows c_t and A_t. In any basis Y of the columns' span, X = Y C,

    Z_t = Y_B (c_t V - G M_t),   V = C W_0,   G = C C^T,   M_t = Y^T A_t

is linear in (V, G): no start decides where that ends. Weights that move over an epoch mix the first span with others:
a wider one is taken first; what its V and G say of all steps has the span of X alone. Then rows of Y and (V, G)
are found in turns (alternating least squares) until all sums are as they were. Y G Y^T = X X^T is what is known then:
X up to one rotation of its columns, which no sum tells, as rotated columns and weights give the same sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
from scipy.linalg import LinAlgError, solve
from scipy.signal import lfilter

from attacks.training_views import Forwarded
from attacks.views import ViewError
from vfl.arrays import FloatArray, IntArray

# Of the wider span: how often the rank, and how many numbers its normal equations may have in a row.
_WIDER, _MOST_EQUATIONS = 3, 4_000
# Numbers that are looked at, steps, and records whose equations are held at once.
_MOST_NUMBERS, _MOST_STEPS, _CHUNK = 20_000_000, 4_000, 4_096
# Directions that are rounding, relative to the largest; and those that a turn of rows all but leaves.
_RANK, _LEFT = 1e-9, 1e-3
_RIDGE, _ROW_RIDGE = 1e-13, 1e-15
# Turns, at what share of the sums' squares they end, and after how many that hardly change it.
_TURNS, _SETTLED, _PATIENCE = 80, 1e-25, 4


@dataclass(frozen=True)
class GradientSteps:
    """How an owner moves weights by gradients g, as torch's SGD: v = momentum v + g + l2 W, and rate v is subtracted.

    Attributes:
        rate: step size.
        momentum: 0 for none.
        l2: weight decay.
    """

    rate: float
    momentum: float = 0.0
    l2: float = 0.0

    def kept(self, steps: int) -> FloatArray:
        """Tell c_t: how much of the first weights is left before each step, (steps,)."""
        factors, velocity = np.ones(steps), 0.0
        for step in range(1, steps):
            velocity = self.momentum * velocity + self.l2 * factors[step - 1]
            factors[step] = factors[step - 1] - self.rate * velocity
        return factors

    def moved(self, gradients: FloatArray) -> FloatArray:
        """Tell how far (steps, d, h) gradients have moved weights before each step; linear in them."""
        recursion = [1.0, -(1 + self.momentum - self.rate * self.l2), self.momentum]
        moved: FloatArray = lfilter([0.0, self.rate], recursion, gradients, axis=0)
        return moved


@dataclass(frozen=True, eq=False)
class GramFit:
    """What hidden sums tell of the columns behind them.

    Attributes:
        rows: (m,) records that were trained on, as indices in the common order.
        points: (m, r): inner products of its rows are those of the records' columns.
        residual: share of the sums' squares that isn't explained.
        reason: why there are no points; empty when there are.
    """

    rows: IntArray
    points: FloatArray
    residual: float
    reason: str = ""

    @property
    def rank(self) -> int:
        """Columns that don't follow from others."""
        rank: int = self.points.shape[1]
        return rank


def fit_gram(forwarded: Sequence[Forwarded], owner: GradientSteps, columns: int) -> GramFit:
    """Find the inner products of all records that steps are about.

    Args:
        forwarded: every step from the first on, in order.
        owner: how weights are moved.
        columns: of all parties whose products are summed.

    Raises:
        ViewError: where steps are missing, as of a training that went on after an interruption.
    """
    if [one.step for one in forwarded] != list(range(len(forwarded))):
        raise ViewError("Not every step from the first on was seen, so that it isn't known how weights had moved.")
    sums = _Sums(forwarded, owner)
    nothing = GramFit(sums.records, np.zeros((len(sums.records), 0)), np.nan)
    rank = sums.rank(columns)
    widest = sums.widest()
    reason = ""
    if not sums.size:
        reason = "Not possible: all that was forwarded is 0."
    elif sums.units * sums.uses < rank:
        reason = (
            f"Not possible: {sums.units} units in {sums.uses} epochs are {sums.units * sums.uses} sums of a record, "
            f"fewer than {rank} columns."
        )
    elif len(sums.records) <= rank:
        reason = f"Not possible: {len(sums.records)} records, no more than columns."
    elif rank > widest:
        reason = f"Not tried: {rank} columns, and with {sums.units} units it takes {widest} at most."
    if reason:
        return GramFit(nothing.rows, nothing.points, np.nan, reason)
    try:
        fitted = _in_turns(sums, rank, min(_WIDER * rank, widest))
    except (LinAlgError, ValueError):  # singular, or beyond all numbers
        fitted = None
    if fitted is None:
        still = "Not possible: weights hardly moved, or not by what was sent."
        return GramFit(nothing.rows, nothing.points, np.nan, still)
    sizes, directions = np.linalg.eigh(fitted.metric)
    large = sizes > _RANK * sizes[-1]
    points = fitted.basis @ (directions[:, large] * np.sqrt(sizes[large]))
    return GramFit(nothing.rows, points, fitted.residual)


class _Sums:
    """All steps as arrays of one shape, the rows of smaller batches filled up with one that is no record's.

    Attributes:
        records: (m,) indices in the common order.
        units: h.
        uses: of each record, at least.
        size: sum of squares of all products.
    """

    def __init__(self, forwarded: Sequence[Forwarded], owner: GradientSteps) -> None:
        self.records = np.unique(np.concatenate([one.rows for one in forwarded]))
        self.units: int = forwarded[0].products.shape[1]
        most = min(_MOST_STEPS, max(1, _MOST_NUMBERS // (max(len(one.rows) for one in forwarded) * self.units)))
        steps = forwarded[:most]
        m, widest = len(self.records), max(len(one.rows) for one in steps)
        self.rows = np.full((len(steps), widest), m)
        self.products = np.zeros((len(steps), widest, self.units))
        self.backward = np.zeros_like(self.products)
        for number, step in enumerate(steps):
            there = slice(len(step.rows))
            self.rows[number, there] = np.searchsorted(self.records, step.rows)
            self.products[number, there] = step.products
            self.backward[number, there] = step.backward / len(step.rows)
        self.owner, self.kept = owner, owner.kept(len(steps))
        self.size = float((self.products**2).sum())
        order = np.argsort(self.rows, axis=None, kind="stable")
        visits = np.bincount(self.rows.ravel(), minlength=m + 1)[:m]
        self.uses = int(visits.min())
        # Which steps a record was in, the first ``uses`` of them, and where.
        first = np.concatenate([[0], np.cumsum(visits)[:-1]])
        self._of_record = order[first[:, None] + np.arange(self.uses)]
        self._steps_of = self._of_record // widest

    def rank(self, columns: int) -> int:
        """Tell how many directions X has: exact where a step shows fewer than it has units, else all columns."""
        largest = max(self.products, key=lambda one: float((one**2).sum()))
        sizes = np.linalg.svd(largest, compute_uv=False)
        directions = int((sizes > 1e-7 * max(float(sizes[0]), 1e-300)).sum())
        batch = int((self.rows < len(self.records)).sum(axis=1).max())
        return min(columns, directions) if directions < min(self.units, batch) else columns

    def widest(self) -> int:
        """Tell how many directions normal equations can have."""
        return (isqrt(self.units**2 + 4 * _MOST_EQUATIONS) - self.units) // 2

    def batches(self, basis: FloatArray) -> FloatArray:
        """Take the rows of every step, (steps, s, d)."""
        filled: FloatArray = np.vstack([basis, np.zeros((1, basis.shape[1]))])[self.rows]
        return filled

    def first_basis(self, directions: int) -> FloatArray:
        """Find the largest directions of all that was forwarded of records, (m, d)."""
        products = self.products.reshape(-1, self.units)[self._of_record].reshape(len(self.records), -1)
        sizes, right = np.linalg.eigh(products.T @ products)
        largest = [at for at in np.argsort(-sizes)[:directions] if sizes[at] > _RANK**2 * sizes[-1]]
        return _orthonormal(products @ (right[:, largest] / np.sqrt(sizes[largest])), _RANK)

    def rows_by(self, weights: FloatArray) -> FloatArray:
        """Solve every record's own sums for its row, (m, d), given (steps, d, h) weights."""
        d = weights.shape[1]
        squares = (weights @ weights.transpose(0, 2, 1)).reshape(-1, d * d)
        sums = (self.products @ weights.transpose(0, 2, 1)).reshape(-1, d)
        solution = np.empty((len(self.records), d))
        for first in range(0, len(solution), _CHUNK):
            part = slice(first, first + _CHUNK)
            normal = np.zeros((len(solution[part]), d * d))
            right = np.zeros((len(solution[part]), d))
            for use in range(self.uses):
                normal += squares[self._steps_of[part, use]]
                right += sums[self._of_record[part, use]]
            normal = normal.reshape(-1, d, d)
            ridge = _ROW_RIDGE * np.trace(normal, axis1=1, axis2=2) / d + 1e-300
            solution[part] = np.linalg.solve(normal + ridge[:, None, None] * np.eye(d), right[:, :, None])[:, :, 0]
        return solution


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A basis, with the first weights V in it and the metric G; the path of weights, (steps, d, h), that follows."""

    basis: FloatArray
    metric: FloatArray
    path: FloatArray
    residual: float


def _in_turns(sums: _Sums, rank: int, wider: int) -> _Fitted | None:
    """Fit from a wider span on; None where nothing follows."""
    wide = _solved(sums, sums.first_basis(wider))
    best = _solved(sums, _orthonormal(wide.basis @ _span(wide.path, rank), _RANK))
    idle = 0
    for _ in range(_TURNS):
        if best.residual <= _SETTLED or idle == _PATIENCE:
            break
        candidate = _solved(sums, _orthonormal(sums.rows_by(best.path), _LEFT))
        idle = idle + 1 if candidate.residual > 0.9 * best.residual else 0
        if candidate.residual < best.residual or candidate.basis.shape[1] < best.basis.shape[1]:
            best = candidate
    return best if float(np.linalg.eigvalsh(best.metric)[-1]) > 0 else None


def _span(path: FloatArray, rank: int) -> FloatArray:
    """Find the directions, (d, rank), in which weights are at any step."""
    left_vectors, sizes, _ = np.linalg.svd(np.moveaxis(path, 0, 1).reshape(path.shape[1], -1), full_matrices=False)
    return left_vectors[:, : min(rank, int((sizes > _RANK * sizes[0]).sum()))]


def _orthonormal(basis: FloatArray, smallest: float) -> FloatArray:
    """Orthonormalise (m, d) columns, to length sqrt(m); directions below ``smallest`` of the largest are dropped."""
    left_vectors, sizes, _ = np.linalg.svd(basis, full_matrices=False)
    orthonormal: FloatArray = left_vectors[:, sizes > smallest * max(float(sizes[0]), 1e-300)] * np.sqrt(len(basis))
    return orthonormal


def _solved(sums: _Sums, basis: FloatArray) -> _Fitted:
    """Solve for (V, G), G symmetric, by normal equations: they are linear in both."""
    d, h = basis.shape[1], sums.units
    rows = sums.batches(basis)
    across = rows.transpose(0, 2, 1)
    moved = sums.owner.moved(across @ sums.backward)
    first = sums.kept[:, None, None] * np.eye(h)
    # Weights are [V G] times these, (steps, h + d, h).
    factors = np.concatenate([first, -moved], axis=1)
    k = h + d
    of_rows = (across @ rows).reshape(-1, d * d)
    of_factors = (factors @ factors.transpose(0, 2, 1)).reshape(-1, k * k)
    normal = (of_rows.T @ of_factors).reshape(d, d, k, k).transpose(0, 2, 1, 3).reshape(d * k, d * k)
    right = ((across @ sums.products) @ factors.transpose(0, 2, 1)).sum(axis=0).ravel()
    # G's entries below the diagonal are those above it.
    place = np.arange(d * k).reshape(d, k)
    above, below = place[:, h:][np.triu_indices(d, 1)], place[:, h:].T[np.triu_indices(d, 1)]
    normal[above] += normal[below]
    normal[:, above] += normal[:, below]
    right[above] += right[below]
    unknown = np.setdiff1d(place, below)
    normal, right = normal[np.ix_(unknown, unknown)], right[unknown]
    scale = np.sqrt(np.maximum(np.diag(normal), 1e-300))
    normal /= scale * scale[:, None]
    normal[np.diag_indices_from(normal)] += _RIDGE
    solution = np.zeros(d * k)
    solution[unknown] = solve(normal, right / scale, assume_a="pos") / scale
    solution[below] = solution[above]
    both = solution.reshape(d, k)
    path = both @ factors
    residual = float(((rows @ path - sums.products) ** 2).sum()) / sums.size
    return _Fitted(basis, both[:, h:], path, residual)
