"""A data set in memory, and the ways to prepare it that a paper leaves open."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.data import (
    GriddedFeatures,
    column_blocks,
    fit_encoder,
    rows_to_unit_norm,
)
from vfl.data.catalogue import WHOLE_ROW_UNIT_NORM
from vfl.learning import split_rows

FRACTION_BITS = 16
TEST_FRACTION = 0.1
Scaling = Literal["whole_row_unit_norm", "unit_norm", "none", "standardise", "bounded"]


@dataclass(frozen=True)
class Reading:
    """One way to read how the paper prepared a data set.

    Attributes:
        name: on the page.
        scaling: whole_row_unit_norm and bounded (standardised, then rows longer than 1 shortened to 1) need the whole
            row:
            SIMULATION. unit_norm is each party's own half; standardise is fitted on the training rows; none is as
            loaded.
        intercept: whether there is one.
    """

    name: str
    scaling: Scaling
    intercept: bool


SIMULATION_WORDS = {
    "whole_row_unit_norm": f"unit-norm rows: {WHOLE_ROW_UNIT_NORM}",
    "bounded": "bounded rows: after standardising, every row longer than 1 was divided by its 2-norm over the columns "
    "of all parties: real parties could not compute it without showing each other their features.",
}


@dataclass(frozen=True, eq=False)
class Records:
    """A data set in memory.

    Attributes:
        features: (n, d) as loaded.
        labels: (n,), 0 or 1.
        train_rows: how many first rows are published for training; None if not.
    """

    features: FloatArray
    labels: IntArray
    train_rows: int | None

    def rows_of(self, seed: int) -> tuple[IntArray, IntArray]:
        """Choose training and test rows: the published ones, or nine to one by ``seed``."""
        if self.train_rows is not None:
            return np.arange(self.train_rows), np.arange(self.train_rows, len(self.labels))
        rows = split_rows(len(self.labels), validation_fraction=0.0, test_fraction=TEST_FRACTION, seed=seed)
        return rows.train, rows.test


class LoadedTable(Protocol):
    """A data set of two classes as it is loaded."""

    @property
    def features(self) -> FloatArray:
        """(n, d), unscaled."""

    @property
    def labels(self) -> IntArray:
        """(n,), 0 or 1."""

    @property
    def train_rows(self) -> int | None:
        """How many first rows are published for training; None where that isn't."""


def records_of(table: LoadedTable) -> Records:
    """Take what was loaded as records."""
    return Records(table.features, table.labels, table.train_rows)


def scaled_features(records: Records, scaling: Scaling, train: IntArray) -> FloatArray:
    """Scale (n, d) features as a reading says, on the grids that parties train on, without the intercept."""
    features = records.features
    if scaling == "whole_row_unit_norm":
        features = rows_to_unit_norm(features)
    elif scaling == "unit_norm":
        blocks = column_blocks(features.shape[1], 2)
        features = np.hstack([rows_to_unit_norm(features[:, block.start : block.stop]) for block in blocks])
    elif scaling in ("standardise", "bounded"):
        features = fit_encoder("standardise", features[train]).transform(features)
        if scaling == "bounded":
            features = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1.0)
    return GriddedFeatures.of(features, FRACTION_BITS).values
