"""Which division of a node gains most, from prefix sums of whole numbers: the same code whoever has added them up."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.learning.trees.tree_options import TreeOptions

# As XGBoost's: a smaller gain is none.
_LEAST_GAIN = 1e-6


@dataclass(frozen=True)
class Candidate:
    """A division of a node.

    Attributes:
        party: whose column, by its place among the parties.
        column: of that party, by its number in the session.
        bin: the last one that goes left.
        missing_left: whether rows without a value go left.
    """

    party: int
    column: int
    bin: int
    missing_left: bool


def best_division(sums: Sequence[IntArray], values: IntArray, options: TreeOptions) -> Candidate | None:
    """Find the division of a node that gains most; None where none gains enough.

    Equal gains go by party, column, bin, and whether what is missing goes left. Of several bins with the same sums, and
    so with the same rows, only the lowest counts. Sums beyond what the node's rows could have gain nothing.

    Either side has `min_rows_of_a_node` rows for certain, as its h is more than one row less could have. No owner need
    refuse it then. One that could, and were asked for the next best, would learn the order of all its candidates.

    Args:
        sums: of each party, (columns, max_bin, 2) prefix sums of g and h.
        values: (s, 2) g and h of the node's own rows.
        options: of the training.
    """
    gains = [_gains(prefixes, values, options) for prefixes in sums]
    together = np.concatenate([gain.ravel() for gain in gains])
    best = together.max(initial=-np.inf)
    if best <= _LEAST_GAIN or best < options.gamma:
        return None
    party, place = 0, int(together.argmax())
    while place >= gains[party].size:
        place -= gains[party].size
        party += 1
    column, bin_, missing_left = np.unravel_index(place, gains[party].shape)
    return Candidate(party, int(column), int(bin_), bool(missing_left))


def leaf_weight(total: IntArray, options: TreeOptions) -> float:
    """Give the margin that a leaf with these sums adds."""
    return float(-options.learning_rate * total[0] / (total[1] + options.reg_lambda * options.unit))


def _gains(prefixes: IntArray, values: IntArray, options: TreeOptions) -> FloatArray:
    """Compute the gains of (columns, max_bin) divisions, what is missing right and left: (columns, max_bin, 2)."""
    total = values.sum(axis=0)
    missing = total - prefixes[:, -1:]
    left = np.stack([prefixes, prefixes + missing], axis=2)
    right = total - left
    unit, largest = options.unit, len(values) * options.unit
    gains = _score(left, options) + _score(right, options) - _score(total, options)
    too_few = np.sort(values[:, 1])[::-1][: options.min_rows_of_a_node - 1].sum()
    least = max(too_few + 1.0, options.min_child_weight * unit)
    possible = (left[..., 1] >= least) & (right[..., 1] >= least)
    # In the clear a sum may be the lowest of all numbers, whose absolute value is itself.
    for first in (left[..., 0], right[..., 0]):
        possible &= (-largest <= first) & (first <= largest)
    # h grows by every row: where it stands still, this bin adds none.
    possible[:, 1:] &= left[:, 1:, :, 1] != left[:, :-1, :, 1]
    # Without a row that misses the value both directions are one division.
    possible[..., 1] &= missing[..., 1] != 0
    return np.where(possible, gains, -np.inf)


def _score(sums: IntArray, options: TreeOptions) -> FloatArray:
    """Compute g**2 / (h + lambda), on the loss's own scale."""
    denominators = np.maximum(1.0, sums[..., 1] + options.reg_lambda * options.unit) * options.unit
    scores: FloatArray = np.square(sums[..., 0].astype(np.float64)) / denominators
    return scores
