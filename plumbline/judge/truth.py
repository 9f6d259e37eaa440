"""The truth behind attacked records: what an auditor, who may read every party's files, compares estimates with."""

from collections.abc import Sequence
from copy import copy
from functools import cached_property

import numpy as np

from attacks import AuxiliaryRows, PredictionView
from plumbline.judge.clusters import Clusters, roundings_of
from plumbline.judge.columns import (
    READ,
    TOLERANCE,
    Category,
    Source,
    few_valued,
    find_categories,
    sources_of,
    usual_range,
)
from plumbline.judge.evidence import Predictor, imputations
from plumbline.judge.measures import (
    LikewiseLabelled,
    conditional_entropy,
    correlation_with_active,
    entropy,
    is_discrete,
)
from services.common.identity import Role
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.run_records import Estimates
from vfl.arrays import FloatArray, IntArray
from vfl.data.labels import NO_LABEL


class Truth:
    """The passive features behind the attacked rows, and what else an auditor needs to judge reconstructions.

    Attributes:
        owners: name of each passive feature's party.
        names: of the passive features.
        sources: the columns of the passive tables that they are of.
        cells: (n, d), the attacked records.
        persons: whose these are: what is equal in all columns of all parties, but for rounding, is one person.
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
        self.left_out = {
            party: len(own.dropped) for party, own in written.items() if own.dropped is not None and len(own.dropped)
        }
        self.sources: list[Source] = []
        first = 0
        for party, features in written.items():
            self.sources += sources_of(party, features, self._passive, first)
            first += features.features.shape[1]
        active = folder.features(Role.ACTIVE)
        self._active, self._labels = active.features, folder.labels()
        self._roundings = np.concatenate([roundings_of(one) for one in (active, *written.values())])
        auxiliary_rows = estimates.auxiliary_rows
        self._rows, self._known = (
            estimates.rows,
            np.empty(0, dtype=np.int64) if auxiliary_rows is None else auxiliary_rows,
        )
        records = {len(one) for one in (self._passive, self._active, self._labels)}
        if len(records) > 1 or max(self._rows.max(initial=0), self._known.max(initial=0)) >= len(self._passive):
            raise RunFolderError(
                f"{folder.path} has features, labels and estimates of other records: run it again, into a new folder."
            )
        self.cells = self._passive[self._rows]
        self.persons = self._persons()

    def of_others(self, rows: IntArray) -> "Truth":
        """Take the same tables, with other records attacked."""
        other = copy(self)
        other._rows, other.cells = rows, self._passive[rows]
        other.persons = other._persons()
        return other

    def estimates(self, by_attack: dict[str, FloatArray]) -> Estimates:
        """Take these estimates as being of the attacked records."""
        return Estimates(self._rows, by_attack, self._known if len(self._known) else None)

    @property
    def auxiliary_records(self) -> int:
        """How many complete records the adversary is declared to hold."""
        return len(self._known)

    def _persons(self) -> Clusters:
        return Clusters.of(np.hstack([self._active, self._passive])[self._rows], self._roundings)

    @cached_property
    def tolerance(self) -> FloatArray:
        """How far off each feature's cells may be and count as known: (d,)."""
        width = np.array([TOLERANCE * usual_range(column) for column in self._passive.T])
        for source in self.sources:
            if np.isfinite(source.tolerance):
                width[source.value] = source.tolerance
        return width

    @cached_property
    def near(self) -> FloatArray:
        """How far off each feature's cells may be and count as read nearly exactly: (d,)."""
        width: FloatArray = READ * self.tolerance
        for source in self.sources:
            if np.isfinite(source.near):
                width[source.value] = source.near
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
        typed = self.told_categories
        return sorted([*typed, *few_valued(self._passive, typed)], key=lambda one: int(one.columns[0]))

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
        held_out = np.setdiff1d(np.arange(len(self._passive)), self._rows)
        return LikewiseLabelled(self.cells, held_out=self._passive[held_out], held_out_labels=self._labels[held_out])

    @cached_property
    def _public(self) -> IntArray:
        """The passive features whose columns are published."""
        public = [one.features for one in self.sources if one.role == "public"]
        return np.concatenate(public) if public else np.empty(0, dtype=np.int64)

    def published(self) -> list[Predictor]:
        """Guess what anybody knows: the values of public columns; of others, the middle of their range."""
        if not len(self._public):
            return []
        values = np.full(self.cells.shape, 0.5)
        values[:, self._public] = self.cells[:, self._public]
        return [Predictor("published", "nothing", values)]

    def imputations(self) -> list[Predictor]:
        """Impute the judged records by the declared complete ones and what the active party knows of all of them."""
        if not self.auxiliary_records or self._active.min() < 0 or self._active.max() > 1:
            return []  # views, and so attacks, are for columns in [0, 1]
        return imputations(self.own_view(), self.groups)

    @property
    def groups(self) -> tuple[IntArray, ...]:
        """Which passive columns are the one-hot features of one category, exactly one of which is 1."""
        columns = (one.columns for one in self.told_categories if len(one.columns) > 1 and not one.is_open)
        return tuple(columns)

    def own_view(self, received: FloatArray | None = None) -> PredictionView:
        """See what the active party knows of the judged records and of the declared complete ones.

        That is its own columns, the public ones and, where it has any, labels.

        Args:
            received: (records, m), what it was handed about all records, in [0, 1]; None for nothing.
        """
        records, own_columns = self._known, np.hstack([self._active, self._passive[:, self._public]])
        labels = self._labels if (self._labels != NO_LABEL).any() else None
        passive = self._passive[records]
        return PredictionView(
            features_active=own_columns[self._rows],
            record_labels=None if labels is None else labels[self._rows],
            passive_features=self._passive.shape[1],
            auxiliary=AuxiliaryRows(
                own_columns[records],
                passive,
                np.empty((len(records), 0)),
                None if labels is None else labels[records],
                received=None if received is None else received[records],
            ),
            received=None if received is None else received[self._rows],
        )
