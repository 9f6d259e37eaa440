"""Measures how much a reconstruction tells of the truth: errors, baselines, accuracy, entropy."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import betaincinv

from vfl.arrays import FloatArray, IntArray

# A column with at most this many values counts as discrete.
_DISCRETE_VALUES = 20
# What counts as equal.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Interval:
    """A mean over records, with what resampling them makes of it.

    Attributes:
        mean: the mean.
        low: 2.5 % quantile of the bootstrap.
        high: 97.5 % quantile of the bootstrap.
        alone: whether there was but one to resample (``LoneMean``): nothing is sure of it.
    """

    mean: float
    low: float
    high: float
    alone: ClassVar[bool] = False


class LoneMean(Interval):
    """What a single window and seed measured: it has no interval, and both its ends are itself."""

    alone: ClassVar[bool] = True

    def __init__(self, mean: float) -> None:
        """Take the one mean that there is."""
        super().__init__(mean, mean, mean)


def exact_share(hits: int, of: int, tail: float = 0.025) -> Interval:
    """Give a share with its exact interval, which misses it by either end so often at most (Clopper, Pearson 1934)."""
    ends = betaincinv([max(hits, 1), hits + 1], [of - hits + 1, max(of - hits, 1)], [tail, 1 - tail])
    low, high = (0.0 if hits == 0 else float(ends[0])), (1.0 if hits == of else float(ends[1]))
    return Interval(hits / of if of else 0.0, low, high)


def mse_per_feature(truth: FloatArray, estimate: FloatArray) -> float:
    """Mean squared error per feature of (n, d) reconstructions (Rassouli eq. 7, Jiang eq. 23)."""
    return float(((truth - estimate) ** 2).mean())


def squared_errors(truth: FloatArray, estimate: FloatArray) -> FloatArray:
    """Square the error of every cell of (n, d) reconstructions."""
    errors: FloatArray = (truth - estimate) ** 2
    return errors


def misses(truth: FloatArray, estimate: FloatArray, tolerance: FloatArray) -> FloatArray:
    """1 where (n, d) reconstructions are off by more than their column's (d,) tolerance, else 0.

    What is off by the tolerance itself is within, whatever floating point makes of it.
    """
    return (np.abs(truth - estimate) > tolerance + _ROUNDING).astype(np.float64)


def r_squared(truth: FloatArray, estimate: FloatArray) -> FloatArray:
    """R^2 of each column of (n, d) reconstructions, (d,): 1 is exact, 0 as good as the mean; NaN for a constant."""
    spread, error = truth.var(axis=0), squared_errors(truth, estimate).mean(axis=0)
    explained: FloatArray = 1 - np.divide(error, spread, out=np.full_like(spread, np.nan), where=spread > 0)
    return explained


def covered(truth: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Share of each column's cells that lie in an attack's (n, d) intervals, (d,)."""
    inside: FloatArray = ((low - _ROUNDING <= truth) & (truth <= high + _ROUNDING)).mean(axis=0)
    return inside


class LikewiseLabelled:
    """Counts records whose reconstruction an independent classifier labels like the original (Jiang eq. 24).

    The classifier (scikit-learn's SGD, as in the paper) is trained once, on held-out passive features and their labels.
    """

    def __init__(self, truth: FloatArray, *, held_out: FloatArray, held_out_labels: IntArray) -> None:
        """Train the classifier; held-out records of one class teach it nothing.

        Args:
            truth: (n, d) originals.
            held_out: (m, d) other records.
            held_out_labels: (m,) classes of these.
        """
        from sklearn.linear_model import SGDClassifier

        self._evaluator = None
        if len(np.unique(held_out_labels)) > 1 and len(truth):
            self._evaluator = SGDClassifier(random_state=0).fit(held_out, held_out_labels)
            self._labels = self._evaluator.predict(truth)

    def accuracy(self, estimate: FloatArray) -> float:
        """Share of records that (n, d) reconstructions leave their label; NaN where nothing could be learned."""
        if self._evaluator is None:
            return float("nan")
        return float((self._evaluator.predict(estimate) == self._labels).mean())


def correlation_with_active(features_passive: FloatArray, features_active: FloatArray) -> FloatArray:
    """Mean absolute Pearson correlation of each passive column with the active ones, (d,) (Jiang eq. 25).

    Constant columns correlate with nothing: 0.
    """

    def standardised(columns: FloatArray) -> FloatArray:
        centred = columns - columns.mean(axis=0)
        scale = np.sqrt((centred**2).sum(axis=0))
        unit: FloatArray = np.divide(centred, scale, out=np.zeros_like(centred), where=scale > 0)
        return unit

    correlations: FloatArray = np.abs(standardised(features_passive).T @ standardised(features_active)).mean(axis=1)
    return correlations


def is_discrete(column: FloatArray) -> bool:
    """Tell whether an (n,) column has so few values that entropies make sense."""
    return len(np.unique(column)) <= min(_DISCRETE_VALUES, max(2, len(column) // 10))


def entropy(column: FloatArray) -> float:
    """Compute the entropy of the empirical distribution of a discrete (n,) column, in bits."""
    return _entropy(np.unique(column, return_counts=True)[1])


def conditional_entropy(truth: FloatArray, estimate: FloatArray) -> float:
    """H(X | X^) in bits of a discrete (n,) column given its reconstruction (Rassouli, section IX); 0 gives X away.

    Estimates with more distinct values than the column are put into as many equally filled bins as it has values; the
    plug-in value is slightly too small for few records. Estimates need not be near the truth: a permuted or inverted
    reconstruction tells it in full.
    """
    values, distinct = np.unique(truth), np.unique(estimate)
    symbols = np.searchsorted(values, truth)
    if len(distinct) > len(values):
        edges = np.unique(np.quantile(estimate, np.linspace(0, 1, len(values) + 1)[1:-1]))
        bins = np.searchsorted(edges, estimate, side="right")
    else:
        bins = np.searchsorted(distinct, estimate)
    size = int(bins.max()) + 1
    joint = np.bincount(bins * len(values) + symbols, minlength=size * len(values)).reshape(size, len(values))
    return _entropy(joint.ravel()) - _entropy(joint.sum(axis=1))


def _entropy(counts: FloatArray | IntArray) -> float:
    probabilities = counts[counts > 0] / counts.sum()
    return float(-(probabilities * np.log2(probabilities)).sum())
