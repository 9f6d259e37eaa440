"""A public data set as the papers' experiments take it: every party's columns in one place, scaled to [0, 1].

Hu's experiments scale in other ways, and take a data set as it is loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification

from vfl.arrays import FloatArray, IntArray
from vfl.data import encode_labels, fit_encoder, load_dataset

SYNTHETIC = "synthetic"
_SYNTHETIC_DEFAULTS: Mapping[str, Any] = {"n_samples": 50_000, "n_features": 10, "n_classes": 2}


@dataclass(frozen=True, eq=False)
class ScaledTable:
    """A data set in memory.

    Attributes:
        name: in the catalogue, or ``synthetic``.
        features: (n, D) in [0, 1], scaled over all rows as the papers do; or as loaded.
        labels: (n,) class indices.
        feature_names: D names.
        class_names: k names.
        notes: what a reader of results must know of the data, in sentences.
        train_rows: how many first rows are the published training set; None where none was published, or rows are
            drawn.
    """

    name: str
    features: FloatArray
    labels: IntArray
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    train_rows: int | None = None

    def drawn(self, rows: int, seed: int) -> "ScaledTable":
        """Draw so many rows, in their order; the table itself where it has no more."""
        if rows >= len(self.features):
            return self
        sample = np.sort(np.random.default_rng(seed).permutation(len(self.features))[:rows])
        note = f"{rows:,} of {len(self.features):,} rows were drawn."
        notes = (*self.notes, note)
        return replace(self, features=self.features[sample], labels=self.labels[sample], notes=notes, train_rows=None)


def load_scaled(
    name: str,
    data_dir: Path | None,
    *,
    rows: int | None = None,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    scaled: bool = True,
) -> ScaledTable:
    """Load a data set and scale its columns to [0, 1], unless they are to stay as loaded.

    Args:
        name: in the catalogue, or ``synthetic``: 50,000 records of scikit-learn's make_classification, 10 features, 2
            classes.
        data_dir: of the raw files.
        rows: most rows, drawn by the seed; None for all.
        options: of make_classification.
        seed: of drawn rows, and of what is synthetic.
        scaled: whether columns are scaled.

    Raises:
        DatasetNotFound: for an unknown name, and where raw files are missing.
        ValueError: for options of another data set than ``synthetic``, or that make_classification doesn't take.
    """
    if name != SYNTHETIC and options:
        raise ValueError(f"{name} takes no options, got {', '.join(options)}: only {SYNTHETIC} is made to order.")
    table = _synthetic(options or {}, seed) if name == SYNTHETIC else _catalogued(name, data_dir)
    table = replace(table, features=_scaled(table.features)) if scaled else table
    return table if rows is None else table.drawn(rows, seed)


def _catalogued(name: str, data_dir: Path | None) -> ScaledTable:
    table = load_dataset(name, data_dir)
    labels, classes = encode_labels(table.labels)
    notes = (*(f"SIMULATION. {sentence}" for sentence in table.simulation), *table.notes)
    return ScaledTable(name, table.features, labels, table.feature_names, classes, notes, table.train_rows)


def _synthetic(options: Mapping[str, Any], seed: int) -> ScaledTable:
    raw, labels = make_classification(**{**_SYNTHETIC_DEFAULTS, "random_state": seed, **options})
    names = tuple(f"x{column}" for column in range(raw.shape[1]))
    classes = tuple(str(label) for label in range(int(labels.max()) + 1))
    note = "Made by scikit-learn's make_classification."
    return ScaledTable(SYNTHETIC, raw, labels, names, classes, (note,))


def _scaled(raw: FloatArray) -> FloatArray:
    return fit_encoder("minmax", raw).transform(raw)
