"""Disclosed parameters, distorted as far as the parties agreed and so that attacks miss most (Varasteh V-B).

The passive party discloses W_n in place of its class rows W, with g = mean((W_n - W)^2) = epsilon (eq. 33). An
adversary with exact scores then errs by eq. 38, 45, 47 or 51, and W_n is chosen to make that a maximum:

    case i    k > 2, d >= k    W_n = W R, R orthonormal: the best of many local maxima of eq. 38
    case ii   1 < d < k        the same; without a bound on g, R = -I
    case iii  d = 1            any W_n: the global maximum of eq. 47
    case iv   k = 2, d > 1     any W_n whose rows move by opposite amounts: the global maximum of eq. 51

Cases i and ii approach maxima by steps with exact solutions and end with Riemannian trust regions (pymanopt); where
the paper adds a penalty for g, here g is met. Cases iii and iv maximise a ratio of quadratics on a sphere. The paper
climbs with trust-constr, which can stop at a local maximum; Dinkelbach's method, with spherical subproblems that have
exact solutions, finds the global one.

epsilon is capped, and `Distortion.capped` says so, where more of it buys nothing (i, ii: the best of all rotations
found has a smaller g), or just before the error has no maximum any more because A_n = 0 comes within reach (iii: g =
the variance of the class rows; iv: g = |A|^2/(4 d)).

What it does not stop: an adversary with a few complete records, from which the true A follows by regression; one who
guesses -I (Remark 10), or repeats the optimisation, which in case iii needs no data at all (Remark 13). For one feature
no secret helps at all: ls gives q x whatever W_n is, and the largest of many estimates tells q to those who know that
features were scaled to [0, 1]. The error that is promised is that of an adversary who takes W_n at its word: estimates
that leave [0, 1] tell it that it shouldn't, and an error beyond that of guessing 1/2 everywhere protects nothing more.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from scipy.optimize import brentq

from defences.base import DefenceError, DefenceSpec
from defences.noise import NoiseSource
from vfl.arrays import FloatArray
from vfl.theory.distortion import disclosed_errors, interpretability
from vfl.theory.prediction import Moments, equations, moments, row_space

Case = Literal["i", "ii", "iii", "iv"]
Secret = Literal["none", "sign", "epsilon"]

# Of the g at which A_n = 0 is within reach: there, estimates are about 200 times too large.
_NEAREST = 0.99
_NOTHING = 1e-11  # g below this is none; of the mean squared parameter


@dataclass(frozen=True, eq=False)
class Distortion:
    """What to disclose, and what it does.

    weights: (k, d). case: the paper's. epsilon: the g aimed at; capped: whether the cap is less than what was asked.
    interpretability: the g reached, within 1e-9 of the mean squared parameter of epsilon. Both are 0 where parameters
    are so small that their squares are none that a float64 holds.
    error: MSE per feature of half* (for d < k that of ls, too) on the features that the distortion was fitted to.
    """

    weights: FloatArray
    case: Case
    epsilon: float
    capped: bool
    interpretability: float
    error: float


def distort(
    weights: FloatArray,
    features: FloatArray,
    epsilon: float | None,
    *,
    relative: bool = False,
    case: Case | None = None,
    share: float = 1.0,
) -> Distortion:
    """The W_n with g = epsilon that half* errs most with. Nothing in it is secret: the same arguments give the same.

    weights: (k, d) class rows; features: the party's own, (n, d) in [0, 1]. epsilon: g of eq. 33, as a multiple of the
    mean squared parameter where ``relative``; None for the cap.
    case: by (k, d) when None; two classes and d > 1 can take "i" in place of "iv" (Varasteh, Figure 9).
    share: of epsilon, or of the cap where that is less, to aim at.
    Class rows that don't differ tell nothing and come back as they are. Raises DefenceError for arguments that don't
    fit each other, features outside [0, 1], an epsilon below 0, or parameters that are no numbers, all subnormal, or so
    large that their squares exceed float64's range.
    """
    k, d = _checked_shape(weights, features)
    natural: Case = "iii" if d == 1 else "iv" if k == 2 else "i" if d >= k else "ii"
    chosen = natural if case is None else case
    if chosen != natural and (natural, chosen) != ("iv", "i"):
        raise DefenceError(f"Case {chosen} is not for {k} classes and {d} features: leave the case to their numbers.")
    asked = np.inf if epsilon is None else epsilon
    if not (asked >= 0 and 0 <= share <= 1):
        raise DefenceError(f"Expected epsilon to be 0 or more and share between 0 and 1, got {epsilon} and {share}.")
    try:
        own = moments(features)
    except ValueError as error:
        raise DefenceError(f"parameter_rotation works against attacks that assume [0, 1]. {error}") from None
    # In units of the parameters, so that what the searches call small doesn't depend on how large these are.
    unit = _root_mean_square(weights) or 1.0
    # Factor by factor: the square of a small unit is 0 long before the parameters are.
    aim = _Aim(asked if relative else asked / unit / unit, share)
    scaled = weights / unit
    method = {"i": _rotated, "ii": _rotated, "iii": _free_single, "iv": _free_binary}[chosen]
    differ = row_space(equations(scaled)).rank > 0
    distorted, most = method(scaled, own, aim) if differ else (scaled, 0.0)
    if aim.within(most) == 0:
        distorted = scaled
    wanted, cap = (asked * unit * unit if relative else asked), most * unit * unit
    return Distortion(
        weights=weights.copy() if distorted is scaled else unit * distorted,
        case=chosen,
        epsilon=share * min(wanted, cap),
        capped=cap < wanted,
        interpretability=interpretability(scaled, distorted) * unit * unit,
        error=disclosed_errors(equations(scaled), equations(distorted), own).half_star,
    )


def _root_mean_square(weights: FloatArray) -> float:
    """Of (k, d) parameters, without squaring any. Raises DefenceError where g, or what they become, has no number."""
    largest = float(np.abs(weights).max(initial=0.0))
    if largest == 0:
        return 0.0
    root = largest * float(np.sqrt(np.mean((weights / largest) ** 2)))
    # g is at most 4 mean squares.
    if not np.isfinite(4 * root * root):
        raise DefenceError(
            f"The parameters are up to {largest:.3g} large, and their squares exceed every float64: lower the learning "
            "rate and train again."
        )
    if largest < sys.float_info.min:
        raise DefenceError(
            f"The parameters are at most {largest:.3g}, too small to be distorted: raise the learning rate or lower "
            "l2, and train again."
        )
    return root


@dataclass(frozen=True)
class _Aim:
    """The g to aim at, given the most that makes sense; 0 where rounding hides it. In units of the parameters."""

    asked: float
    share: float

    def within(self, most: float) -> float:
        aimed = self.share * min(self.asked, most)
        return aimed if aimed > _NOTHING else 0.0


def _checked_shape(weights: FloatArray, features: FloatArray) -> tuple[int, int]:
    if weights.ndim != 2 or len(weights) < 2 or features.ndim != 2 or features.shape[1:] != weights.shape[1:]:
        raise DefenceError(
            f"Expected class rows (k, d), k at least 2, and features (n, d), got shapes {weights.shape} and "
            f"{features.shape}: parameter_rotation is for linear models."
        )
    if not np.isfinite(weights).all():
        raise DefenceError("The parameters contain NaN or infinity: lower the learning rate and train again.")
    return weights.shape[0], weights.shape[1]


# --- cases i and ii: orthonormal R --------------------------------------------------------------------------------

_OTHER_STARTS = 10
_APPROACH_STEPS = 20
_POLISHED = 3
_TRUST_REGION_STEPS = 100
_GRADIENT = 1e-8
_MULTIPLIER_UPDATES = 15
_VIOLATION = 1e-8  # of g's whole range, before the last step makes it exact
_EXACT = 1e-10


def _rotated(weights: FloatArray, own: Moments, aim: _Aim) -> tuple[FloatArray, float]:
    """W R with the g aimed at, and the cap: g of the best rotation of all."""
    rotations = _Rotations.of(weights, own)
    freely = rotations.best(None)
    most = rotations.distortion(freely)
    aimed = aim.within(most)
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
    def of(cls, weights: FloatArray, own: Moments) -> "_Rotations":
        k, d = weights.shape
        basis = row_space(weights).basis
        coordinates = weights @ basis
        turned = basis.T @ row_space(equations(weights)).basis
        projector = turned @ turned.T
        return cls(
            basis=basis,
            coordinates=coordinates,
            projector=projector,
            pull=2 * own.about_zero @ basis @ projector / d,
            shift=own.mean - 0.25,
            normal=2 * basis @ (coordinates.T @ coordinates) / (d * k),
            reach=4 * float(np.mean(weights**2)),
        )

    def disclosed(self, point: FloatArray) -> FloatArray:
        """W R of Y, (k, d)."""
        weights: FloatArray = self.coordinates @ point.T
        return weights

    def distortion(self, point: FloatArray) -> float:
        """g of Y."""
        return self.reach / 2 - float(np.sum(self.normal * point))

    def error(self, point: FloatArray) -> float:
        """Eq. 38 of Y, up to a constant."""
        bent = point.sum(axis=0) @ self.projector @ (self.shift @ point)
        return float(bent) / len(point) - float(np.sum(self.pull * point))

    def bend(self, direction: FloatArray) -> FloatArray:
        """The Hessian of `error` along a direction, (d, p)."""
        along, across = self.projector @ (self.shift @ direction), self.projector @ direction.sum(axis=0)
        bent: FloatArray = (along + np.outer(self.shift, across)) / len(direction)
        return bent

    def gradient(self, point: FloatArray) -> FloatArray:
        """The gradient of `error`, (d, p)."""
        return self.bend(point) - self.pull

    def best(self, epsilon: float | None) -> FloatArray:
        """The Y with the greatest error that was found, of those with g = epsilon where it is given."""
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
        """Some steps from a start, none of which lowers the error; None where no Y of its component has g = epsilon.

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
        """A local maximum by trust regions; for a given g by the method of multipliers."""
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
        """A local maximum of error - multiplier (g - epsilon) - penalty/2 (g - epsilon)^2 over the Stiefel manifold."""
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
        """The Y with g = epsilon that is closest to a matrix plus a multiple of the normal; None if there is none.

        Of all Y with that g, it has the greatest inner product with the matrix. side: as in `_polar`.
        """
        unit = self.normal * (np.linalg.norm(matrix, 2) / np.linalg.norm(self.normal, 2))

        def moved(length: float) -> FloatArray:
            return _polar(matrix + length * unit, side)

        def excess(length: float) -> float:
            return self.distortion(moved(length)) - epsilon

        for bound in 4.0 ** np.arange(-1, 21):
            if excess(-bound) >= 0 >= excess(bound):
                found = moved(brentq(excess, -bound, bound, xtol=1e-15, rtol=1e-14))
                return found if abs(self.distortion(found) - epsilon) < _EXACT * self.reach else None
        return None


def _side(point: FloatArray) -> float:
    """The sign that tells O(d)'s components apart; 0 where the manifold is connected."""
    return float(np.sign(np.linalg.det(point))) if point.shape[0] == point.shape[1] else 0.0


def _polar(matrix: FloatArray, side: float = 0.0) -> FloatArray:
    """The orthonormal matrix closest to a (d, p) one; side: the sign that its determinant must have, 0 for any."""
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    if side and np.linalg.det(left) * np.linalg.det(right) * side < 0:
        left[:, -1] = -left[:, -1]
    closest: FloatArray = left @ right
    return closest


def _tangent(point: FloatArray, direction: FloatArray) -> FloatArray:
    """The part of a direction that stays on the Stiefel manifold."""
    inner = point.T @ direction
    tangent: FloatArray = direction - point @ (inner + inner.T) / 2
    return tangent


# --- cases iii and iv: free parameters ----------------------------------------------------------------------------


def _free_single(weights: FloatArray, _: Moments, aim: _Aim) -> tuple[FloatArray, float]:
    """Case iii: (k, 1) class rows with the g aimed at that make eq. 47 a maximum, and the cap.

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
    if aim.within(most) == 0:
        return weights, most
    radius = np.sqrt(k * aim.within(most))
    ends = [
        _best_ratio(_Ratio(np.zeros_like(gram), sign * gram @ start / 2, 0.0, gram), start, radius)
        for sign in (1.0, -1.0)
    ]
    best = max(ends, key=lambda end: abs(float(end @ gram @ start) / float(end @ gram @ end) - 1))
    return weights + (without_shift @ (best - start))[:, None], most


def _free_binary(weights: FloatArray, own: Moments, aim: _Aim) -> tuple[FloatArray, float]:
    """Case iv: (2, d) class rows with the g aimed at that make eq. 51 a maximum, and the cap.

    Both rows move by the same amount in opposite directions: (-theta/2, theta/2) stays of that form.
    """
    d = weights.shape[1]
    true = weights[1] - weights[0]
    most = _NEAREST * float(true @ true) / (4 * d)
    if aim.within(most) == 0:
        return weights, most
    correlated, shift = own.about_zero @ true, np.broadcast_to(own.mean - 0.25, (d, d))
    ratio = _Ratio((shift + shift.T) / 2, -correlated, float(true @ correlated), np.eye(d))
    change = _best_ratio(ratio, true, 2 * np.sqrt(d * aim.within(most))) - true
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
    """The y with the greatest ratio on the sphere ||y - centre|| = radius, which must not reach around the origin.

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
    """The s that maximises s^T Q s + 2 h^T s on ||s|| = radius: (nu I - Q) s = h with nu at least Q's greatest value.

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
    found: FloatArray = vectors @ step
    return found


# --- the defence --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParameterRotation:
    """Discloses what `distort` finds, with one of Remark 10's secrets. Scores and the model stay what they are.

    epsilon: the g to aim at, as a multiple of the mean squared parameter, or as it is where relative is False, as in
    the paper; None for the cap.
    secret: "epsilon" draws g uniformly between 0 and epsilon (or the cap), so that an adversary who could repeat the
    optimisation doesn't know of which g; "sign" discloses the distorted or the true parameters with equal chances;
    "none" leaves all of it to those who can repeat it. The price of "epsilon" is a smaller distortion on average, that
    of "sign" is none at all in half of the sessions.

    The secret is drawn anew at each call: a session calls once and repeats the answer.
    """

    name: ClassVar[str] = "parameter_rotation"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("passive",),
        stages=("parameters",),
        keeps="scores",
        source="Varasteh V-B, eq. 33-52",
        needs=("unit_features",),
        replaces="disclosed parameters",
    )
    epsilon: float | None = 0.5
    relative: bool = True
    secret: Secret = "epsilon"  # noqa: S105 - says what is kept secret

    def __post_init__(self) -> None:
        if self.epsilon is not None and not 0 < self.epsilon <= sys.float_info.max:
            raise ValueError(f"Expected epsilon to be a positive number or None, got {self.epsilon}.")
        if self.secret not in get_args(Secret):
            raise ValueError(f"Expected secret to be one of {', '.join(get_args(Secret))}, got {self.secret!r}.")

    def disclose(self, weights: FloatArray, features: FloatArray, noise: NoiseSource) -> FloatArray:
        """(k, d) class rows to disclose in place of these; (-theta/2, theta/2) stays of that form for d > 1.

        features: the party's own, (n, d) in [0, 1]: K_0 and mu are theirs. Raises DefenceError (see `distort`).
        """
        share = 1.0
        if self.secret == "sign":  # noqa: S105 - as above
            # The true parameters are share 0 of a distortion, so that what can't be distorted is refused either way.
            share = float(noise.integers(2, 1)[0])
        elif self.secret == "epsilon":  # noqa: S105 - as above
            share = float(noise.integers(2**53, 1)[0]) / 2**53
        return distort(weights, features, self.epsilon, relative=self.relative, share=share).weights
