"""How much a reconstruction tells, once truth and estimate have met: errors, baselines, accuracy, entropy."""

from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray, IntArray

# A column with at most this many values counts as discrete.
_DISCRETE_VALUES = 20


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % bootstrap interval over records."""

    mean: float
    low: float
    high: float


def bootstrap_mean(values: FloatArray, *, generator: np.random.Generator, resamples: int = 1000) -> Interval:
    """Mean of (n,) values over records with its percentile bootstrap interval; one value has no width."""
    counts = generator.multinomial(len(values), np.full(len(values), 1 / len(values)), size=resamples)
    low, high = np.quantile(counts @ values / len(values), [0.025, 0.975])
    return Interval(float(values.mean()), float(low), float(high))


def mse_per_feature(truth: FloatArray, estimate: FloatArray) -> float:
    """Mean squared error per feature of (n, d) reconstructions (Rassouli eq. 7, Jiang eq. 23)."""
    return float(((truth - estimate) ** 2).mean())


def attack_accuracy(
    truth: FloatArray, estimate: FloatArray, *, held_out: FloatArray, held_out_labels: IntArray
) -> float:
    """Share of records whose reconstruction an independent classifier labels like the original (Jiang eq. 24).

    The classifier (scikit-learn's SGD, as in the paper) is trained on held-out passive features and their labels.
    """
    from sklearn.linear_model import SGDClassifier

    evaluator = SGDClassifier(random_state=0).fit(held_out, held_out_labels)
    return float((evaluator.predict(truth) == evaluator.predict(estimate)).mean())


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
    """Whether an (n,) column has few values, so that entropies make sense."""
    return len(np.unique(column)) <= min(_DISCRETE_VALUES, max(2, len(column) // 10))


def entropy(column: FloatArray) -> float:
    """Entropy of the empirical distribution of a discrete (n,) column, in bits."""
    return _entropy(np.unique(column, return_counts=True)[1])


def conditional_entropy(truth: FloatArray, estimate: FloatArray) -> float:
    """H(X | X^) in bits of a discrete (n,) column given its reconstruction (Rassouli, section IX); 0 gives X away.

    Estimates with more distinct values than the column are put into as many equally filled bins as it has values; the
    plug-in value is slightly too small for few records. It doesn't ask that estimates be *near* the truth, only that
    they tell it: a permuted or inverted reconstruction counts in full.
    """
    values, symbols = np.unique(truth, return_inverse=True)
    distinct, bins = np.unique(estimate, return_inverse=True)
    if len(distinct) > len(values):
        edges = np.unique(np.quantile(estimate, np.linspace(0, 1, len(values) + 1)[1:-1]))
        bins = np.searchsorted(edges, estimate, side="right")
    joint = np.zeros((bins.max() + 1, len(values)))
    np.add.at(joint, (bins, symbols), 1)
    return _entropy(joint.ravel()) - _entropy(joint.sum(axis=1))


def _entropy(counts: FloatArray | IntArray) -> float:
    probabilities = counts[counts > 0] / counts.sum()
    return float(-(probabilities * np.log2(probabilities)).sum())
