"""Which bins of the others' columns a label party that grows boosted trees can name, and what values it makes of them.

It reads the sums that the protocol tells it, and which rows go left at each division (``solving.told_bins``). A bin is
a place in the order of a column: which column it is, and where the bin's ends are, stay with the owner. What is known
beforehand turns places into values (``attacks.training.bin_values``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias, get_args
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from attacks.base import NEEDS, AttackSpec, Extent, Json, require
from attacks.registry import LEARNED, load
from attacks.solving.told_bins import ToldColumn, possible_bins
from attacks.training.bin_values import PlacedColumn, estimated_values
from attacks.training.recovered_values import EstimatedFeatures, by_peer
from attacks.training_views import KnownRecords, TrainingView
from attacks.views import AuxiliaryRows, PassiveMoments, PredictionView, ViewError
from vfl.adversary_words import Level
from vfl.arrays import FloatArray, IntArray

Prior = Literal["nothing", "marginals", "covariance", "records"]
_UNNAMED = -1
# Measured: a column of 569 records in each tree, at one of the levels that share it.
_SECONDS = 0.02
# More records tell nothing more of how well they are estimated.
_MOST_ESTIMATED = 2_000


@dataclass(frozen=True, eq=False)
class NamedBins:
    """Bins that follow from what is told.

    Attributes:
        bins: by peer, (n, columns of the session) the bin of each record; -1 where several are left.
        bins_left: how many bins are left to a cell, on average.
        trees: whose sums were read.
    """

    kind: ClassVar[str] = "bins"
    bins: Mapping[str, IntArray]
    bins_left: float
    trees: int

    def facts(self) -> Mapping[str, Json]:
        """Tell which share of cells has one bin left, and how many are left on average."""
        cells = np.concatenate([bins.ravel() for bins in self.bins.values()])
        return {
            "cells_named": round(float((cells != _UNNAMED).mean()), 4),
            "bins_left": round(self.bins_left, 1),
            "trees": self.trees,
        }

    def arrays(self) -> Mapping[str, NDArray[np.int64]]:
        """Give the bins by peer."""
        return {f"bins_of_{peer}": bins for peer, bins in self.bins.items()}


# What is named of a session: rows that were trained on, their bins, and by peer where they are in each column.
_Named: TypeAlias = tuple[IntArray, NamedBins, Mapping[str, list[PlacedColumn]]]
# One session's bins are named once, whatever is known beforehand.
_NAMED: WeakKeyDictionary[TrainingView, dict[int, _Named]] = WeakKeyDictionary()


def _seconds(extent: Extent) -> float:
    """Think how long the first ten trees take: equations are solved for each column, of all trees together."""
    return _SECONDS * min(extent.steps, 10) * extent.features


@dataclass(frozen=True)
class NameBins:
    """Names the bin of each training record in every column of the others, from sums over bins and sides of divisions.

    Of at most 1,500 records sums are read as equations; of more, sides alone.

    Attributes:
        prior: What is known beforehand, besides public ranges. nothing: bins are counted. marginals: means, variances
            and frequencies. covariance: of all columns of a party. records: complete ones.
        trees: The sums of the first so many are read: more take longer, and tell more. Sides are of all trees.
    """

    prior: Prior = "nothing"
    trees: int = 10

    name: ClassVar[str] = "named_bins"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="training",
        needs=(),
        source="ours",
        learners=("boosted_trees",),
        summary="names the bins that training records are in, from what boosted trees tell the label party",
        cost="seconds for each tree",
        at_level={level: {"prior": level} for level in get_args(Prior)},
        seconds=_seconds,
    )

    def __post_init__(self) -> None:
        if self.trees < 1:
            raise ValueError(f"Expected trees to be 1 or more, got {self.trees!r}.")
        if self.prior not in get_args(Prior):
            raise ValueError(f"Expected prior to be one of {', '.join(get_args(Prior))}; got {self.prior!r}.")

    @property
    def level(self) -> Level:
        """What its adversary knows beforehand."""
        return self.prior

    def attack(self, view: TrainingView) -> NamedBins | EstimatedFeatures:
        """Name bins, and estimate columns of the training records.

        Raises:
            ViewError: for a view without sums, and without what ``prior`` says is known.
        """
        require(self, view)
        check_prior(self.name, self.prior, view)
        by_trees = _NAMED.setdefault(view, {})
        if self.trees not in by_trees:
            by_trees[self.trees] = _named(view, self.trees)
        rows, bins, columns = by_trees[self.trees]
        return bins if self.prior == "nothing" else estimated(view, rows, columns, self.prior, bins.facts())


def check_prior(attack: str, prior: Prior, view: TrainingView) -> None:
    """Raise ViewError where what an attack's ``prior`` says is known isn't."""
    needed = {"nothing": "", "records": "known_records"}.get(prior, "moments")
    if needed and getattr(view, needed) is None:
        raise ViewError(f"{attack}(prior={prior}) needs {needed}: {NEEDS['training'][needed]}.")


def _named(view: TrainingView, trees: int) -> _Named:
    if not view.told_columns and not view.bin_sums:
        raise ViewError("named_bins reads what a label party is told of bins: mount it where boosted trees are grown.")
    columns: dict[str, list[PlacedColumn]] = {}
    bins: dict[str, list[IntArray]] = {}
    remaining = []
    rows = np.unique(np.concatenate([step.rows for step in view.steps]))
    for peer, column in sorted({**view.told_columns, **view.bin_sums}):
        nodes = [sums for tree, sums in view.bin_sums.get((peer, column), ()) if tree < trees]
        column_sides = view.told_columns.get((peer, column)) or (ToldColumn.of(nodes[0], view.n) if nodes else None)
        if column_sides is None:
            continue
        sides = column_sides.possible()
        possible = (possible_bins(nodes, view.n, sides) if nodes else sides)[rows]
        counts = possible.sum(axis=1)
        bins.setdefault(peer, []).append(np.where(counts == 1, possible.argmax(axis=1), _UNNAMED))
        remaining.append(float(counts.mean()))
        columns.setdefault(peer, []).append(PlacedColumn.placed(column_sides.shares, possible))
    if not columns:
        raise ViewError("named_bins has no sums of the trees that it reads: no node was divided.")
    by_peer_bins = {peer: np.column_stack(columns_of) for peer, columns_of in bins.items()}
    return rows, NamedBins(by_peer_bins, float(np.mean(remaining)), min(trees, len(view.steps))), columns


def estimated(
    view: TrainingView,
    rows: IntArray,
    columns: Mapping[str, list[PlacedColumn]],
    prior: Prior,
    numbers: Mapping[str, Json],
) -> EstimatedFeatures:
    """Estimate the others' columns of records whose places are known.

    Args:
        view: of the training.
        rows: (m,) the records, of the common order, ascending.
        columns: by peer, where they are in each column of the session.
        prior: what is known beforehand.
        numbers: what else is said.

    Raises:
        ViewError: where no known record is among them.
    """
    records = view.known_records if prior == "records" else None
    known_rows = np.zeros(0, dtype=np.int64) if view.known_records is None else view.known_records.rows
    unknown = np.setdiff1d(rows, known_rows)
    spread = np.linspace(0, len(unknown) - 1, min(len(unknown), _MOST_ESTIMATED)).astype(np.int64)
    attacked = unknown[np.unique(spread)]

    def placed(some_rows: IntArray) -> dict[str, list[PlacedColumn]]:
        places = np.searchsorted(rows, some_rows)
        return {peer: [column.of(places) for column in of_peer] for peer, of_peer in columns.items()}

    if records is not None:
        there = np.isin(records.rows, rows)
        known = replace(records, rows=records.rows[there], features=records.features[there])
        values, guess = _by_records(view, attacked, known, placed)
    elif view.moments is None:
        raise AssertionError  # attacks have refused such views; this tells the type checker
    else:
        values = _by_statistics(view, view.moments, placed(attacked), by_covariance=prior == "covariance")
        guess = np.broadcast_to(view.moments.mean, values.shape)
    peers = view.peer_features
    return EstimatedFeatures(attacked, by_peer(peers, values), by_peer(peers, guess), numbers=numbers)


def _by_statistics(
    view: TrainingView, moments: PassiveMoments, columns: Mapping[str, list[PlacedColumn]], *, by_covariance: bool
) -> FloatArray:
    in_unit = bool((view.features >= 0).all() and (view.features <= 1).all())
    parts, start = [], 0
    for peer, count in view.peer_features.items():
        published = _of_columns(moments, slice(start, start + count))
        start += count
        if len(columns.get(peer, ())) != count:
            raise ViewError(f"Of {peer}'s {count} columns {len(columns.get(peer, ()))} were summed: grow more trees.")
        parts.append(estimated_values(columns[peer], published, in_unit=in_unit, by_covariance=by_covariance))
    return np.hstack(parts)


def _of_columns(moments: PassiveMoments, part: slice) -> PassiveMoments:
    """Take what is published of some columns alone."""
    covariance = None if moments.covariance is None else moments.covariance[part, part]
    return PassiveMoments(
        moments.mean[part], moments.variance[part], covariance, moments.supports[part], moments.frequencies[part]
    )


def _by_records(
    view: TrainingView,
    attacked: IntArray,
    records: KnownRecords,
    placed: Callable[[IntArray], Mapping[str, list[PlacedColumn]]],
) -> tuple[FloatArray, FloatArray]:
    """Learn from known records what places tell, and what own columns and labels do without them: (m, D) each."""
    taught, features = records.rows, records.features
    if not len(taught) or view.labels is None:
        raise ViewError("None of known_records was trained on: give some that were.")

    def places(some_rows: IntArray) -> FloatArray:
        return np.column_stack([one.places for columns in placed(some_rows).values() for one in columns])

    learned = PredictionView(
        features_active=view.features[attacked],
        passive_features=features.shape[1],
        record_labels=view.labels[attacked],
        received=places(attacked),
        auxiliary=AuxiliaryRows(
            view.features[taught], features, np.empty((len(taught), 0)), view.labels[taught], places(taught)
        ),
    )
    regression = load(LEARNED)
    return regression.guess(learned.with_received_as_own()).estimate, regression.guess(learned).estimate
