"""Which divisions of a node gain most, from prefix sums of whole numbers: the same code whoever has added them up."""

from collections.abc import Iterator, Sequence
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
        gain: of the loss, on its own scale.
    """

    party: int
    column: int
    bin: int
    missing_left: bool
    gain: float


def ranked(sums: Sequence[IntArray], total: IntArray, rows: int, options: TreeOptions) -> Iterator[Candidate]:
    """List a node's divisions that gain enough, the best first.

    Equal gains go by party, column, bin, and whether what is missing goes left. Of several bins with the same sums, and
    so with the same rows, only the lowest is listed. Sums that no rows of this node can have gain nothing.

    Args:
        sums: of each party, (columns, max_bin, 2) prefix sums of g and h.
        total: (2,) the node's own.
        rows: of the node.
        options: of the training.
    """
    gains = [_gains(prefixes, total, rows, options) for prefixes in sums]
    parties = np.concatenate([np.full(gain.size, party) for party, gain in enumerate(gains)])
    places = np.concatenate([np.arange(gain.size) for gain in gains])
    together = np.concatenate([gain.ravel() for gain in gains])
    enough = np.flatnonzero((together > _LEAST_GAIN) & (together >= options.gamma))
    for index in enough[np.argsort(-together[enough], kind="stable")]:
        party = int(parties[index])
        column, bin_, missing_left = np.unravel_index(places[index], gains[party].shape)
        yield Candidate(party, int(column), int(bin_), bool(missing_left), float(together[index]))


def leaf_weight(total: IntArray, options: TreeOptions) -> float:
    """Give the margin that a leaf with these sums adds."""
    return float(-options.learning_rate * total[0] / (total[1] + options.reg_lambda * options.unit))


def _gains(prefixes: IntArray, total: IntArray, rows: int, options: TreeOptions) -> FloatArray:
    """Compute the gains of (columns, max_bin) divisions, what is missing right and left: (columns, max_bin, 2)."""
    missing = total - prefixes[:, -1:]
    left = np.stack([prefixes, prefixes + missing], axis=2)
    right = total - left
    unit, largest = options.unit, rows * options.unit
    gains = _score(left, options) + _score(right, options) - _score(total, options)
    least = max(1.0, options.min_child_weight * unit)
    possible = (np.abs(left[..., 0]) <= largest) & (np.abs(right[..., 0]) <= largest)
    possible &= (left[..., 1] >= least) & (right[..., 1] >= least)
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
