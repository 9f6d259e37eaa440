"""What scores and parameters leak about a linear model's features: equations and Theorems 1-2 of Rassouli III-V.

A, the matrix of the adversary's equations A x = b, is J W_pas with J as in eq. 4: differences of consecutive class
rows. For d < k - 1 it is tall, and then its pseudoinverse depends on that choice (Lemma 3 needs full row rank). The
projector A^+ A, and with it every figure in this module but Varasteh's (section IV-C, eq. 21), does not.
"""

from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class RowSpace:
    """The thin singular value decomposition A = U diag(s) V^T, cut at the numerical rank r.

    Attributes:
        left: U, (m, r), orthonormal columns.
        singular_values: s, (r,), positive, falling.
        basis: V, (d, r), orthonormal columns.
    """

    left: FloatArray
    singular_values: FloatArray
    basis: FloatArray

    @property
    def rank(self) -> int:
        """r: how many independent equations there are."""
        return len(self.singular_values)

    @property
    def nullity(self) -> int:
        """d - r: how many directions of the features no equation touches."""
        return len(self.basis) - self.rank

    @property
    def pseudoinverse(self) -> FloatArray:
        """A^+ = V diag(1/s) U^T, (d, m)."""
        return (self.basis / self.singular_values) @ self.left.T

    @property
    def null_projector(self) -> FloatArray:
        """I - A^+ A = I - V V^T, (d, d): the part of the features on which the equations are silent."""
        return np.eye(len(self.basis)) - self.basis @ self.basis.T


def row_space(matrix: FloatArray) -> RowSpace:
    """Decompose a (m, d) matrix. A singular value counts when it exceeds max(m, d) * 2^-52 times the largest.

    Raises:
        ValueError: unless the matrix has two dimensions and finite entries.
    """
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise ValueError(f"Expected a matrix of finite numbers, got shape {matrix.shape}.")
    left_vectors, values, right = np.linalg.svd(matrix, full_matrices=False)
    tolerance = max(matrix.shape) * np.finfo(np.float64).eps * values.max(initial=0.0)
    large = values > tolerance
    return RowSpace(left_vectors[:, large], values[large], np.ascontiguousarray(right[large].T))


def equations(weights_passive: FloatArray) -> FloatArray:
    """Form the adversary's matrix A = J W_pas (Rassouli eq. 4-6): (k, d) class rows in, (k - 1, d) out."""
    return np.diff(weights_passive, axis=0)


@dataclass(frozen=True, eq=False)
class Moments:
    """Second moments of (n, d) features: K_0, K_1/2 and the covariance K_mu = E[(X - mu)(X - mu)^T], each (d, d)."""

    mean: FloatArray
    about_zero: FloatArray
    about_half: FloatArray
    about_mean: FloatArray


def moments(features: FloatArray) -> Moments:
    """Empirical moments (Rassouli, before Theorem 2) of (n, d) features scaled to [0, 1].

    Raises ValueError for other shapes, no records, or values that are not numbers in [0, 1].
    """
    if features.ndim != 2 or features.size == 0:
        raise ValueError(f"Expected features of shape (records, features), got {features.shape}.")
    if not (features.min() >= 0 and features.max() <= 1):  # NaN fails both
        raise ValueError("Expected features in [0, 1]: scale them with the min-max encoder first.")

    def about(point: float | FloatArray) -> FloatArray:
        centred = features - point
        return centred.T @ centred / len(features)

    mean: FloatArray = features.mean(axis=0)
    return Moments(mean, about(0.0), about(0.5), about(mean))


@dataclass(frozen=True)
class BoundedError:
    """An MSE per feature with the lower and upper bound that hold for every A of the same rank."""

    lower: float
    value: float
    upper: float


@dataclass(frozen=True)
class PredictionErrors:
    """Theorem 2 for one A: closed forms of LS and half* with their bounds, and what neither can beat (eq. 50-52)."""

    least_squares: BoundedError
    half_star: BoundedError
    floor: float


def prediction_errors(matrix: FloatArray, features: Moments) -> PredictionErrors:
    """Evaluate Theorem 2 (Rassouli eq. 50-52) for the equations' matrix A, (m, d), and the features' moments.

    The equalities are exact for the records the moments were taken over, given undistorted scores and parameters. For
    fresh records they are expectations.

    Raises:
        ValueError: when A and the moments differ in d.
    """
    if matrix.shape[1:] != features.mean.shape:
        raise ValueError(f"Expected a matrix over {len(features.mean)} features, got shape {matrix.shape}.")
    space = row_space(matrix)
    silent, d = space.null_projector, len(space.basis)

    def error(moment: FloatArray) -> float:
        # The projector is symmetric, so the trace of the product is the sum of the elementwise product.
        return float(np.sum(silent * moment)) / d

    def bounded(moment: FloatArray) -> BoundedError:
        lower, upper = _trace_bounds(moment, space.nullity)
        return BoundedError(lower, error(moment), upper)

    return PredictionErrors(bounded(features.about_zero), bounded(features.about_half), error(features.about_mean))


@dataclass(frozen=True)
class Interval:
    """Bounds of an MSE per feature."""

    lower: float
    upper: float


@dataclass(frozen=True)
class PreflightBounds:
    """What a passive party can say of its leak before training, from its table and the number of classes (Remark 4).

    Attributes:
        rank: of A: min(k - 1, d) when A has full rank, which Remark 4 assumes.
        nullity: d - rank, the number of directions that stay hidden.
        least_squares: bounds of the attack's error, whatever parameters training arrives at.
        half_star: the same for half*.
        mean_star: the same for mu + A^+ (b - A mu) of an adversary that knows the features' mean mu beforehand.
        floor: what none of these attacks can beat, whatever A (eq. 52 with the bound of eq. 56).
        mean: exact MSE per feature of a blind guess of mu: the mean variance.
        half: exact MSE per feature of a blind guess of 1/2.
        zero: of a blind guess of 0.
        random_guess: of a blind uniform guess.
    """

    rank: int
    nullity: int
    least_squares: Interval
    half_star: Interval
    mean_star: Interval
    floor: float
    mean: float
    half: float
    zero: float
    random_guess: float

    @property
    def fully_determined(self) -> bool:
        """Whether every record can be reconstructed without error: d < k (Rassouli, Figure 4)."""
        return self.nullity == 0


def preflight_bounds(features: FloatArray, classes: int) -> PreflightBounds:
    """Bound what a passive party will leak, before training (Rassouli Remark 4, eq. 50-52 and 56).

    The paper has one passive party. With several, A spans the features of all of them, and the bounds are those of the
    joined table. A party that evaluates them on its own columns answers for an adversary that already knows the
    others'.

    Args:
        features: (n, d) of the passive party, in [0, 1].
        classes: k.

    Raises:
        ValueError: for fewer than two classes or features that `moments` refuses.
    """
    if classes < 2:
        raise ValueError(f"A classifier needs at least 2 classes, got {classes}.")
    column_moments = moments(features)
    d = len(column_moments.mean)
    rank = min(classes - 1, d)
    half = float(np.trace(column_moments.about_half)) / d
    return PreflightBounds(
        rank=rank,
        nullity=d - rank,
        least_squares=Interval(*_trace_bounds(column_moments.about_zero, d - rank)),
        half_star=Interval(*_trace_bounds(column_moments.about_half, d - rank)),
        mean_star=Interval(*_trace_bounds(column_moments.about_mean, d - rank)),
        floor=_trace_bounds(column_moments.about_mean, d - rank)[0],
        mean=float(np.trace(column_moments.about_mean)) / d,
        half=half,
        zero=float(np.trace(column_moments.about_zero)) / d,
        # A uniform guess adds its variance to the error of its mean (Lemma 1).
        random_guess=half + 1 / 12,
    )


def _trace_bounds(moment: FloatArray, nullity: int) -> tuple[float, float]:
    """Bound Tr(N K)/d over projectors N of the given rank, below and above: sums of extreme eigenvalues (eq. 56)."""
    # K is psd: what eigvalsh puts below zero is rounding.
    rising = np.maximum(np.linalg.eigvalsh(moment), 0.0)
    return float(rising[:nullity].sum()) / len(moment), float(rising[len(moment) - nullity :].sum()) / len(moment)
