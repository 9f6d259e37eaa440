"""Attacks that solve the scores' linear equations A x = b (Rassouli, sections III-V: eq. 5-6, 22; CLS of section IV).

What all of them share is here: the equations, and the projection of a point onto their solutions in the box.

Behaviour where the paper's assumptions fail, the same for every attack of this family and never NaN:

- *Scores of 0 or 1* carry no finite log ratio. Scores are floored at SCORE_FLOOR before the logarithm, so a
  saturated ratio becomes some +-690; such a record's equations usually have no solution in the box.
- *Rank-deficient A*: the pseudoinverse of the numerical rank (`vfl.theory.prediction.row_space`).
- *Equations that contradict each other*: b is replaced by its projection onto the range of A, as A^+ does.
- *No solution in the box* (distorted scores or parameters): ls, half* and clamped_ls are what their formulas
  give, possibly far outside [0, 1] for the first two. The others return, among the points of the box with the
  smallest ||A x - b||, the one closest to their centre; the number of such records is logged.
"""

import logging
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import lsq_linear

from attacks.base import AttackSpec, PredictionAttack, require
from attacks.views import PredictionView
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.theory.prediction import RowSpace, equations, row_space

SCORE_FLOOR = 1e-300

_log = logging.getLogger(__name__)


def white_box(source: str) -> AttackSpec:
    """The spec that the linear white-box attacks share."""
    needs = ("scores", "weights_active", "weights_passive", "bias")
    return AttackSpec(adversary="active", phase="prediction", knowledge="white_box", needs=needs, source=source)


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """The equations A x = b of n records: matrix A (k-1, d), right-hand sides b (n, k-1), and A's row space.

    coordinates: (n, r), what the equations say about x: V^T x = coordinates, with V the basis of the row space.
    """

    matrix: FloatArray
    right_hand_sides: FloatArray
    space: RowSpace
    coordinates: FloatArray

    @property
    def minimum_norm(self) -> FloatArray:
        """A^+ b of every record, (n, d)."""
        solutions: FloatArray = self.coordinates @ self.space.basis.T
        return solutions

    def restricted_to(self, features: IntArray) -> "LinearSystem":
        """The same equations over some features, which must include all that have a weight."""
        space = RowSpace(self.space.left, self.space.singular_values, self.space.basis[features])
        return LinearSystem(self.matrix[:, features], self.right_hand_sides, space, self.coordinates)


def linear_system(attack: PredictionAttack, view: PredictionView) -> LinearSystem:
    """The attacked records' equations (Rassouli eq. 3-6). Raises ViewError when the view lacks a piece."""
    require(attack, view)
    scores, weights_active, weights_passive, bias = view.scores, view.weights_active, view.weights_passive, view.bias
    # `require` has just refused such views; this tells the type checker.
    if scores is None or weights_active is None or weights_passive is None or bias is None:
        raise AssertionError
    matrix = equations(weights_passive)
    space = row_space(matrix)
    log_ratios = np.diff(np.log(np.maximum(scores, SCORE_FLOOR)), axis=1)
    known = view.features_active @ np.diff(weights_active, axis=0).T + np.diff(bias)
    right_hand_sides = log_ratios - known
    coordinates = right_hand_sides @ (space.left / space.singular_values)
    return LinearSystem(matrix, right_hand_sides, space, coordinates)


# --- projection onto the solutions in the box ---------------------------------------------------------------

# Residuals are of V^T x = t, whose sides are of order sqrt(d) where x is in the box. Those of a solution are at most
# FEASIBLE; the method aims at much less.
FEASIBLE = 1e-9
_RESIDUAL = 1e-12
_NEWTON_STEPS = 200
_OPTIMALITY = 1e-9
_MULTIPLIER_UPDATES = 40


@dataclass(frozen=True, eq=False)
class BoxSolutions:
    """points: (n, d) in [0, 1]. feasible: (n,) whether the point solves its equations; where it doesn't, none does.

    singly: (n,) records that the batched methods left to scipy's active-set method, one by one.
    """

    points: FloatArray
    feasible: BoolArray
    singly: BoolArray


def project_onto_solutions(space: RowSpace, coordinates: FloatArray, centre: float | FloatArray) -> BoxSolutions:
    """The point closest to ``centre`` in {x in [0, 1]^d: V^T x = t}, for all n records at once.

    coordinates: t, (n, r); centre: one number for all features, or (n, d). Where the set is empty, t is first
    moved to the attainable value with the smallest ||A x - b||.

    The projection is x = clip(centre + V lambda, 0, 1) with V^T x = t: a piecewise linear equation in the r
    multipliers of a record, solved by a semismooth Newton method with a line search on the concave dual. Where no
    solution exists, the method of multipliers with residuals weighted by A's singular values converges to the
    projection onto the least-squares solutions (every x it visits is closest to the centre for its own V^T x).
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
        left = np.flatnonzero(candidates & ~feasible)
        if len(left):
            points[left], unfinished[left] = _nearest(space.basis, weighting, coordinates[left], centres[left])
            feasible[left] = _largest(points[left] @ space.basis - coordinates[left]) <= FEASIBLE
    return BoxSolutions(points, feasible, unfinished & ~feasible)


def _tolerance(coordinates: FloatArray) -> FloatArray:
    tolerance: FloatArray = _RESIDUAL * np.maximum(1.0, _largest(coordinates))
    return tolerance


def _largest(values: FloatArray) -> FloatArray:
    largest: FloatArray = np.abs(values).max(axis=1, initial=0.0)
    return largest


def _separates(basis: FloatArray, coordinates: FloatArray, multipliers: FloatArray) -> BoolArray:
    """Whether the target lies further in the direction of the multipliers than the box reaches: no solution, (n,)."""
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
    """Of the points of the box with the smallest sum_j weights_j (V^T x - t)_j^2, the one closest to the centre.

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
    solution = lsq_linear(rows, np.concatenate([root * target, pull * centre]), bounds=(0.0, 1.0), method="bvls")
    point: FloatArray = np.clip(solution.x, 0.0, 1.0)
    return point


def box_solutions(attack: str, system: LinearSystem, centre: float) -> BoxSolutions:
    """`project_onto_solutions` of a system; logs how many records have no solution or were left unfinished."""
    solutions = project_onto_solutions(system.space, system.coordinates, centre)
    infeasible, unfinished = int((~solutions.feasible).sum()), int(solutions.singly.sum())
    if infeasible:
        _log.info(
            "%s: the equations of %d of %d records have no solution in [0, 1]; nearest points used.",
            attack,
            infeasible,
            len(solutions.feasible),
        )
    if unfinished:
        _log.warning("%s: %d records did not converge in the batch and were solved one by one.", attack, unfinished)
    return solutions


def check_option(attack: str, option: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raises ValueError, naming the choices, when a value is none of them."""
    if value not in allowed:
        raise ValueError(f"{attack} can't take {option}={value!r}: choose one of {', '.join(allowed)}.")


# --- the reference path -------------------------------------------------------------------------------------


def _constrained_by_cvxpy(system: LinearSystem) -> FloatArray:
    """min ||A x - b|| over the box by cvxpy, record by record: one arbitrary minimiser each, (n, d)."""
    cp: Any = import_module("cvxpy")  # an optional extra, whose own types are incomplete
    d = system.matrix.shape[1]
    unknown, side = cp.Variable(d), cp.Parameter(len(system.matrix))
    objective = cp.Minimize(cp.sum_squares(system.matrix @ unknown - side))
    problem = cp.Problem(objective, [unknown >= 0, unknown <= 1])
    estimates = np.empty((len(system.right_hand_sides), d))
    for row, right_hand_side in enumerate(system.right_hand_sides):
        side.value = right_hand_side
        problem.solve(solver=cp.CLARABEL)
        estimates[row] = np.clip(unknown.value, 0.0, 1.0)
    return estimates


# --- attacks ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeastSquares:
    """ESA: the solution of minimum norm, A^+ b, unclamped (Rassouli section IV; the first term of eq. 22)."""

    name: ClassVar[str] = "ls"
    spec: ClassVar[AttackSpec] = white_box("Rassouli IV, eq. 5-6; Theorem 2, eq. 50")

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """A^+ b, (n, d), finite but possibly outside [0, 1]. Raises ViewError when the view lacks a piece."""
        return linear_system(self, view).minimum_norm


@dataclass(frozen=True)
class ClampedLeastSquares:
    """ESA with every value outside [0, 1] replaced by the nearer end (Rassouli VIII-A); A x = b is then lost."""

    name: ClassVar[str] = "clamped_ls"
    spec: ClassVar[AttackSpec] = white_box("Rassouli VIII-A")

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """(n, d) in [0, 1]. Raises ViewError when the view lacks a piece."""
        return np.clip(linear_system(self, view).minimum_norm, 0.0, 1.0)


@dataclass(frozen=True)
class HalfStar:
    """The solution closest to one half, A^+ b + (I - A^+ A) 1/2, unclamped as in the paper (Rassouli Prop. 1, eq. 22).

    For undistorted scores its MSE is never above half's (Theorem 1).
    """

    name: ClassVar[str] = "half_star"
    spec: ClassVar[AttackSpec] = white_box("Rassouli Prop. 1, eq. 21-22")

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """(n, d), finite but possibly outside [0, 1]. Raises ViewError when the view lacks a piece."""
        system = linear_system(self, view)
        estimates: FloatArray = system.minimum_norm
        estimates += 0.5 * system.space.null_projector.sum(axis=1)
        return estimates


@dataclass(frozen=True)
class ConstrainedLeastSquares:
    """CLS: a point of the box with the smallest ||A x - b|| (Rassouli section IV). For d >= k there are many.

    solver: "minimum_norm" (the default) gives the one of minimum norm, which is unique; "cvxpy" gives the one
    where Clarabel happens to stop, as the paper's figures do, record by record. The latter's MSE says as
    much about the solver as about the leak.
    """

    name: ClassVar[str] = "cls"
    spec: ClassVar[AttackSpec] = white_box("Rassouli IV, after eq. 10")
    solver: Literal["minimum_norm", "cvxpy"] = "minimum_norm"

    def __post_init__(self) -> None:
        check_option(self.name, "solver", self.solver, ("minimum_norm", "cvxpy"))

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """(n, d) in [0, 1]. Raises ViewError when the view lacks a piece, ModuleNotFoundError without cvxpy."""
        system = linear_system(self, view)
        if self.solver == "cvxpy":
            return _constrained_by_cvxpy(system)
        return box_solutions(self.name, system, 0.0).points
