"""The public data sets that the papers measure on: a table each in ``catalogue.toml``, and what reads its files.

Three come with scikit-learn. The others are read from raw files in `data_dir/<folder>/`, under their original names,
compressed with gzip (`.gz` added) or not; `vfl.data.fetch` downloads them. Features stay as they are in the source,
except where an entry says SIMULATION. Scaling is each party's own business (`vfl.data.encoders`).
"""

from __future__ import annotations

import struct
import tomllib
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vfl.data.datasets import (
    Dataset,
    DatasetError,
    DatasetNotFound,
    RegistryTable,
    existing_file,
    load_adult,
    load_adult_means,
    load_bank,
    load_credit,
    load_drive,
    load_grid,
    load_headless,
    load_mnist01,
    load_sklearn,
)
from vfl.data.encoders import rows_to_unit_norm
from vfl.data.labels import class_names
from vfl.source_words import without_password
from vfl.suggestions import did_you_mean

WHOLE_ROW_UNIT_NORM = (
    "Every row was divided by its 2-norm over the columns of all parties, as in Hu's experiments on MNIST: "
    "real parties could not compute it without showing each other their features."
)


def dataset_names() -> tuple[str, ...]:
    """List the names that `load_dataset` knows, in the registry's order.

    Examples:
        >>> "breast_cancer" in dataset_names()
        True
    """
    return tuple(DATASETS)


def dataset(name: str) -> Dataset:
    """Find the entry of a data set by name.

    Raises:
        DatasetNotFound: for an unknown name; it lists the known ones.

    Examples:
        >>> dataset("bank").files
        ('bank-additional-full.csv',)
    """
    if name not in DATASETS:
        raise DatasetNotFound(
            f"There is no data set {without_password(name)!r}; the known ones are {', '.join(DATASETS)}."
            f"{did_you_mean(name, DATASETS)}"
        )
    return DATASETS[name]


def missing_files(name: str, data_dir: Path | None) -> tuple[str, ...]:
    """List the raw files of a data set that are not in data_dir; empty when `load_dataset` finds all it needs.

    A published sample (drive) is enough.

    Raises:
        DatasetNotFound: for an unknown name.

    Examples:
        >>> missing_files("bank", None), missing_files("breast_cancer", None)
        (('bank-additional-full.csv',), ())
    """
    entry = dataset(name)
    if data_dir is None:
        return entry.files
    folder = data_dir / entry.folder
    if entry.sample_file and existing_file(folder / entry.sample_file):
        return ()
    return tuple(file for file in entry.files if existing_file(folder / file) is None)


def sampled_rows(name: str, data_dir: Path | None) -> int | None:
    """Count rows of the published sample that ``load_dataset`` reads where the whole data set isn't there; else None.

    Raises:
        DatasetNotFound: for an unknown name.

    Examples:
        >>> sampled_rows("drive", None) is None
        True
    """
    entry = dataset(name)
    if data_dir is None or not entry.sample_file:
        return None
    folder = data_dir / entry.folder
    is_complete = all(existing_file(folder / file) for file in entry.files)
    return entry.sample_rows if not is_complete and existing_file(folder / entry.sample_file) else None


def load_dataset(name: str, data_dir: Path | None, *, whole_row_unit_norm: bool = False) -> RegistryTable:
    """Load a data set in the source's row order.

    Args:
        name: of `dataset_names`.
        data_dir: the directory of the raw files' folders; None is enough for scikit-learn's data sets.
        whole_row_unit_norm: SIMULATION, see WHOLE_ROW_UNIT_NORM; rows of zeros stay zeros.

    Raises:
        DatasetNotFound: for an unknown name, or where raw files are missing.
        DatasetError: if raw files are damaged or not of the size that the entry says.

    Examples:
        >>> load_dataset("breast_cancer", None).features.shape
        (569, 30)
    """
    entry = dataset(name)
    try:
        raw = entry.loader(_folder(entry, data_dir))
        features = np.ascontiguousarray(raw.features, dtype=np.float64)
    except DatasetError:
        raise
    except (ValueError, KeyError, AttributeError, OSError, EOFError, zlib.error, struct.error) as error:
        raise DatasetError(
            f"The raw files of {name} are damaged ({type(error).__name__}): "
            f"run `plumbline datasets fetch {name}` to replace them."
        ) from error
    labels = np.empty(len(raw.labels), dtype=object)
    labels[:] = [value.item() if isinstance(value, np.generic) else value for value in raw.labels]
    names = class_names(labels)
    shape = (*features.shape, len(names))
    expected = [(rows, entry.features, entry.classes) for rows in (entry.rows, entry.sample_rows) if rows]
    if shape not in expected or len(labels) != len(features):
        raise DatasetError(
            f"Expected {name} with (rows, features, classes) = {expected[0]}, got {shape}: "
            f"run `plumbline datasets fetch {name}` to replace its raw files."
        )
    notes = entry.notes
    if entry.sample_rows == len(features):
        notes += (
            f"This is a sample of {entry.sample_rows:,} of the {entry.rows:,} rows: results are not "
            "comparable "
            f"with the full data set's. Run `plumbline datasets fetch {name}` for all rows.",
        )
    simulation = entry.simulation
    if whole_row_unit_norm:
        features = rows_to_unit_norm(features)
        simulation += (WHOLE_ROW_UNIT_NORM,)
    return RegistryTable(name, features, tuple(raw.feature_names), labels, names, entry.train_rows, simulation, notes)


# --- raw files ----------------------------------------------------------------------------------------------


def _folder(entry: Dataset, data_dir: Path | None) -> Path:
    """Find the folder of the entry's raw files, after checking that they are there."""
    if not entry.files:
        return Path()
    advice = f"set PLUMBLINE_DATA_DIR to where it is, or run `plumbline datasets fetch {entry.name}`."
    if data_dir is None:
        raise DatasetNotFound(f"The data set {entry.name} needs raw files: {advice}")
    folder = data_dir / entry.folder
    missing = missing_files(entry.name, data_dir)
    if missing:
        raise DatasetNotFound(f"The raw file {missing[0]} of {entry.name} is not in {folder}: {advice}")
    return folder


# --- the registry -------------------------------------------------------------------------------------------

_LOADERS = {
    "breast_cancer": load_sklearn("breast_cancer", label_names=True),
    "digits": load_sklearn("digits", label_names=False),
    "wine": load_sklearn("wine", label_names=True),
    "bank": load_bank("duration"),
    "bank_code": load_bank("campaign"),
    "bank_all": load_bank(None),
    "adult": load_adult,
    "adult_means": load_adult_means,
    "satellite": load_headless(
        ["sat.trn", "sat.tst"], r"\s+", [f"pixel{p}_band{b}" for p in range(1, 10) for b in range(1, 5)]
    ),
    "pendigits": load_headless(
        ["pendigits.tra", "pendigits.tes"], ",", [f"{axis}{point}" for point in range(1, 9) for axis in "xy"]
    ),
    "grid": load_grid(outcome=False),
    "grid_all": load_grid(outcome=True),
    "robot": load_headless(["sensor_readings_24.data"], ",", [f"ultrasound_{i}" for i in range(1, 25)]),
    "drive": load_drive,
    "credit": load_credit,
    "mnist01": load_mnist01,
}


def _entry(name: str, facts: Mapping[str, Any]) -> Dataset:
    """Make a data set's entry of its facts in ``catalogue.toml``."""
    lists_as_tuples: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()
    }
    return Dataset(name=name, loader=_LOADERS[name], **lists_as_tuples)


_FACTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
DATASETS: dict[str, Dataset] = {name: _entry(name, facts) for name, facts in _FACTS.items()}
