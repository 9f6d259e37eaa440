"""Finds the point of {A x = b} in the unit box that is nearest to a centre, for many right-hand sides at once."""

from dataclasses import dataclass

import numpy as np
import scipy

from vfl.arrays import BoolArray, FloatArray
from vfl.theory.prediction import RowSpace

# Residuals are of V^T x = t, whose sides are of order sqrt(d) where x is in the box. Those of a solution are at most
# FEASIBLE; the method aims at much less.
FEASIBLE = 1e-9
_RESIDUAL = 1e-12
_NEWTON_STEPS = 200
_OPTIMALITY = 1e-9
_MULTIPLIER_UPDATES = 40


@dataclass(frozen=True, eq=False)
class BoxSolutions:
    """Projections of n records.

    Attributes:
        points: (n, d) in [0, 1].
        feasible: (n,), whether the point solves its equations; where it doesn't, none does.
        singly: (n,), records that the batched methods left to scipy's active-set method, one by one.
    """

    points: FloatArray
    feasible: BoolArray
    singly: BoolArray


def project_onto_solutions(space: RowSpace, coordinates: FloatArray, centre: float | FloatArray) -> BoxSolutions:
    """Find the point closest to ``centre`` in {x in [0, 1]^d: V^T x = t}, for all n records at once.

    Where the set is empty, t is first moved to the attainable value with the smallest ||A x - b||.

    The projection is x = clip(centre + V lambda, 0, 1) with V^T x = t: a piecewise linear equation in the r multipliers
    of a record, solved by a semismooth Newton method with a line search on the concave dual. Where no solution exists,
    the method of multipliers with residuals weighted by A's singular values converges to the projection onto the
    least-squares solutions (every x it visits is closest to the centre for its own V^T x).

    Args:
        space: A's row space, with basis V.
        coordinates: t, (n, r).
        centre: one number for all features, or (n, d).
    """
    n, d = len(coordinates), len(space.basis)
    centres = np.broadcast_to(np.asarray(centre, dtype=np.float64), (n, d))
    # Start at the projection without the box: where that is inside, it is the answer.
    multipliers = coordinates - centres @ space.basis
    undamped = np.zeros_like(coordinates)
    multipliers, residuals = _newton(space.basis, coordinates, centres, multipliers, undamped, undamped)
    points = np.clip(centres + multipliers @ space.basis.T, 0.0, 1.0)
    feasible = _largest(residuals) <= np.minimum(_tolerance(coordinates), FEASIBLE)
    unfinished = np.zeros(n, dtype=np.bool_)
    # What is left has no solution in the box, or one on its boundary where the multipliers are far or not unique.
    # Equal weights decide which, since they don't care how small a singular value is.
    weights = np.maximum(space.singular_values / space.singular_values.max(initial=1e-300), 1e-6) ** 2
    undecided = ~feasible & ~_separates(space.basis, coordinates, multipliers)
    for weighting, candidates in ((np.ones(space.rank), undecided), (weights, ~feasible)):
        remaining = np.flatnonzero(candidates & ~feasible)
        if len(remaining):
            points[remaining], unfinished[remaining] = _nearest(
                space.basis, weighting, coordinates[remaining], centres[remaining]
            )
            feasible[remaining] = _largest(points[remaining] @ space.basis - coordinates[remaining]) <= FEASIBLE
    return BoxSolutions(points, feasible, unfinished & ~feasible)


def _tolerance(coordinates: FloatArray) -> FloatArray:
    return _RESIDUAL * np.maximum(1.0, _largest(coordinates))


def _largest(values: FloatArray) -> FloatArray:
    largest: FloatArray = np.abs(values).max(axis=1, initial=0.0)
    return largest


def _separates(basis: FloatArray, coordinates: FloatArray, multipliers: FloatArray) -> BoolArray:
    """Tell whether the target lies further along the multipliers than the box reaches: no solution, (n,)."""
    reach = np.maximum(multipliers @ basis.T, 0.0).sum(axis=1)
    margin = FEASIBLE * np.abs(multipliers).sum(axis=1)
    beyond: BoolArray = (multipliers * coordinates).sum(axis=1) > reach + margin
    return beyond


def _newton(
    basis: FloatArray,
    coordinates: FloatArray,
    centres: FloatArray,
    multipliers: FloatArray,
    anchors: FloatArray,
    damping: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Solve V^T clip(centre + V lambda) - t + damping * (lambda - anchor) = 0 for each record.

    damping: (n, r), all zero for the plain projection, which stops early where the multipliers separate the target
    from the box: no solution exists then. Returns multipliers and residuals, both (n, r).
    """
    d, rank = basis.shape
    products = (basis[:, :, None] * basis[:, None, :]).reshape(d, rank * rank)
    identity = np.eye(rank)
    result = multipliers.copy()
    residuals = np.empty_like(result)
    tolerance = _tolerance(coordinates)
    damped = bool(damping.any())
    rows = np.arange(len(result))  # the records still at work
    current = result.copy()
    value, residual, inside = _dual(basis, coordinates, centres, current, anchors, damping)
    residuals[rows] = residual
    for _ in range(_NEWTON_STEPS):
        busy = _largest(residual) > tolerance[rows]
        if not damped:
            busy &= ~_separates(basis, coordinates[rows], current)
        if not busy.any():
            break
        rows = rows[busy]
        current, value, residual, inside = (part[busy] for part in (current, value, residual, inside))
        target, centre, anchor, pull = coordinates[rows], centres[rows], anchors[rows], damping[rows]
        # A ridge that vanishes with the residual keeps the step defined where the free features don't span the
        # row space, without costing the fast final convergence.
        ridge = np.clip(1e-6 * np.abs(residual).sum(axis=1), 1e-13, 1e-6)
        curvature = (inside @ products).reshape(-1, rank, rank) + (pull + ridge[:, None])[:, :, None] * identity
        step = -np.linalg.solve(curvature, residual[:, :, None])[:, :, 0]
        slope = (step * residual).sum(axis=1)
        length = np.ones(len(rows))
        size = _largest(residual)
        for _ in range(60):
            trial = current + length[:, None] * step
            trial_value, trial_residual, trial_inside = _dual(basis, target, centre, trial, anchor, pull)
            # Near the solution the value no longer resolves progress; there the residual does.
            short = (trial_value > value + 1e-4 * length * slope) & (_largest(trial_residual) > 0.5 * size)
            if not short.any():
                break
            length[short] *= 0.5
        current, value, residual, inside = trial, trial_value, trial_residual, trial_inside
        result[rows], residuals[rows] = current, residual
    return result, residuals


def _dual(
    basis: FloatArray,
    coordinates: FloatArray,
    centres: FloatArray,
    multipliers: FloatArray,
    anchors: FloatArray,
    damping: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Value (n,) and gradient (n, r) of the convex dual, and which features are strictly inside the box (n, d)."""
    unclipped = centres + multipliers @ basis.T
    points = np.clip(unclipped, 0.0, 1.0)
    moved = multipliers - anchors
    value = (unclipped * points - 0.5 * points**2).sum(axis=1) - (multipliers * coordinates).sum(axis=1)
    value += 0.5 * (damping * moved**2).sum(axis=1)
    gradient = points @ basis - coordinates + damping * moved
    return value, gradient, (points == unclipped).astype(np.float64)


def _nearest(
    basis: FloatArray, weights: FloatArray, coordinates: FloatArray, centres: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Find, of the points of the box with the smallest sum_j weights_j (V^T x - t)_j^2, the one closest to the centre.

    weights: (r,). Returns points (n, d) and which are unfinished, (n,).
    """
    multipliers = np.zeros_like(coordinates)
    points = np.empty_like(centres)
    unfinished = np.ones(len(coordinates), dtype=np.bool_)
    # Multipliers grow by strength times the residual: scaling keeps them in float64's range for far targets.
    scale = np.maximum(1.0, _largest(coordinates))
    strength = 1e2
    for _ in range(_MULTIPLIER_UPDATES):
        rows = np.flatnonzero(unfinished)
        if not len(rows):
            break
        damping = scale[rows, None] / (strength * weights)
        anchors = multipliers[rows]
        multipliers[rows], _ = _newton(basis, coordinates[rows], centres[rows], anchors, anchors, damping)
        points[rows] = np.clip(centres[rows] + multipliers[rows] @ basis.T, 0.0, 1.0)
        residual = points[rows] @ basis - coordinates[rows]
        gradient = (residual * weights) @ basis.T / scale[rows, None]
        stationary = points[rows] - np.clip(points[rows] - gradient, 0.0, 1.0)
        unfinished[rows] = _largest(stationary) > _OPTIMALITY
        strength = min(strength * 10.0, 1e9)
    for row in np.flatnonzero(unfinished):
        points[row] = _by_active_set(basis, weights, coordinates[row], centres[row])
    return points, unfinished


def _by_active_set(basis: FloatArray, weights: FloatArray, target: FloatArray, centre: FloatArray) -> FloatArray:
    """`_nearest` for one record by scipy's active-set method, a ridge of 1e-12 standing in for the closest: (d,)."""
    root, pull = np.sqrt(weights), 1e-6
    rows = np.vstack([root[:, None] * basis.T, pull * np.eye(len(basis))])
    solution = scipy.optimize.lsq_linear(
        rows, np.concatenate([root * target, pull * centre]), bounds=(0.0, 1.0), method="bvls"
    )
    point: FloatArray = np.clip(solution.x, 0.0, 1.0)
    return point
