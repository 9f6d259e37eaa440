"""Columns that take few values: which they are, and how likely a record has each value."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attacks.views import PassiveMoments
from vfl.arrays import FloatArray, IntArray

# Of columns whose support nobody told: at most so many values, each in so many records on average.
_MOST_VALUES, _RECORDS_PER_VALUE = 20, 4
# Penalties of the classifier (scikit-learn's C), and the parts in which records are left out to choose one.
_STRENGTHS, _FOLDS = (0.03, 0.3, 3.0), 5
# It learns from so many at most: beyond, what it costs grows and what it adds to the ridge regressions doesn't.
_MOST_RECORDS = 1000
# How much of the ridge regressions' probabilities a mixture with the classifier's may take.
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, eq=False)
class CategoryPrior:
    """Columns that together take one of k rows of values.

    Attributes:
        columns: (m,) indices; one, or those of a one-hot encoded feature.
        values: (k, m).
        frequencies: (k,), or (n, k) where records differ; positive, summing to 1.
    """

    columns: IntArray
    values: FloatArray
    frequencies: FloatArray

    @property
    def mean(self) -> FloatArray:
        """The columns' mean: (m,), or (n, m) where records differ."""
        return self.frequencies @ self.values

    def of(self, n: int) -> FloatArray:
        """Predict the frequencies of each of n records, (n, k)."""
        return np.broadcast_to(self.frequencies, (n, len(self.values)))

    def restricted_to(self, records: IntArray) -> "CategoryPrior":
        """Take the category of some of the records."""
        return self if self.frequencies.ndim == 1 else replace(self, frequencies=self.frequencies[records])

    def indicators(self, rows: FloatArray) -> FloatArray:
        """Tell which row of values each record (t, d) is nearest to, as (t, k) zeros and ones."""
        distances = ((rows[:, self.columns][:, None] - self.values) ** 2).sum(axis=2)
        indicators: FloatArray = np.eye(len(self.values))[distances.argmin(axis=1)]
        return indicators


def published_categories(moments: PassiveMoments | None) -> tuple[CategoryPrior, ...]:
    """Collect the categories that published statistics tell: one-hot groups, then columns with a support."""
    if moments is None:
        return ()
    groups = [np.array(columns) for columns in moments.groups if len(columns) > 1]
    categories = [CategoryPrior(group, np.eye(len(group)), _positive(moments.mean[group])) for group in groups]
    grouped = {int(column) for category in categories for column in category.columns}
    supports = zip(moments.supports, moments.frequencies, strict=False)
    for column, (support, frequencies) in enumerate(supports):
        if column not in grouped and support is not None and frequencies is not None and len(support) > 1:
            categories.append(CategoryPrior(np.array([column]), support[:, None], _positive(frequencies)))
    return tuple(categories)


def seen_categories(rows: FloatArray, published: Sequence[CategoryPrior] = ()) -> tuple[CategoryPrior, ...]:
    """Collect the categories that records (t, d) show, beside those that are known without them.

    Frequencies are the records', every value counted half a time more.
    """
    columns = {int(column) for category in published for column in category.columns}
    categories = list(published)
    for column in range(rows.shape[1]):
        support = np.unique(rows[:, column])
        if column not in columns and 1 < len(support) <= min(_MOST_VALUES, len(rows) // _RECORDS_PER_VALUE):
            categories.append(
                CategoryPrior(np.array([column]), support[:, None], np.full(len(support), 1.0 / len(support)))
            )
    return tuple(replace(one, frequencies=_counted(one.indicators(rows))) for one in categories)


def classify(
    category: CategoryPrior,
    rows: FloatArray,
    inputs: tuple[FloatArray, FloatArray],
    regressed: tuple[FloatArray, FloatArray],
) -> tuple[CategoryPrior, FloatArray]:
    """Predict a category from the columns that records and asked records have in common.

    A logistic regression and the ridge regressions' indicators are mixed so that left-out records are likeliest.

    Args:
        category: with the records' frequencies (k,).
        rows: (t, d), the records' passive columns.
        inputs: (t, p) and (n, p), what is known of both.
        regressed: (t, k) and (n, k), the indicators by ridge regression: of the records left out, and asked.

    Returns the category with frequencies (n, k), and those of the records where left out, (t, k).
    """
    one_hot, share = category.indicators(rows), 1.0 / (len(rows) + 1)
    left_out, predicted = regressed = (_probabilities(regressed[0]), _probabilities(regressed[1]))
    by_classifier = _logistic(inputs, one_hot)

    def smooth(probabilities: FloatArray) -> FloatArray:
        return (1 - share) * probabilities + share * category.frequencies

    if by_classifier is None:
        return replace(category, frequencies=smooth(predicted)), smooth(left_out)
    mixed = [
        tuple(smooth((1 - part) * theirs + part * ours) for theirs, ours in zip(by_classifier, regressed, strict=True))
        for part in _SHARES
    ]
    best = max(mixed, key=lambda one: float((one_hot * np.log(one[0])).sum()))
    return replace(category, frequencies=best[1]), best[0]


def _logistic(inputs: tuple[FloatArray, FloatArray], one_hot: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Probabilities of the records left out (t, k) and asked (n, k), for the best penalty; None for too few records."""
    t = len(one_hot)
    if t < 2 * _FOLDS or len(np.unique(one_hot.argmax(axis=1))) < 2 or not inputs[0].shape[1]:
        return None
    best: tuple[float, float, FloatArray] | None = None
    for strength in _STRENGTHS:
        left_out = np.empty_like(one_hot)
        for fold in range(_FOLDS):
            out = np.arange(t) % _FOLDS == fold
            left_out[out] = _fitted(strength, inputs[0][~out], one_hot[~out], inputs[0][out])
        likelihood = float(np.log(np.maximum((one_hot * left_out).sum(axis=1), 1.0 / (10 * t))).sum())
        if best is None or likelihood > best[0]:
            best = (likelihood, strength, left_out)
    return None if best is None else (best[2], _fitted(best[1], inputs[0], one_hot, inputs[1]))


def _fitted(strength: float, inputs: FloatArray, one_hot: FloatArray, queries: FloatArray) -> FloatArray:
    from sklearn import config_context  # slow to import
    from sklearn.linear_model import LogisticRegression

    inputs, classes = inputs[:_MOST_RECORDS], one_hot[:_MOST_RECORDS].argmax(axis=1)
    probabilities = np.zeros((len(queries), one_hot.shape[1]))
    if len(np.unique(classes)) < 2:
        probabilities[:, classes[0]] = 1.0
    elif len(queries):
        # Of many small fits, checks of what goes in would take most of the time.
        with config_context(assume_finite=True, skip_parameter_validation=True):
            model = LogisticRegression(C=strength, tol=1e-3, max_iter=200).fit(inputs, classes)
            probabilities[:, model.classes_] = model.predict_proba(queries)
    return probabilities


def _positive(frequencies: FloatArray) -> FloatArray:
    """Frequencies that sum to 1, where those told as 0 or less are all but 0."""
    raised = np.maximum(frequencies, 1e-6)
    positive: FloatArray = raised / raised.sum()
    return positive


def _counted(indicators: FloatArray) -> FloatArray:
    counts = indicators.sum(axis=0) + 0.5
    frequencies: FloatArray = counts / counts.sum()
    return frequencies


def _probabilities(indicators: FloatArray) -> FloatArray:
    raised = np.maximum(indicators, 1e-4)
    probabilities: FloatArray = raised / raised.sum(axis=1, keepdims=True)
    return probabilities
