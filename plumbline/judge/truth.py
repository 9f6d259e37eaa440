"""The truth behind attacked records, read from every party's files: only an auditor has all of them."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from plumbline.judge.baselines import Knowledge, Predictor, imputations
from plumbline.judge.categories import Category, few_valued, find_categories
from plumbline.judge.measures import (
    LikewiseLabelled,
    conditional_entropy,
    correlation_with_active,
    entropy,
    is_discrete,
)
from plumbline.judge.sources import TOLERANCE, Source, sources_of
from services.common.identity import Role
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.run_records import Estimates
from vfl.arrays import FloatArray


class Truth:
    """The passive features behind the attacked rows, and what else an auditor needs to judge reconstructions.

    Attributes:
        owners: name of each passive feature's party.
        names: of the passive features.
        sources: the columns of the passive tables that they are of.
        cells: (n, d), the attacked records.
    """

    def __init__(self, folder: RunFolder, passive_parties: Sequence[str], estimates: Estimates) -> None:
        """Read all parties' features; raises RunFolderError for a file that is missing or broken."""
        written = {party: folder.features(party) for party in passive_parties}
        if len({len(own.features) for own in written.values()} - {0}) != 1:
            raise RunFolderError(f"{folder.path} has parties of no or other records: run it again, into a new folder.")
        self._passive = np.hstack([own.features for own in written.values()])
        self.owners = [party for party, own in written.items() for _ in own.names]
        self.names = [str(name) for own in written.values() for name in own.names]
        self._is_typed = all(own.sources is not None for own in written.values())
        self.sources: list[Source] = []
        first = 0
        for party, own in written.items():
            self.sources += sources_of(party, own, self._passive, first)
            first += own.features.shape[1]
        self._active, self._labels = folder.features(Role.ACTIVE).features, folder.labels()
        known = estimates.auxiliary_rows
        self._rows, self._known = estimates.rows, np.empty(0, dtype=np.int64) if known is None else known
        records = {len(one) for one in (self._passive, self._active, self._labels)}
        if len(records) > 1 or max(self._rows.max(initial=0), self._known.max(initial=0)) >= len(self._passive):
            raise RunFolderError(
                f"{folder.path} has features, labels and estimates of other records: run it again, into a new folder."
            )
        self.cells = self._passive[self._rows]

    @property
    def auxiliary_records(self) -> int:
        """How many complete records the adversary is declared to hold."""
        return len(self._known)

    @cached_property
    def tolerance(self) -> FloatArray:
        """How far off each feature's cells may be and count as known: (d,)."""
        width: FloatArray = TOLERANCE * np.ptp(self._passive, axis=0)
        for source in self.sources:
            if np.isfinite(source.tolerance):
                width[source.value] = source.tolerance
        return width

    @cached_property
    def told_categories(self) -> list[Category]:
        """What sources are named as: their values, or whether they are there."""
        return [one for source in self.sources for one in (source.category, source.missing) if one is not None]

    @cached_property
    def categories(self) -> list[Category]:
        """Everything that takes few values, in the order of its features; of older runs what looks like it."""
        if not self._is_typed:
            return find_categories(self._passive, self.owners)
        told = self.told_categories
        return sorted([*told, *few_valued(self._passive, told)], key=lambda one: int(one.columns[0]))

    @cached_property
    def correlation(self) -> FloatArray:
        """Mean absolute correlation of each passive feature with the active party's that vary, (d,)."""
        varying = self._active[:, np.ptp(self._active, axis=0) > 0]
        return correlation_with_active(self._passive, varying)

    @cached_property
    def entropies(self) -> list[float | None]:
        """Bits of each discrete feature of the attacked records; None of others."""
        return [entropy(column) if is_discrete(column) else None for column in self.cells.T]

    def remaining_entropy(self, column: int, estimate: FloatArray) -> float | None:
        """Bits that are left of a discrete feature once its (n,) reconstruction is known; None of others."""
        return None if self.entropies[column] is None else conditional_entropy(self.cells[:, column], estimate)

    def accuracy(self, estimate: FloatArray) -> float:
        """Jiang's eq. 24, by a classifier of the records that aren't judged; NaN where these have one class only."""
        return self._labelled.accuracy(estimate)

    @cached_property
    def _labelled(self) -> LikewiseLabelled:
        others = np.setdiff1d(np.arange(len(self._passive)), self._rows)
        return LikewiseLabelled(self.cells, held_out=self._passive[others], held_out_labels=self._labels[others])

    def imputations(self) -> list[Predictor]:
        """What the declared complete records tell of the judged ones by the active party's columns and labels."""
        if not self.auxiliary_records or self._active.min() < 0 or self._active.max() > 1:
            return []  # views, and so attacks, are for columns in [0, 1]
        return imputations(
            Knowledge(
                features_active=self._active[self._rows],
                labels=self._labels[self._rows],
                auxiliary_active=self._active[self._known],
                auxiliary_passive=self._passive[self._known],
                auxiliary_labels=self._labels[self._known],
                groups=tuple(one.columns for one in self.told_categories if len(one.columns) > 1 and not one.is_open),
            )
        )
