"""Relaxed Chebyshev centres of the solutions in the box (Rassouli, section V: Prop. 2, eq. 31; Prop. 3, eq. 32-33).

The Chebyshev centre minimises the largest distance to any feasible solution. Two relaxations of it can be computed:

rcc2 bounds ||x||^2 by 1^T x. It is the feasible point closest to one half (Remark 2), hence a projection.

rcc1 is the semidefinite relaxation. With x = A^+ b + W u and Delta = u u^T + Z, its program (eq. 14) reads

    maximise Tr Z over u and Z >= 0 (psd), subject to (W Z W^T)_ii <= x_i (1 - x_i) for every feature i.

Tr Z is the sum of those left sides, so nothing exceeds max_x sum_i x_i (1 - x_i), which rcc2 attains. Hence the two
centres are equal wherever some psd Z meets all the constraints with equality at x = rcc2. That is tested first; only
records without such a certificate need the program itself.
"""

import logging
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attacks.base import AttackSpec, Reconstruction
from attacks.prediction.linear_system import LinearSystem, box_solutions, linear_system, white_box
from attacks.solving.box_projection import FEASIBLE
from attacks.solving.box_projection import project_onto_solutions as project
from attacks.views import PredictionView
from vfl.arrays import BoolArray, FloatArray
from vfl.theory.prediction import RowSpace

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RelaxedChebyshevCentre2:
    """RCC2: estimates the feasible solution closest to one half (Rassouli Prop. 3 and Remark 2, eq. 32-33).

    For undistorted scores its squared error is at most half*'s, record by record (Theorem 1, eq. 44). Records without a
    solution in the box: see `attacks.prediction.equation_solving`.
    """

    name: ClassVar[str] = "rcc2"
    spec: ClassVar[AttackSpec] = white_box(
        "Rassouli Prop. 3, eq. 32-33", "the possible value nearest to the middle of all ranges"
    )

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1].

        Raises:
            ViewError: when the view lacks a piece.
        """
        return box_solutions(self.name, linear_system(self, view), 0.5).points


@dataclass(frozen=True)
class RelaxedChebyshevCentre1:
    """RCC1: estimates the x-part of the semidefinite relaxation of the Chebyshev centre (Rassouli Prop. 2, eq. 31).

    Records without a solution in the box: the same for the points of the box with the smallest ||A x - b||. What a
    certificate doesn't settle is solved by the program's dual, many records at once, to some 1e-5 in x.
    """

    name: ClassVar[str] = "rcc1"
    spec: ClassVar[AttackSpec] = white_box(
        "Rassouli Prop. 2, eq. 14-16 and 31", "the centre of the smallest ball around what is possible, relaxed"
    )

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1].

        Raises:
            ViewError: when the view lacks a piece.
        """
        return self.reconstruct_with_notes(view).estimate

    def reconstruct_with_notes(self, view: PredictionView) -> Reconstruction:
        """Estimate features, and say how many records each solver settled, and to what."""
        system = linear_system(self, view)
        centre2, coordinates = _attainable(self.name, system)
        if system.space.nullity == 0 or system.space.rank == 0:
            return Reconstruction(centre2, ("One solution only, or no equations: rcc1 equals rcc2.",))
        # Features without weights are at 1/2 in both centres, whatever the others are.
        weighty = np.flatnonzero(np.abs(system.space.basis).max(axis=1, initial=0.0) > 1e-12)
        settled = self._weighty(system.restricted_to(weighty), coordinates, centre2[:, weighty])
        estimates = centre2.copy()
        estimates[:, weighty] = settled.estimate
        return Reconstruction(estimates, settled.notes)

    def _weighty(self, system: LinearSystem, coordinates: FloatArray, centre2: FloatArray) -> Reconstruction:
        """rcc1 (n, d) from attainable coordinates (n, r) and rcc2 (n, d): settled where it can be, solved elsewhere."""
        if system.space.nullity == 0:
            # A single point of the box, or the nearest one where the equations contradict it: no set has a centre.
            return Reconstruction(centre2, ("Every record has a single solution: rcc1 equals rcc2.",))
        estimates = centre2.copy()
        settled = centres_coincide(system.space, centre2) | single_points(system, centre2)
        unsettled = np.flatnonzero(~settled)
        notes = [f"{len(centre2) - len(unsettled)} of {len(centre2)} records are certified to equal rcc2."]
        if len(unsettled):
            estimates[unsettled], converged = centre1_by_interior_point(
                system.space, coordinates[unsettled], centre2[unsettled]
            )
            notes.append(f"{int(converged.sum())} records are solved by the batched interior point, to 1e-7.")
            if not converged.all():
                notes.append(f"{int((~converged).sum())} records converged to less than 1e-7 only.")
                _log.warning("rcc1: %s", notes[-1])
        return Reconstruction(estimates, tuple(notes))


def _attainable(attack: str, system: LinearSystem) -> tuple[FloatArray, FloatArray]:
    """rcc2 of every record (n, d), and the coordinates (n, r) with those of infeasible records made attainable."""
    solutions = box_solutions(attack, system, 0.5)
    feasible = solutions.feasible[:, None]
    return solutions.points, np.where(feasible, system.coordinates, solutions.points @ system.space.basis)


# --- where the two coincide, and interior points elsewhere ---

_CERTIFIED = 1e-11


def centres_coincide(space: RowSpace, centre2: FloatArray) -> BoolArray:
    """Find records whose rcc1 certainly equals their rcc2, the given (n, d) points: (n,). False proves nothing.

    Let v = x (1 - x) at x = rcc2 and N = W W^T = I - A^+ A. A psd Y = W Z W^T with diagonal v is wanted. With one
    equation (two classes) it exists iff no |a_i| sqrt(v_i) exceeds the sum of the others: its Gram vectors, of length
    sqrt(v_i), must close a polygon under the weights a_i. Otherwise Y = N diag(s) N is tried, whose diagonal is
    (N o N) s: it is psd when s >= 0. Where v_i = 0 row i of Y must vanish, which makes N the null projector of the
    other features' columns of A.
    """
    slack = centre2 * (1.0 - centre2)
    if space.rank == 0:
        return np.ones(len(centre2), dtype=np.bool_)
    if space.rank == 1:
        lengths = np.abs(space.basis[:, 0]) * np.sqrt(slack)
        closes: BoolArray = 2.0 * lengths.max(axis=1) <= (1.0 + 1e-12) * lengths.sum(axis=1)
        return closes
    inside = slack > 0.0
    certified = np.zeros(len(centre2), dtype=np.bool_)
    everywhere = inside.all(axis=1)
    if everywhere.any():
        certified[everywhere] = _multipliers_exist(space.null_projector[None], slack[everywhere][None])[0]
    # Batches bound the memory of one (d, d) projector per record.
    rows, size = np.flatnonzero(~everywhere), _batch_size(len(space.basis))
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        projectors = _null_projectors(space.basis, inside[part])
        certified[part] = _multipliers_exist(projectors, slack[part][:, None, :])[:, 0]
    return certified


def single_points(system: LinearSystem, centre2: FloatArray) -> BoolArray:
    """Find infeasible records of which no other point of the box has as small an ||A x - b|| as the given (n, d): (n,).

    All such points have the same A x, and a feature with a non-zero gradient there is at the same end in all of them.
    Where A restricted to the other features is injective, nothing can move.
    """
    space = system.space
    residuals = centre2 @ space.basis - system.coordinates
    weights = (space.singular_values / space.singular_values[0]) ** 2
    gradients = np.abs((residuals * weights) @ space.basis.T)
    movable = gradients <= 1e-7 * gradients.max(axis=1, keepdims=True)
    grams = (movable[:, :, None] * space.basis).transpose(0, 2, 1) @ space.basis
    injective = (np.linalg.eigvalsh(grams) > 1e-9).sum(axis=1) == movable.sum(axis=1)
    single: BoolArray = (np.abs(residuals).max(axis=1) > FEASIBLE) & injective
    return single


def _multipliers_exist(projectors: FloatArray, slack: FloatArray) -> BoolArray:
    """Tell where (N o N) s = v has a solution s >= 0: (b, d, d) and (b, m, d) in, (b, m) out. False proves nothing."""
    squares = projectors**2
    identity = np.eye(projectors.shape[-1])
    # N o N is psd; the ridge makes it definite, and the residual below is of the matrix without it.
    solutions = np.linalg.solve(squares + 1e-14 * identity, slack.transpose(0, 2, 1))
    residuals = squares @ np.maximum(solutions, 0.0) - slack.transpose(0, 2, 1)
    met: BoolArray = np.abs(residuals).max(axis=1) <= _CERTIFIED
    return met


def _null_projectors(basis: FloatArray, inside: BoolArray) -> FloatArray:
    """Projectors (b, d, d) onto the null space of A restricted to each record's features ``inside`` (b, d)."""
    rank = basis.shape[1]
    free = inside[:, :, None] * basis
    values, vectors = np.linalg.eigh(free.transpose(0, 2, 1) @ basis)
    inverse_root = np.where(values > 1e-12 * rank, 1.0 / np.sqrt(np.maximum(values, 1e-300)), 0.0)
    columns = free @ (vectors * inverse_root[:, None, :])
    projectors: FloatArray = inside[:, :, None] * np.eye(len(basis)) - columns @ columns.transpose(0, 2, 1)
    return projectors


def _batch_size(d: int) -> int:
    """Count the records per batch: some 4 MB for each (d, d) matrix per record, so that a batch stays in the cache."""
    return max(1, 500_000 // (d * d))


# --- the dual program ---------------------------------------------------------------------------------------

_ITERATIONS = 80
# Records are finished at the first error, or at the best they reached once rounding keeps them from improving;
# that counts as converged up to the second.
_FINISHED = 1e-10
_CONVERGED = 1e-7
_PATIENCE = 8
# The box is widened by this much in the constraints, so that sets of feasible solutions without an interior
# (a feature that must be 0, say) keep the dual's minimum at a finite place. The result is projected back.
_WIDENING = 1e-10


def centre1_by_interior_point(
    space: RowSpace, coordinates: FloatArray, centre2: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Compute rcc1 of n records, batch by batch: feasible points (n, d), and which converged to 1e-7 (n,)."""
    estimates, converged = np.empty_like(centre2), np.zeros(len(centre2), dtype=np.bool_)
    kernel = null_basis(space)
    size = _batch_size(len(space.basis))
    for start in range(0, len(centre2), size):
        part = slice(start, start + size)
        points, converged[part] = _interior_point(kernel, centre2[part])
        # Interior points solve the equations; what didn't quite converge may still lie outside the box.
        estimates[part] = project(space, coordinates[part], points).points
    return estimates, converged


def null_basis(space: RowSpace) -> FloatArray:
    """Find W, an orthonormal basis of the null space of A, (d, d - r)."""
    completed, _ = np.linalg.qr(space.basis, mode="complete")
    return np.ascontiguousarray(completed[:, space.rank :])


def _interior_point(kernel: FloatArray, bases: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Primal-dual interior point method for the dual program (Rassouli eq. 16) in d variables alpha per record.

    minimise f(alpha) = max_u sum_i alpha_i x_i (1 - x_i) with x = base + W u, over alpha >= 0 with
    M = W^T diag(alpha) W >= I (psd). With a_i the rows of W, f has gradient x (1 - x) at the maximising x and Hessian
    2 (x - 1/2)_i (x - 1/2)_j a_i^T M^-1 a_j. Z is the multiplier of M >= I and w that of alpha >= 0; eliminating their
    steps (of the HKM direction, for Z) leaves d equations in the step of alpha.

    kernel: W, (d, p); bases: (b, d) solutions of the equations. Returns x (b, d) and which converged (b,).
    """
    d, p = kernel.shape
    outer = (kernel[:, :, None] * kernel[:, None, :]).reshape(d, p * p)
    identity = np.eye(p)
    result, least_error = bases.copy(), np.full(len(bases), np.inf)
    rows, waited = np.arange(len(bases)), np.zeros(len(bases), dtype=np.int64)
    alpha = np.full((len(bases), d), 2.0)
    # M - I is carried along rather than formed anew: its eigenvalues go to 0, and 1 would swallow their digits.
    excess = np.tile(identity, (len(bases), 1, 1))
    primal = np.tile(0.1 * identity, (len(bases), 1, 1))
    slack = np.full((len(bases), d), 0.05)
    reduction = np.full(len(bases), 0.3)
    for _ in range(_ITERATIONS):
        inverse_mass = np.linalg.inv(excess + identity)
        inverse_excess = np.linalg.inv(excess)
        right = (alpha * (0.5 - bases[rows])) @ kernel
        points = bases[rows] + (inverse_mass @ right[:, :, None])[:, :, 0] @ kernel.T
        spread = kernel @ primal @ kernel.T
        barrier = kernel @ inverse_excess @ kernel.T
        room = points * (1.0 - points) + _WIDENING
        gap = ((primal * excess).sum(axis=(1, 2)) + (alpha * slack).sum(axis=1)) / (p + d)
        infeasibility = np.abs(room - np.einsum("bii->bi", spread) - slack).max(axis=1)
        error = np.maximum(gap, infeasibility)
        better = error < least_error[rows]
        result[rows[better]], least_error[rows[better]] = points[better], error[better]
        waited = np.where(better, 0, waited + 1)
        busy = (least_error[rows] > _FINISHED) & (waited < _PATIENCE)
        if not busy.all():
            if not busy.any():
                break
            rows, waited = rows[busy], waited[busy]
            alpha, primal, slack, reduction, excess = (
                array[busy] for array in (alpha, primal, slack, reduction, excess)
            )
            points, room, spread, barrier, error = (array[busy] for array in (points, room, spread, barrier, error))
            inverse_mass, inverse_excess = inverse_mass[busy], inverse_excess[busy]
        # f is not quadratic, so the constraints are met only in the limit: complementarity mustn't run ahead of them.
        target = reduction * error
        off_centre = points - 0.5
        hessian = 2.0 * off_centre[:, :, None] * off_centre[:, None, :] * (kernel @ inverse_mass @ kernel.T)
        hessian += spread * barrier
        hessian[:, np.arange(d), np.arange(d)] += slack / alpha
        gradient = room - target[:, None] * (np.einsum("bii->bi", barrier) + 1.0 / alpha)
        step = -_solve_scaled(hessian, gradient)
        excess_step = (step @ outer).reshape(-1, p, p)
        turned = primal @ excess_step @ inverse_excess
        primal_step = target[:, None, None] * inverse_excess - primal - 0.5 * (turned + turned.transpose(0, 2, 1))
        slack_step = target[:, None] / alpha - slack - slack / alpha * step
        # One length for both sides: x belongs to the primal side but moves with alpha.
        lengths = (
            _to_boundary(alpha, step),
            _to_boundary(slack, slack_step),
            _to_psd_boundary(excess, excess_step),
            _to_psd_boundary(primal, primal_step),
        )
        length = np.minimum(0.95 * np.minimum.reduce(lengths), 1.0)
        alpha = alpha + length[:, None] * step
        excess = excess + length[:, None, None] * excess_step
        primal = primal + length[:, None, None] * primal_step
        slack = slack + length[:, None] * slack_step
        # Long steps earn a bolder target; short ones mean that the iterate must first return to the centre.
        reduction = np.clip((1.0 - length) ** 2, 0.1, 0.5)
    return result, least_error <= _CONVERGED


def _solve_scaled(matrices: FloatArray, sides: FloatArray) -> FloatArray:
    """Solve (b, d, d) psd systems for (b, d) sides after scaling their diagonals to 1, which interior points need.

    A system that rounding has spoilt gets the solution 0.
    """
    scale = 1.0 / np.sqrt(np.maximum(np.einsum("bii->bi", matrices), 1e-300))
    scaled = matrices * scale[:, :, None] * scale[:, None, :] + 1e-15 * np.eye(matrices.shape[1])
    solutions: FloatArray = np.linalg.solve(scaled, (sides * scale)[:, :, None])[:, :, 0] * scale
    solutions[~np.isfinite(solutions).all(axis=1)] = 0.0
    return solutions


def _to_boundary(values: FloatArray, steps: FloatArray) -> FloatArray:
    """Find the largest length (b,) with values + length * steps >= 0, for positive values (b, d)."""
    steepest = (-steps / values).max(axis=1)
    length: FloatArray = 1.0 / np.maximum(steepest, 1e-3)
    return length


def _to_psd_boundary(matrices: FloatArray, steps: FloatArray) -> FloatArray:
    """Find the largest length (b,) that keeps the definite matrices (b, p, p) psd."""
    try:
        inverse_root = np.linalg.inv(np.linalg.cholesky(matrices))
    except np.linalg.LinAlgError:
        # Near the solution the least eigenvalues drown in rounding; take them for as small as rounding leaves them.
        values, vectors = np.linalg.eigh(matrices)
        floored = np.maximum(values, 1e-16 * values[:, -1:])
        inverse_root = vectors.transpose(0, 2, 1) / np.sqrt(floored)[:, :, None]
    least = np.linalg.eigvalsh(inverse_root @ steps @ inverse_root.transpose(0, 2, 1))[:, 0]
    length: FloatArray = 1.0 / np.maximum(-least, 1e-3)
    return length
