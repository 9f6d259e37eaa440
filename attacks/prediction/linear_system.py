"""The scores' linear equations A x = b (Rassouli, section III, eq. 5-6), and their solutions in the box."""

import logging
from dataclasses import dataclass

import numpy as np

from attacks.base import AttackSpec, PredictionAttack, require
from attacks.solving.box_projection import BoxSolutions, project_onto_solutions
from attacks.views import PredictionView
from vfl.arrays import FloatArray, IntArray
from vfl.theory.prediction import RowSpace, equations, row_space

_log = logging.getLogger(__name__)
SCORE_FLOOR = 1e-300


def white_box(source: str, summary: str, cost: str = "milliseconds per 1,000 records") -> AttackSpec:
    """Make the spec that the linear white-box attacks share."""
    return AttackSpec(
        adversary="active",
        phase="prediction",
        knowledge="white_box",
        needs=("scores", "weights_active", "weights_passive", "bias"),
        source=source,
        learners=("linear",),
        summary=summary,
        cost=cost,
    )


@dataclass(frozen=True, eq=False)
class LinearSystem:
    """The equations A x = b of n records.

    Attributes:
        matrix: A, (k-1, d).
        right_hand_sides: b, (n, k-1).
        space: A's row space, with basis V.
        coordinates: (n, r), what the equations say about x: V^T x = coordinates.
    """

    matrix: FloatArray
    right_hand_sides: FloatArray
    space: RowSpace
    coordinates: FloatArray

    @property
    def minimum_norm(self) -> FloatArray:
        """Compute A^+ b of every record, (n, d)."""
        return self.coordinates @ self.space.basis.T

    def restricted_to(self, features: IntArray) -> "LinearSystem":
        """Restrict the equations to some features, which must include all that have a weight."""
        space = RowSpace(self.space.left, self.space.singular_values, self.space.basis[features])
        return LinearSystem(self.matrix[:, features], self.right_hand_sides, space, self.coordinates)


def linear_system(attack: PredictionAttack, view: PredictionView) -> LinearSystem:
    """Form the attacked records' equations (Rassouli eq. 3-6).

    Raises:
        ViewError: when the view lacks a piece.
    """
    require(attack, view)
    scores, weights_active, weights_passive, bias = view.scores, view.weights_active, view.weights_passive, view.bias
    # `require` has just refused such views; this tells the type checker.
    if scores is None or weights_active is None or weights_passive is None or bias is None:
        raise AssertionError
    matrix = equations(weights_passive)
    space = row_space(matrix)
    log_ratios = np.diff(np.log(np.maximum(scores, SCORE_FLOOR)), axis=1)
    own_logits = view.features_active @ np.diff(weights_active, axis=0).T + np.diff(bias)
    right_hand_sides = log_ratios - own_logits
    coordinates = right_hand_sides @ (space.left / space.singular_values)
    return LinearSystem(matrix, right_hand_sides, space, coordinates)


def box_solutions(attack: str, system: LinearSystem, centre: float) -> BoxSolutions:
    """Project onto a system's solutions in the box, and log how many records have none or were left unfinished."""
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
