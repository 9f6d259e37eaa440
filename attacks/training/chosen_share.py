"""Passive columns from shares of weights that the label party chooses, where a network's first layer is shared (ours).

Under ``backward=shared`` a passive party multiplies its features by weights of which the label party holds a share, and
sends it the products. Nobody can tell what a share should be: with C added to it the products are X (W + C) in place
of X W. The next use of the same records without C, or the one before, leaves X C and what W has moved by meanwhile.
A column times 64 in each unit is so read to the movement of weights in one epoch over 64: h columns in an epoch, of all
records, with nothing known beforehand. No message differs from an honest party's.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attacks.base import AttackSpec, Scenario
from attacks.training.recovered_values import EstimatedFeatures, by_peer
from attacks.training_attack import SharingTerms
from vfl.arrays import FloatArray

# Products count modulo 2^8: features up to 1.9 times this are read, whatever the weights do.
_FACTOR, _RANGE = 64.0, 2.0**8


@dataclass(frozen=True)
class ChosenShare:
    """Reads as many columns as there are units in each of the last epochs. It trains on with the products before.

    Attributes:
        epochs: how many are given up for it; 0 for as many as all columns take, if there are so many but the first.
    """

    epochs: int = 0

    name: ClassVar[str] = "chosen_share"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="training",
        needs=(),
        source="ours",
        learners=("network",),
        summary="chooses its shares of a network's first layer, where weights are shared, and reads passive columns",
        cost="its last epochs: upper layers are trained on what came before",
        conduct="replaces_shares",
        obstacle=lambda scenario: _obstacle(scenario),
    )

    def __post_init__(self) -> None:
        if self.epochs < 0:
            raise ValueError(f"Expected epochs >= 0, got {self.epochs}.")

    def choose(self, terms: SharingTerms) -> "ReadColumns":
        """Choose what is added in a session. Raises ValueError for a single epoch, or another than the label party."""
        return ReadColumns(terms, self.epochs)


def _obstacle(scenario: Scenario) -> str:
    return "" if scenario.protocol == "shared" else "chooses shares, which only protocol=shared has"


class ReadColumns:
    """One session's choice, and the columns that it told."""

    def __init__(self, terms: SharingTerms, epochs: int) -> None:
        """Plan which epoch reads which columns."""
        n, h = len(terms.features), terms.outputs
        visits = np.bincount(np.concatenate(terms.batches), minlength=n)
        planned = int(visits.max(initial=0))
        if planned < 2:
            raise ValueError("chosen_share compares two uses of each record, and there is one epoch: train for two.")
        self._peers, self._batches = terms.peers, terms.batches
        columns = sum(terms.peers.values())
        needed = -(-columns // h)
        reading = min(epochs or needed, needed, planned - 1)
        per_epoch = len(terms.batches) // planned
        self._per_epoch, self._first = per_epoch, planned - reading
        # The units of a reading epoch and the column that each reads, the last epoch's units more than once.
        self._columns = [np.arange(at * h, min((at + 1) * h, columns)) for at in range(reading)]
        self._column_of = [np.resize(one, h) for one in self._columns]
        self._before = np.full((n, h), np.nan)
        self._found = np.full((n, columns), np.nan)

    def added(self, step: int, peer: str) -> FloatArray | None:
        """Give the factor at a unit's column of this peer, (d, h); None in epochs that don't read."""
        if (phase := self._phase(step)) is None:
            return None
        start = 0
        for name, width in self._peers.items():
            if name == peer:
                break
            start += width
        columns = np.arange(start, start + self._peers[peer])
        added: FloatArray = _FACTOR * (columns[:, None] == self._column_of[phase]).astype(np.float64)
        return added

    def read(self, step: int, products: FloatArray) -> FloatArray:
        """Keep products, or read columns off them and go on with those kept."""
        rows = self._batches[step]
        if (phase := self._phase(step)) is None:
            self._before[rows] = products
            return products
        before = self._before[rows]
        difference = (products - before + _RANGE / 2) % _RANGE - _RANGE / 2
        for column in self._columns[phase]:
            self._found[rows, column] = difference[:, self._column_of[phase] == column].mean(axis=1) / _FACTOR
        return np.where(np.isfinite(before), before, products)

    def result(self) -> EstimatedFeatures:
        """Give the columns that were read; those that weren't are one half of what such features range over."""
        rows = np.flatnonzero(np.isfinite(self._found).any(axis=1))
        values = np.where(np.isfinite(self._found[rows]), self._found[rows], 0.5)
        reason = "" if len(rows) else "Not possible: training ended before an epoch that reads."
        return EstimatedFeatures(rows, by_peer(self._peers, values), {}, reason=reason)

    def _phase(self, step: int) -> int | None:
        """Tell which of the reading epochs a step is of; None for one that doesn't read."""
        phase = step // self._per_epoch - self._first
        return phase if 0 <= phase < len(self._columns) else None
