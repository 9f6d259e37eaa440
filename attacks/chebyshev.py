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
from importlib import import_module
from typing import Any, ClassVar, Literal

import numpy as np

from attacks.base import AttackSpec, Reconstruction
from attacks.linear_system import LinearSystem, box_solutions, check_option, linear_system, white_box
from attacks.relaxed_centres import centre1_by_interior_point, centres_coincide, null_basis, single_points
from attacks.views import PredictionView
from vfl.arrays import FloatArray
from vfl.theory.prediction import RowSpace

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RelaxedChebyshevCentre2:
    """RCC2: estimates the feasible solution closest to one half (Rassouli Prop. 3 and Remark 2, eq. 32-33).

    For undistorted scores its squared error is at most half*'s, record by record (Theorem 1, eq. 44). Records without a
    solution in the box: see `attacks.equation_solving`.

    Attributes:
        solver: "batched" projects all records at once; "cvxpy" solves eq. 33 record by record with Clarabel, the
            reference.
    """

    name: ClassVar[str] = "rcc2"
    spec: ClassVar[AttackSpec] = white_box(
        "Rassouli Prop. 3, eq. 32-33", "the possible value nearest to the middle of all ranges"
    )
    solver: Literal["batched", "cvxpy"] = "batched"

    def __post_init__(self) -> None:
        check_option(self.name, "solver", self.solver, ("batched", "cvxpy"))

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1].

        Raises:
            ViewError: when the view lacks a piece.
            ModuleNotFoundError: for solver="cvxpy" without cvxpy.
        """
        system = linear_system(self, view)
        if self.solver == "batched":
            return box_solutions(self.name, system, 0.5).points
        return _centre2_by_cvxpy(system.space, _attainable(self.name, system)[1])


@dataclass(frozen=True)
class RelaxedChebyshevCentre1:
    """RCC1: estimates the x-part of the semidefinite relaxation of the Chebyshev centre (Rassouli Prop. 2, eq. 31).

    Records without a solution in the box: the same for the points of the box with the smallest ||A x - b||.

    Attributes:
        solver: "batched" settles by certificate what it can and solves the program's dual for the rest, many records at
            once, to some 1e-5 in x; "cvxpy" solves eq. 14 record by record with Clarabel, the reference, which is no
            more accurate.
    """

    name: ClassVar[str] = "rcc1"
    spec: ClassVar[AttackSpec] = white_box(
        "Rassouli Prop. 2, eq. 14-16 and 31", "the centre of the smallest ball around what is possible, relaxed"
    )
    solver: Literal["batched", "cvxpy"] = "batched"

    def __post_init__(self) -> None:
        check_option(self.name, "solver", self.solver, ("batched", "cvxpy"))

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1].

        Raises:
            ViewError: when the view lacks a piece.
            ModuleNotFoundError: for solver="cvxpy" without cvxpy.
        """
        return self.reconstruct_with_notes(view).estimate

    def reconstruct_with_notes(self, view: PredictionView) -> Reconstruction:
        """Estimate features, and say how many records each solver settled, and to what."""
        system = linear_system(self, view)
        centre2, coordinates = _attainable(self.name, system)
        if system.space.nullity == 0 or system.space.rank == 0:
            return Reconstruction(centre2, ("One solution only, or no equations: rcc1 equals rcc2.",))
        if self.solver == "cvxpy":
            estimates, failed = _centre1_by_cvxpy(system.space, coordinates, centre2)
            return Reconstruction(estimates, _notes_on_cvxpy(len(estimates), failed))
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
        left = np.flatnonzero(~settled)
        notes = [f"{len(centre2) - len(left)} of {len(centre2)} records are certified to equal rcc2."]
        if len(left):
            estimates[left], converged = centre1_by_interior_point(system.space, coordinates[left], centre2[left])
            notes.append(f"{int(converged.sum())} records are solved by the batched interior point, to 1e-7.")
            stuck = left[~converged]
            if len(stuck):
                singly = _singly(system.space, coordinates[stuck], estimates[stuck])
                estimates[stuck] = singly.estimate
                notes += singly.notes
        return Reconstruction(estimates, tuple(notes))


def _singly(space: RowSpace, coordinates: FloatArray, estimates: FloatArray) -> Reconstruction:
    """What the batch left: by cvxpy where it is installed, otherwise as good as the batch left it."""
    try:
        solved, failed = _centre1_by_cvxpy(space, coordinates, estimates)
    except ModuleNotFoundError:
        note = (
            f"{len(estimates)} records converged to less than 1e-7 only: install plumbline[lab], whose cvxpy solves "
            "such records one by one."
        )
        _log.warning("rcc1: %s", note)
        return Reconstruction(estimates, (note,))
    return Reconstruction(solved, _notes_on_cvxpy(len(estimates), failed))


def _notes_on_cvxpy(records: int, failed: int) -> tuple[str, ...]:
    """How many records cvxpy has solved one by one, and for how many it failed; logged."""
    notes = [f"{records - failed} records are solved one by one by cvxpy."]
    if failed:
        notes.append(f"{failed} records keep the batch's estimate or rcc2, because cvxpy failed on them.")
    for note in notes:
        _log.log(logging.WARNING if failed else logging.INFO, "rcc1: %s", note)
    return tuple(notes)


def _attainable(attack: str, system: LinearSystem) -> tuple[FloatArray, FloatArray]:
    """rcc2 of every record (n, d), and the coordinates (n, r) with those of infeasible records made attainable."""
    solutions = box_solutions(attack, system, 0.5)
    feasible = solutions.feasible[:, None]
    return solutions.points, np.where(feasible, system.coordinates, solutions.points @ system.space.basis)


# --- the reference path -------------------------------------------------------------------------------------


def _centre2_by_cvxpy(space: RowSpace, coordinates: FloatArray) -> FloatArray:
    """Rassouli eq. 33 by cvxpy, record by record: (n, r) attainable coordinates in, (n, d) out."""
    cp: Any = import_module("cvxpy")
    kernel = null_basis(space)
    base, unknown = cp.Parameter(len(space.basis)), cp.Variable(kernel.shape[1])
    points = base + kernel @ unknown
    objective = cp.Maximize(cp.sum(kernel @ unknown) - cp.sum_squares(unknown))
    problem = cp.Problem(objective, [points >= 0, points <= 1])
    estimates = np.empty((len(coordinates), len(space.basis)))
    for row, solution in enumerate(coordinates @ space.basis.T):
        base.value = solution
        problem.solve(solver=cp.CLARABEL)
        estimates[row] = np.clip(points.value, 0.0, 1.0)
    return estimates


def _centre1_by_cvxpy(space: RowSpace, coordinates: FloatArray, substitutes: FloatArray) -> tuple[FloatArray, int]:
    """The semidefinite program of Rassouli eq. 14 by cvxpy, record by record: (n, d), and on how many it failed.

    The variable is [[Delta, u], [u^T, 1]] >= 0, which says Delta >= u u^T. Where the solver fails (solutions
    without an interior have no strictly feasible Delta), the substitute stands in.
    """
    cp: Any = import_module("cvxpy")
    kernel = null_basis(space)
    d, p = kernel.shape
    lifted = cp.Variable((p + 1, p + 1), PSD=True)
    squares, unknown = lifted[:p, :p], lifted[:p, p]
    base, product = cp.Parameter(d), cp.Parameter(d)
    spread = cp.sum(cp.multiply(kernel @ squares, kernel), axis=1)
    # Q_i . Delta + 2 g_i^T u + t_i <= 0 with the Q_i, g_i and t_i of Prop. 2.
    quadratic = spread + cp.multiply(2 * base - 1, kernel @ unknown) - product <= 0
    objective = cp.Maximize(cp.trace(squares) - cp.sum_squares(unknown))
    problem = cp.Problem(objective, [lifted[p, p] == 1, quadratic])
    estimates, failed = substitutes.copy(), 0
    for row, solution in enumerate(coordinates @ space.basis.T):
        base.value, product.value = solution, solution * (1 - solution)
        try:
            problem.solve(solver=cp.CLARABEL)
        except cp.SolverError:
            failed += 1
            continue
        if unknown.value is None:
            failed += 1
            continue
        estimates[row] = np.clip(solution + kernel @ unknown.value, 0.0, 1.0)
    return estimates, failed
