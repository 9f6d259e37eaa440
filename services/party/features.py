"""A party's own table, as its settings name it: typed when it is loaded, encoded anew for each session.

Which columns there are, and what each becomes, is decided from the party's own table before anything starts. Scales,
categories and what stands for missing values are fitted on the training rows of a session, so that validation and test
records are as new to the encoding as to the model.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from services.common.agreement import PartyDescription, TrainingPlan
from services.common.errors import InvalidMessage
from services.common.settings import Settings, SettingsError
from services.party.party_defences import PartyDefences
from services.party.table_hash import hash_of_table
from vfl.arrays import FloatArray, IntArray
from vfl.data import (
    DATASETS,
    UNIT_GRID,
    EncoderKind,
    Grid,
    GriddedFeatures,
    TypedTable,
    column_grids,
    fit_columns,
    load_dataset,
    magnitude_bits,
    party_share,
    put_on_grids,
    typed_table_of,
)
from vfl.data.coarsening import coarsened
from vfl.data.columns import EncodedColumn
from vfl.data.faults import bounded, counted
from vfl.data.selection import Selection
from vfl.data.typed_tables import read_selected

_log = logging.getLogger(__name__)

# A million rows stand in memory as they are encoded and as they are aligned, and not once more between.
_ROWS_AT_ONCE = 1 << 16
# Columns that the log tells of.
_MOST_LOGGED = 100
# Of standardised columns, at least so many where the session's records could need them: 8 deviations.
_SESSION_BITS = 3
BIAS = EncodedColumn("(bias)", "(bias)", "bias")


def description_of(name: str, gridded: GriddedFeatures) -> PartyDescription:
    """Describe a party with these aligned features: counts, widths and bounds only."""
    widths = gridded.widths
    return PartyDescription(
        name=name,
        feature_count=widths.total,
        feature_integer_bits=gridded.integer_bits,
        features_signed=gridded.signed,
        aligned_rows=len(gridded.values),
        binary_features=widths.binary,
        byte_features=widths.byte,
    )


@dataclass(frozen=True, eq=False)
class AlignedFeatures:
    """A party's aligned records, as one session trains on them.

    Attributes:
        rows: (aligned rows,) the party's own row numbers in the common order.
        columns: what each feature is of; the active party's last one is its bias.
        gridded: (aligned rows, d) features on the grids of their columns.
        truth: the same before any defence and before columns become coarser: what an auditor compares reconstructions
            with.
        told: what others are told of the full columns' values.
    """

    rows: IntArray
    columns: tuple[EncodedColumn, ...]
    gridded: GriddedFeatures
    truth: FloatArray
    told: "ValueRange"

    @property
    def features(self) -> FloatArray:
        """(aligned rows, d) on their grids, so that encrypted and plain training see the same numbers."""
        return self.gridded.values

    def describe(self, name: str, *, truncates_answers: bool) -> PartyDescription:
        """Describe this party to the others: counts, widths and bounds only."""
        return replace(
            description_of(name, self.gridded),
            feature_integer_bits=self.told.integer_bits,
            features_signed=self.told.signed,
            truncates_answers=truncates_answers,
        )


@dataclass(frozen=True)
class ValueRange:
    """A range that holds the full columns' values of a session; the least that others need to know of them.

    Attributes:
        integer_bits: no magnitude is beyond 2 to this power.
        signed: whether there may be a negative value.
    """

    integer_bits: int
    signed: bool


@dataclass(frozen=True, eq=False)
class PartyData:
    """One party's table with the types of its columns. Nothing of it is fitted to a row yet.

    Attributes:
        table: rows, typed columns and what each becomes.
        encoder: how this party scales its columns.
        has_bias: whether a constant feature 1 comes last: the active party's bias.
        simulation: sentences about what no real party could do, for the report.
        defences: those that transform this party's features.
        pads_widths: whether all of its columns take the full number of digits.
    """

    table: TypedTable
    encoder: EncoderKind = "minmax"
    has_bias: bool = False
    simulation: tuple[str, ...] = ()
    defences: PartyDefences = field(default_factory=PartyDefences)
    pads_widths: bool = False

    @property
    def ids(self) -> Sequence[str]:
        """Record ids, one per row."""
        return self.table.ids

    @property
    def labels(self) -> NDArray[np.object_] | None:
        """A label per row; None at a passive party."""
        return self.table.labels

    def protected_by(self, defences: PartyDefences) -> "PartyData":
        """Take the same records, whose features these defences transform in every session."""
        return replace(self, defences=defences)

    def changed(self, asked: Mapping[str, str]) -> "PartyData":
        """Leave columns out or make them coarser; raises ValueError where none would be left."""
        return replace(self, table=_some_kept(self.table.changed(asked)))

    def log_columns(self) -> None:
        """Log what each column becomes, by its name alone, as a party does that starts to serve; of many the first."""
        for note in self.table.notes:
            _log.warning("%s", note)
        plans = self.table.plans
        for plan in plans[:_MOST_LOGGED]:
            _log.info("Column %s: %s.", bounded(plan.name), plan.becomes)
            if plan.warning:
                _log.warning("Column %s: %s", bounded(plan.name), plan.warning)
        if len(plans) > _MOST_LOGGED:
            _log.info("And %s.", counted(len(plans) - _MOST_LOGGED, "more column"))

    def aligned(self, rows: IntArray, plan: TrainingPlan) -> AlignedFeatures:
        """Encode the aligned records for a session, fitted on those that it trains on.

        Args:
            rows: the party's own row numbers in the common order, (aligned rows,).
            plan: the session's, whose public split says which of them are trained on.

        Raises:
            InvalidMessage: for a record that stands in the order twice, where none is left to train on, or these can't
                be encoded. The words are for other parties: the log has the column.
        """
        if plan.training.one_grid and not self.pads_widths:
            # Sums of features times residuals are shared as they are: no party has a grid of its own.
            return replace(self, pads_widths=True).aligned(rows, plan)
        if len(np.unique(rows)) != len(rows):
            # The guard counts rows, and a record that stands in many has one residual.
            raise InvalidMessage("The order of records names a record twice: each may stand in it once.")
        training = rows[plan.split(len(rows)).train]
        if not len(training):
            raise InvalidMessage(f"None of {len(rows)} aligned records is left to train on: align more of them.")
        try:
            fitted = fit_columns(self.table, training, self.encoder)
            # All rows of the table, in its order: what a defence draws for a record is the same in every session.
            encoded = fitted.transform(self.table)
            coarse = coarsened(encoded, training, fitted.columns, self.table.kept)
            transformed = self.defences.transform_features(coarse)
            bias = None if self.pads_widths else UNIT_GRID
            grids = (*fitted.grids(self.grids), *([bias] if self.has_bias else []))
            gridded = self._on_grids(transformed, rows, grids, plan)
            value_range = self._told_range(transformed, gridded, len(training))
            truth = gridded if transformed is encoded else self._on_grids(encoded, rows, grids, plan)
        except ValueError as error:
            _log.error("The aligned records can't be encoded: %s", error)
            raise InvalidMessage("The aligned records can't be encoded: this party's log says why.") from error
        columns = (*fitted.columns, *([BIAS] if self.has_bias else []))
        return AlignedFeatures(rows, columns, gridded, truth.values, value_range)

    @cached_property
    def grids(self) -> tuple[Grid | None, ...]:
        """The grid of every feature but the bias, the same in all sessions. Without padding and defences, its own.

        What a defence makes of features has no grid: its secret shows in no width.
        """
        own_grids = column_grids(self.table, self.encoder)
        return (None,) * len(own_grids) if self.pads_widths or self.defences.changes_features else own_grids

    def _told_range(self, table: FloatArray, gridded: GriddedFeatures, trained: int) -> ValueRange:
        """Bound a session's full columns by the whole table: who opens a session of two records learns nothing of them.

        Standardised records are bounded by themselves, for others may lie any number of deviations away. Where there
        are few, the bound is one that no choice of them passes.

        Args:
            table: (n, features without the bias) all rows as the session encodes them.
            gridded: the session's.
            trained: how many records the session trains on.
        """
        full = [width == "full" for width in gridded.column_widths[: table.shape[1]]]
        if not any(full):
            return ValueRange(gridded.integer_bits, gridded.signed)
        if self.encoder == "standardise":
            # A value lies at most sqrt(m - 1) deviations from the mean of m.
            furthest = ((max(trained, 2) - 2).bit_length() + 1) // 2
            return ValueRange(max(gridded.integer_bits, min(furthest, _SESSION_BITS)), True)
        low, high = table.min(axis=0)[full], table.max(axis=0)[full]
        bits, signed = magnitude_bits(np.stack([low, high])), bool((low < 0).any())
        if self.encoder == "minmax" or not (codes := self._most_codes):
            return ValueRange(bits, signed)
        # How many values a session's own training rows have shows neither in their codes nor in that of another value.
        return ValueRange(max(bits, (codes - 1).bit_length()), True)

    @cached_property
    def _most_codes(self) -> int:
        """The most values of any column that becomes codes."""
        plans = [plan for plan in self.table.kept if plan.encoding == "ordinal"]
        return max((self.table.frame[plan.name].nunique() for plan in plans), default=0)

    def _on_grids(
        self, encoded: FloatArray, rows: IntArray, grids: Sequence[Grid | None], plan: TrainingPlan
    ) -> GriddedFeatures:
        features = np.ones((len(rows), len(grids)))
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            features[part, : encoded.shape[1]] = encoded[rows[part]]
        return put_on_grids(features, grids, plan.feature_fraction_bits)

    @cached_property
    def table_hash(self) -> str:
        """Stands for all that an encoding of this table can depend on."""
        # Who doesn't pad is told apart by nothing: models of before remain the same table's.
        return hash_of_table(self.table, self.encoder, self.has_bias, *(["padded"] if self.pads_widths else []))


def load_party_data(settings: Settings, *, with_bias: bool, table: TypedTable | None = None) -> PartyData:
    """Load the table that PLUMBLINE_DATA names and decide what its columns become.

    Args:
        settings: the party's.
        with_bias: adds the feature 1.
        table: that table, where it was read before as these settings say.

    Raises:
        ValueError: with what to do about a table or data set that can't be used.
    """
    table, simulation = _load(settings, table)
    table = table.with_roles(settings.public, settings.sensitive, is_share=settings.data in DATASETS)
    return PartyData(_some_kept(table), settings.encoder, with_bias, simulation, pads_widths=settings.pad_widths)


def _some_kept(table: TypedTable) -> TypedTable:
    if not table.kept:
        raise SettingsError("Every column of this party's table is left out: see PLUMBLINE_COLUMNS and PLUMBLINE_DROP.")
    return table


def _load(settings: Settings, table: TypedTable | None) -> tuple[TypedTable, tuple[str, ...]]:
    if settings.data in DATASETS:
        _check_registered(settings)
        index, _, parties = (settings.share or "1/2").partition("/")
        dataset = load_dataset(settings.data, settings.data_dir, whole_row_unit_norm=settings.whole_row_unit_norm)
        share = party_share(dataset, int(index) - 1, int(parties), seed=0, missing_fraction=settings.missing_fraction)
        return typed_table_of(share), dataset.simulation
    if settings.whole_row_unit_norm:
        raise SettingsError(
            "PLUMBLINE_WHOLE_ROW_UNIT_NORM simulates what no real party can do: it is for registered data sets only."
        )
    return own_table(settings) if table is None else table, ()


def own_table(settings: Settings) -> TypedTable:
    """Read a party's own table as its settings say; raises TableError for one that can't be used."""
    selection = Selection(
        settings.id_column, settings.label_column or None, settings.columns or None, settings.drop, settings.encode
    )
    return read_selected(settings.data, lambda _: selection, settings.table_limits, settings.reading_rules)


def _check_registered(settings: Settings) -> None:
    """Raise SettingsError for settings of a party's own table: a registered data set's columns are numbers already."""
    variables = [f"PLUMBLINE_{name.upper()}" for name in ("columns", "drop", "encode") if getattr(settings, name)]
    if variables:
        raise SettingsError(
            f"{' and '.join(variables)} chooses columns of a party's own table, and {settings.data} is a registered "
            "data set, which PLUMBLINE_SHARE deals out: drop it, or give the file."
        )
