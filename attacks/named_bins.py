"""Which bins of the others' columns a label party that grows boosted trees can name (``attacks.told_bins``).

It reads the sums that the protocol tells it, and nothing else. A bin is a place in the order of a column: which column
it is, and where the bin's ends are, stay with the owner. So what is found is counted, and not judged in its units.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from attacks.base import AttackSpec, Extent, Json, require
from attacks.told_bins import MOST_ROWS, possible_bins
from attacks.training_views import TrainingView
from attacks.views import ViewError
from vfl.arrays import IntArray

_UNNAMED = -1
# Measured: a column of 569 records in each tree.
_SECONDS = 0.06


@dataclass(frozen=True, eq=False)
class NamedBins:
    """Bins that follow from sums.

    Attributes:
        bins: by peer, (n, columns of the session) the bin of each record; -1 where several are left.
        left: how many bins are left to a cell, on average.
        trees: whose sums were read.
    """

    kind: ClassVar[str] = "bins"
    bins: Mapping[str, IntArray]
    left: float
    trees: int

    def facts(self) -> Mapping[str, Json]:
        """Tell which share of cells has one bin left, and how many are left on average."""
        cells = np.concatenate([bins.ravel() for bins in self.bins.values()])
        return {
            "cells_named": round(float((cells != _UNNAMED).mean()), 4),
            "bins_left": round(self.left, 1),
            "trees": self.trees,
        }

    def arrays(self) -> Mapping[str, NDArray[np.int64]]:
        """Give the bins by peer."""
        return {f"bins_of_{peer}": bins for peer, bins in self.bins.items()}


def _seconds(extent: Extent) -> float:
    """Think how long the first ten trees take: equations are solved for each column, of all trees together."""
    return _SECONDS * min(extent.steps, 10) * extent.features


@dataclass(frozen=True)
class NameBins:
    """Solves for the bin of each training record in every column of the others, from sums over bins.

    Attributes:
        trees: The first so many are read: more take longer, and tell more.
    """

    trees: int = 10

    name: ClassVar[str] = "named_bins"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="training",
        knowledge="agnostic",
        needs=(),
        source="ours",
        learners=("boosted_trees",),
        summary="names the bins that training records are in, from the sums that boosted trees tell the label party",
        cost="seconds for each tree",
        seconds=_seconds,
    )

    def __post_init__(self) -> None:
        if self.trees < 1:
            raise ValueError(f"Expected trees to be 1 or more, got {self.trees!r}.")

    def attack(self, view: TrainingView) -> NamedBins:
        """Name bins. Raises ViewError for a view without sums, which those of more than `MOST_ROWS` records have."""
        require(self, view)
        if not view.bin_sums:
            raise ViewError(f"named_bins reads what a label party is told of bins, of at most {MOST_ROWS:,} records.")
        found: dict[str, list[IntArray]] = {}
        left = []
        rows = np.unique(np.concatenate([step.rows for step in view.steps]))
        for (peer, _), told in sorted(view.bin_sums.items()):
            nodes = [sums for tree, sums in told if tree < self.trees]
            if not nodes:
                continue
            possible = possible_bins(nodes, view.n)
            counts = possible.sum(axis=1)
            named = np.where(counts == 1, possible.argmax(axis=1), _UNNAMED)
            left.append(float(counts[rows].mean()))
            found.setdefault(peer, []).append(named[rows])
        if not found:
            raise ViewError("named_bins has no sums of the trees that it reads: no node was divided.")
        bins = {peer: np.column_stack(columns) for peer, columns in found.items()}
        return NamedBins(bins, float(np.mean(left)), min(self.trees, len(view.steps)))
