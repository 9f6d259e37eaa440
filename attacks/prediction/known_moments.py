"""What statistics that anybody may have published tell of the passive columns: moments, few values, one-hot groups."""

from collections.abc import Collection, Sequence

import numpy as np

from attacks.views import PassiveMoments
from vfl.arrays import BoolArray, FloatArray, IntArray

# A column takes few values when it has at most so many, each in so many records on average.
_MOST_VALUES, _RECORDS_PER_VALUE = 20, 10


def known_moments(features: FloatArray, groups: Sequence[IntArray] = ()) -> PassiveMoments:
    """Collect all that a Bayesian adversary may know of columns without having one record of them.

    Args:
        features: (n, d), the records that the statistics are over: none that is attacked, on the scale of the attack.
        groups: indices of the columns of one-hot encoded features that are known to be so; others are found.

    Raises:
        ValueError: without a record.
    """
    if features.ndim != 2 or len(features) == 0:
        raise ValueError(f"Expected features of shape (records, columns), got {features.shape}.")
    centred = features - features.mean(axis=0)
    supports = [_few_values(column) for column in features.T]
    grouped = frozenset(column for group in groups for column in group.tolist())
    return PassiveMoments(
        mean=features.mean(axis=0),
        variance=features.var(axis=0),
        covariance=centred.T @ centred / len(features),
        supports=tuple(None if found is None else found[0] for found in supports),
        frequencies=tuple(None if found is None else found[1] for found in supports),
        groups=(*groups, *one_hot_groups(features, grouped)),
    )


def one_hot_groups(features: FloatArray, but: Collection[int] = ()) -> tuple[IntArray, ...]:
    """Find neighbouring columns of zeros and ones, exactly one of which is 1 in every record: indices of each group.

    Columns of ``but`` are in none, and end one.
    """
    is_binary = np.isin(features, (0.0, 1.0)).all(axis=0) & (np.ptp(features, axis=0) > 0)
    is_binary[list(but)] = False
    groups: list[IntArray] = []
    start = 0
    while start < features.shape[1]:
        end = _end_of_group(features, is_binary, start)
        if end > start + 1:
            groups.append(np.arange(start, end))
        start = max(end, start + 1)
    return tuple(groups)


def _end_of_group(features: FloatArray, is_binary: BoolArray, start: int) -> int:
    """Find the column behind the group that begins at ``start``; ``start`` where none does."""
    total = np.zeros(len(features))
    for column in range(start, features.shape[1]):
        total = total + features[:, column]
        if not is_binary[column] or total.max() > 1:
            return start
        if total.min() == 1:
            return column + 1
    return start


def _few_values(column: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    values, counts = np.unique(column, return_counts=True)
    if len(values) > max(2, min(_MOST_VALUES, len(column) // _RECORDS_PER_VALUE)):
        return None
    return values, counts / len(column)
