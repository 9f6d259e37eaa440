"""A party's own data, as its settings name it: loaded, checked and encoded from its own columns only."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from services.common.agreement import PartyDescription
from services.common.settings import Settings, SettingsError
from services.party.party_defences import PartyDefences
from vfl.arrays import FloatArray, IntArray
from vfl.data import (
    DATASETS,
    Table,
    fit_encoder,
    is_signed,
    load_dataset,
    load_table,
    magnitude_bits,
    party_share,
    snap_to_grid,
)


@dataclass(frozen=True)
class PartyData:
    """One party's table, encoded from its own columns only.

    Attributes:
        ids: record ids, one per row.
        feature_names: one per column of ``features``.
        features: (n, d) as the federation may know them; the active party's last column is the constant 1, its bias.
        labels: one per row; None at a passive party.
        simulation: sentences about what no real party could do, for the report.
        untransformed: (n, d) before a defence changed them; None where none did.
    """

    ids: tuple[str, ...]
    feature_names: tuple[str, ...]
    features: FloatArray
    labels: NDArray[np.object_] | None
    simulation: tuple[str, ...] = ()
    untransformed: FloatArray | None = None

    def protected_by(self, defences: PartyDefences) -> "PartyData":
        """The same records with features as this party's defences transform them."""
        return replace(self, features=defences.transform_features(self.features), untransformed=self.features)

    def describe(self, name: str, aligned_rows: int, *, truncates_answers: bool) -> PartyDescription:
        """Describe this party to the others: counts and bounds only."""
        return PartyDescription(
            name=name,
            feature_count=self.features.shape[1],
            feature_integer_bits=magnitude_bits(self.features),
            features_signed=is_signed(self.features),
            aligned_rows=aligned_rows,
            truncates_answers=truncates_answers,
        )

    @cached_property
    def table_hash(self) -> str:
        """SHA-256 of all that a model of this party depends on: ids, names, features as trained on, and labels."""
        texts = [*self.ids, *self.feature_names, *(() if self.labels is None else map(repr, self.labels.tolist()))]
        digest = hashlib.sha256(f"{len(self.ids)} {self.features.shape} ".encode())
        for text in texts:
            # The length first: neighbours can't be taken for each other's ends.
            content = text.encode()
            digest.update(len(content).to_bytes(8, "big") + content)
        digest.update(np.ascontiguousarray(self.features).tobytes())
        return digest.hexdigest()

    def encoded(self, rows: IntArray, fraction_bits: int) -> FloatArray:
        """Features of ``rows`` on the fixed-point grid, so that encrypted and plain training see the same numbers."""
        return snap_to_grid(self.features[rows], fraction_bits)

    def truth(self, rows: IntArray, fraction_bits: int) -> FloatArray:
        """Features of ``rows`` before any defence: what an auditor compares reconstructions with."""
        features = self.features if self.untransformed is None else self.untransformed
        return snap_to_grid(features[rows], fraction_bits)


def load_party_data(settings: Settings, *, with_bias: bool) -> PartyData:
    """Load and encode the table that PLUMBLINE_DATA names. ``with_bias`` appends the constant feature 1.

    Raises:
        ValueError: with what to do about a table or data set that can't be used.
    """
    table, simulation = _load(settings)
    encoder = fit_encoder(settings.encoder, table.features)
    features = encoder.transform(table.features)
    names = table.feature_names
    if with_bias:
        features = np.hstack([features, np.ones((len(features), 1))])
        names = (*names, "(bias)")
    return PartyData(tuple(table.ids), names, features, table.labels, simulation)


def _load(settings: Settings) -> tuple[Table, tuple[str, ...]]:
    if settings.data in DATASETS:
        index, _, parties = (settings.share or "1/2").partition("/")
        dataset = load_dataset(settings.data, settings.data_dir, whole_row_unit_norm=settings.whole_row_unit_norm)
        share = party_share(dataset, int(index) - 1, int(parties), seed=0, missing_fraction=settings.missing_fraction)
        return share, dataset.simulation
    if settings.whole_row_unit_norm:
        raise SettingsError(
            "PLUMBLINE_WHOLE_ROW_UNIT_NORM simulates what no real party can do: it is for registered data sets only."
        )
    return (
        load_table(settings.data, id_column=settings.id_column, label_column=settings.label_column or None),
        (),
    )
