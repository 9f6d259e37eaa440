"""The searches behind ``distortion``: rotations (cases i, ii) and free parameters (cases iii, iv) with a given g."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from scipy.optimize import brentq

from defences.base import DefenceError
from vfl.arrays import FloatArray
from vfl.theory.prediction import Moments, equations, row_space

# Of the g at which A_n = 0 is within reach: there, estimates are about 200 times too large.
_NEAREST = 0.99
_NOTHING = 1e-11  # g below this is none; of the mean squared parameter


@dataclass(frozen=True)
class TargetDistortion:
    """How much distortion to aim at, in units of the parameters.

    Attributes:
        asked: g, infinite for as much as makes sense.
        share: of it, to aim at.
    """

    asked: float
    share: float

    def within(self, most: float) -> float:
        """Give the g to aim at where more than ``most`` makes no sense; 0 where rounding hides it."""
        aimed = self.share * min(self.asked, most)
        return aimed if aimed > _NOTHING else 0.0


# --- cases i and ii: orthonormal R --------------------------------------------------------------------------------

_OTHER_STARTS = 10
_APPROACH_STEPS = 20
_POLISHED = 3
_TRUST_REGION_STEPS = 100
_GRADIENT = 1e-8
_MULTIPLIER_UPDATES = 15
_VIOLATION = 1e-8  # of g's whole range, before the last step makes it exact
_EXACT = 1e-10


def rotated(weights: FloatArray, column_moments: Moments, target: TargetDistortion) -> tuple[FloatArray, float]:
    """Find the W R with the g aimed at that half* errs most with, and the cap: g of the best rotation of all."""
    rotations = _Rotations.of(weights, column_moments)
    freely = rotations.best(None)
    most = rotations.distortion(freely)
    aimed = target.within(most)
    if aimed == 0:
        return weights, most
    return rotations.disclosed(freely if aimed == most else rotations.best(aimed)), most


@dataclass(frozen=True, eq=False)
class _Rotations:
    """All W R, in the coordinates that matter.

    With V, (d, p), an orthonormal basis of W's row space, W R = (W V) Y^T for Y = R^T V. Eq. 34 is linear and eq. 38
    quadratic in Y, which runs over the Stiefel manifold of orthonormal (d, p) matrices: it is much smaller than O(d)
    for d > k, and connected for p < d. For p = d it is O(d) itself, and searched in both of its components.

    coordinates: W V, (k, p). projector: V^T P V, (p, p). pull: 2 K_0 V projector / d, (d, p). shift: mu - 1/4, (d,).
    normal: 2 V (W V)^T (W V)/(d k), (d, p), so that g = reach/2 - <normal, Y> lies in [0, reach].
    """

    basis: FloatArray
    coordinates: FloatArray
    projector: FloatArray
    pull: FloatArray
    shift: FloatArray
    normal: FloatArray
    reach: float

    @classmethod
    def of(cls, weights: FloatArray, column_moments: Moments) -> "_Rotations":
        k, d = weights.shape
        basis = row_space(weights).basis
        coordinates = weights @ basis
        turned = basis.T @ row_space(equations(weights)).basis
        projector = turned @ turned.T
        return cls(
            basis=basis,
            coordinates=coordinates,
            projector=projector,
            pull=2 * column_moments.about_zero @ basis @ projector / d,
            shift=column_moments.mean - 0.25,
            normal=2 * basis @ (coordinates.T @ coordinates) / (d * k),
            reach=4 * float(np.mean(weights**2)),
        )

    def disclosed(self, point: FloatArray) -> FloatArray:
        """W R of Y, (k, d)."""
        return self.coordinates @ point.T

    def distortion(self, point: FloatArray) -> float:
        """g of Y."""
        return self.reach / 2 - float(np.sum(self.normal * point))

    def error(self, point: FloatArray) -> float:
        """Eq. 38 of Y, up to a constant."""
        bent = point.sum(axis=0) @ self.projector @ (self.shift @ point)
        return float(bent) / len(point) - float(np.sum(self.pull * point))

    def bend(self, direction: FloatArray) -> FloatArray:
        """Multiply a direction, (d, p), by the Hessian of `error`."""
        along, across = self.projector @ (self.shift @ direction), self.projector @ direction.sum(axis=0)
        return (along + np.outer(self.shift, across)) / len(direction)

    def gradient(self, point: FloatArray) -> FloatArray:
        """Compute the gradient of `error`, (d, p)."""
        return self.bend(point) - self.pull

    def best(self, epsilon: float | None) -> FloatArray:
        """Find the Y with the greatest error, of those with g = epsilon where it is given."""
        d, p = self.basis.shape
        if epsilon is None and p == d and np.allclose(self.projector, np.eye(d), rtol=0, atol=1e-12):
            return -self.basis
        reached = [self._approach(start, epsilon) for start in self._starts()]
        promising = sorted((point for point in reached if point is not None), key=self.error)[-_POLISHED:]
        polished = [self._polished(point, epsilon) for point in promising]
        points = [point for point in (*promising, *polished) if point is not None]
        if not points:
            raise DefenceError(f"No rotation with g = {epsilon} was found: choose another epsilon.")
        return max(points, key=self.error)

    def _starts(self) -> Iterator[FloatArray]:
        """+-I are stationary: near them and elsewhere, in both components where there are two."""
        generator = np.random.default_rng(0)  # where a search starts is no secret
        shape = self.basis.shape
        near = [sign * self.basis + 0.3 * generator.standard_normal(shape) for sign in (1, -1)]
        for start in [*near, *generator.standard_normal((_OTHER_STARTS, *shape))]:
            point = _polar(start)
            yield point
            if shape[0] == shape[1]:
                yield point * np.append(np.ones(shape[0] - 1), -1.0)

    def _approach(self, start: FloatArray, epsilon: float | None) -> FloatArray | None:
        """Take steps from a start, none of which lowers the error; None where no Y of its component has g = epsilon.

        A convex function lies above its tangents, and Y projector Y^T added to eq. 38 makes it convex but for a
        constant; so the Y that maximises the tangent, which a singular value decomposition finds, is a better one.
        """
        ones = np.ones(len(start))
        convexity = (np.linalg.norm(ones) * np.linalg.norm(self.shift) - ones @ self.shift) / len(start)
        side = _side(start)
        better = point = start if epsilon is None else self._at(start, epsilon, side)
        for _ in range(_APPROACH_STEPS):
            if better is None:
                break
            point = better
            tangent = self.gradient(point) + convexity * point @ self.projector
            better = _polar(tangent) if epsilon is None else self._at(tangent, epsilon, side)
        return point

    def _polished(self, start: FloatArray, epsilon: float | None) -> FloatArray | None:
        """Find a local maximum by trust regions; for a given g by the method of multipliers."""
        if epsilon is None:
            return self._ascend(start, 0.0, 0.0, 0.0)
        # The multiplier that fits the start best, and a penalty that outweighs it: few updates are left to do.
        point, slope, normal = start, self.gradient(start), _tangent(start, self.normal)
        multiplier = -float(np.sum(slope * normal)) / max(float(np.sum(normal**2)), 1e-300)
        penalty = 10 * (abs(multiplier) + 2 * float(np.linalg.norm(slope)) / self.reach) / self.reach
        violation = np.inf
        for _ in range(_MULTIPLIER_UPDATES):
            point = self._ascend(point, epsilon, multiplier, penalty)
            excess = self.distortion(point) - epsilon
            multiplier += penalty * excess
            if abs(excess) < _VIOLATION * self.reach:
                break
            if abs(excess) > violation / 4:
                penalty *= 10
            violation = abs(excess)
        return self._at(point, epsilon, _side(point))

    def _ascend(self, start: FloatArray, epsilon: float, multiplier: float, penalty: float) -> FloatArray:
        """Climb to the top of error - multiplier (g - epsilon) - penalty/2 (g - epsilon)^2 on the Stiefel manifold."""
        # Imported here: pymanopt loads torch where it is installed, which services that don't rotate start without.
        pymanopt: Any = import_module("pymanopt")
        manifold = import_module("pymanopt.manifolds").Stiefel(*start.shape, retraction="polar")

        @pymanopt.function.numpy(manifold)  # type: ignore[untyped-decorator]
        def cost(point: FloatArray) -> float:
            excess = self.distortion(point) - epsilon
            return -self.error(point) + multiplier * excess + penalty / 2 * excess**2

        @pymanopt.function.numpy(manifold)  # type: ignore[untyped-decorator]
        def gradient(point: FloatArray) -> FloatArray:
            return -self.gradient(point) - (multiplier + penalty * (self.distortion(point) - epsilon)) * self.normal

        @pymanopt.function.numpy(manifold)  # type: ignore[untyped-decorator]
        def hessian(_: FloatArray, direction: FloatArray) -> FloatArray:
            return -self.bend(direction) + penalty * float(np.sum(self.normal * direction)) * self.normal

        if np.linalg.norm(_tangent(start, gradient(start))) < _GRADIENT:
            return start  # a step comes before any test there, and without a gradient it has no direction
        problem = pymanopt.Problem(manifold, cost, euclidean_gradient=gradient, euclidean_hessian=hessian)
        optimiser = import_module("pymanopt.optimizers").TrustRegions(
            verbosity=0, max_iterations=_TRUST_REGION_STEPS, min_gradient_norm=_GRADIENT
        )
        best: FloatArray = optimiser.run(problem, initial_point=start).point
        return best

    def _at(self, matrix: FloatArray, epsilon: float, side: float) -> FloatArray | None:
        """Find the Y with g = epsilon closest to a matrix plus a multiple of the normal; None if there is none.

        Of all Y with that g, it has the greatest inner product with the matrix. side: as in `_polar`.
        """
        unit = self.normal * (np.linalg.norm(matrix, 2) / np.linalg.norm(self.normal, 2))

        def moved(length: float) -> FloatArray:
            return _polar(matrix + length * unit, side)

        def excess(length: float) -> float:
            return self.distortion(moved(length)) - epsilon

        for bound in 4.0 ** np.arange(-1, 21):
            if excess(-bound) >= 0 >= excess(bound):
                solution = moved(brentq(excess, -bound, bound, xtol=1e-15, rtol=1e-14))
                return solution if abs(self.distortion(solution) - epsilon) < _EXACT * self.reach else None
        return None


def _side(point: FloatArray) -> float:
    """Find the sign that tells O(d)'s components apart; 0 where the manifold is connected."""
    return float(np.sign(np.linalg.det(point))) if point.shape[0] == point.shape[1] else 0.0


def _polar(matrix: FloatArray, side: float = 0.0) -> FloatArray:
    """Find the orthonormal matrix closest to a (d, p) one; side: the sign that its determinant must have, 0 for any."""
    left_vectors, _, right_vectors = np.linalg.svd(matrix, full_matrices=False)
    if side and np.linalg.det(left_vectors) * np.linalg.det(right_vectors) * side < 0:
        left_vectors[:, -1] = -left_vectors[:, -1]
    closest: FloatArray = left_vectors @ right_vectors
    return closest


def _tangent(point: FloatArray, direction: FloatArray) -> FloatArray:
    """Keep the part of a direction that stays on the Stiefel manifold."""
    inner = point.T @ direction
    return direction - point @ (inner + inner.T) / 2


# --- cases iii and iv: free parameters ----------------------------------------------------------------------------


def free_single(weights: FloatArray, _: Moments, target: TargetDistortion) -> tuple[FloatArray, float]:
    """Find case iii's (k, 1) class rows with the g aimed at, which make eq. 47 a maximum, and the cap.

    A common shift of all class rows costs g and changes nothing, so the difference is sought without one. The ratio
    q = A_n^T A / A_n^T A_n is driven as far above 1 as it goes, and as far below; the farther of the two is taken.
    """
    k = len(weights)
    most = _NEAREST * float(np.var(weights))
    # An orthonormal basis of what sums to zero.
    without_shift = np.linalg.qr(np.column_stack([np.ones(k), np.eye(k)[:, 1:]]))[0][:, 1:]
    differences = np.diff(without_shift, axis=0)
    start = without_shift.T @ weights[:, 0]
    gram = differences.T @ differences
    if target.within(most) == 0:
        return weights, most
    radius = np.sqrt(k * target.within(most))
    ends = [
        _best_ratio(_Ratio(np.zeros_like(gram), sign * gram @ start / 2, 0.0, gram), start, radius)
        for sign in (1.0, -1.0)
    ]
    best = max(ends, key=lambda end: abs(float(end @ gram @ start) / float(end @ gram @ end) - 1))
    return weights + (without_shift @ (best - start))[:, None], most


def free_binary(weights: FloatArray, column_moments: Moments, target: TargetDistortion) -> tuple[FloatArray, float]:
    """Find case iv's (2, d) class rows with the g aimed at, which make eq. 51 a maximum, and the cap.

    Both rows move by the same amount in opposite directions: (-theta/2, theta/2) stays of that form.
    """
    d = weights.shape[1]
    true = weights[1] - weights[0]
    most = _NEAREST * float(true @ true) / (4 * d)
    if target.within(most) == 0:
        return weights, most
    correlated, shift = column_moments.about_zero @ true, np.broadcast_to(column_moments.mean - 0.25, (d, d))
    ratio = _Ratio((shift + shift.T) / 2, -correlated, float(true @ correlated), np.eye(d))
    change = _best_ratio(ratio, true, 2 * np.sqrt(d * target.within(most))) - true
    return weights + np.vstack([-change, change]) / 2, most


@dataclass(frozen=True, eq=False)
class _Ratio:
    """(y^T S y + 2 l^T y + c) / (y^T T y) with symmetric S and T, T positive definite."""

    quadratic: FloatArray
    linear: FloatArray
    constant: float
    norm: FloatArray

    def __call__(self, point: FloatArray) -> float:
        above = float(point @ self.quadratic @ point + 2 * self.linear @ point) + self.constant
        return above / float(point @ self.norm @ point)


_DINKELBACH_STEPS = 100


def _best_ratio(ratio: _Ratio, centre: FloatArray, radius: float) -> FloatArray:
    """Find the y with the greatest ratio on the sphere ||y - centre|| = radius, which must not reach around the origin.

    Dinkelbach: with t the best ratio so far, the y that maximises numerator - t denominator has a better one, unless t
    is the maximum already. On a ray from the origin both of the papers' errors are convex in 1/|y|, so that no point
    inside the sphere is better.
    """
    best, value = centre, ratio(centre)
    for _ in range(_DINKELBACH_STEPS):
        quadratic = ratio.quadratic - value * ratio.norm
        point = centre + _best_on_sphere(quadratic, quadratic @ centre + ratio.linear, radius)
        reached = ratio(point)
        if best is not centre and reached <= value + 1e-14 * abs(value):
            break
        best, value = point, reached
    return best


def _best_on_sphere(quadratic: FloatArray, linear: FloatArray, radius: float) -> FloatArray:
    """Find the s with the largest s^T Q s + 2 h^T s on ||s|| = radius: (nu I - Q) s = h, nu at least Q's largest value.

    ||s|| falls in nu, so nu is found between bounds. Where h has no part along the greatest eigenvector, s may stay
    too short: that eigenvector then makes up for it, in either direction.
    """
    values, vectors = np.linalg.eigh(quadratic)
    along = vectors.T @ linear
    gaps = values[-1] - values

    def solution(above: float) -> FloatArray:
        step: FloatArray = along / (gaps + above)
        return step

    scale = max(float(np.linalg.norm(along)) / radius, float(np.abs(values).max()), 1e-300)
    lowest, highest = max(abs(float(along[-1])) / radius, 1e-14 * scale), 2 * scale
    if np.linalg.norm(solution(lowest)) > radius:
        lowest = brentq(lambda above: 1 / np.linalg.norm(solution(above)) - 1 / radius, lowest, highest, xtol=1e-300)
    step = solution(lowest)
    step[-1] = np.copysign(np.sqrt(max(radius**2 - float(step[:-1] @ step[:-1]), 0.0)), step[-1])
    return vectors @ step
