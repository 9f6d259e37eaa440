"""The public data sets that the papers measure on, one entry each.

Three come with scikit-learn. The others are read from raw files in `data_dir/<folder>/`, under their original names,
compressed with gzip (`.gz` added) or not; `vfl.data.fetch` downloads them. Features stay as they are in the source,
except where an entry says SIMULATION. Scaling is each party's own business (`vfl.data.encoders`).
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from vfl.data.datasets import (
    DRIVE_FILES,
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

_CC_BY = "CC BY 4.0"

_BANK_SIMULATION = (
    "Categories were replaced by the share of label `yes` among all rows of the category: "
    "this needs the labels, which a real passive party does not have."
)

_BANK_READING = (
    "Rassouli VIII maps each category 'to its average in each class'. With two classes the averages are p "
    "and 1 - p, "
    "so p, the mean label, is used."
)

_BANK_CITATION = (
    "Moro, S., Rita, P., Cortez, P. (2014). Bank Marketing. UCI Machine Learning Repository. "
    "https://doi.org/10.24432/C5K306"
)


def _bank(name: str, dropped: str | None, why: str) -> Dataset:
    return Dataset(
        name=name,
        title="Bank Marketing" if dropped is None else f"Bank Marketing without `{dropped}`",
        loader=load_bank(dropped),
        rows=41_188,
        features=20 if dropped is None else 19,
        classes=2,
        citation=_BANK_CITATION,
        licence=_CC_BY,
        uci=222,
        folder="bank",
        files=("bank-additional-full.csv",),
        simulation=(_BANK_SIMULATION,),
        notes=(why, _BANK_READING),
    )


_ADULT = Dataset(
    name="adult",
    title="Adult",
    loader=load_adult,
    rows=48_842,
    features=14,
    classes=2,
    citation="Becker, B., Kohavi, R. (1996). Adult. UCI Machine Learning Repository. https://doi.org/10.24432/C5XW20",
    licence=_CC_BY,
    uci=2,
    folder="adult",
    files=("adult.data", "adult.test"),
    train_rows=32_561,
    notes=(
        "Categories are numbered from 0 in alphabetical order, `?` (missing) being one of them: "
        "that needs no labels, so each party could do it alone.",
    ),
)

_GRID = Dataset(
    name="grid",
    title="Electrical Grid Stability Simulated Data",
    loader=load_grid(outcome=False),
    rows=10_000,
    features=12,
    classes=2,
    citation="Arzamasov, V. (2018). Electrical Grid Stability Simulated Data. UCI Machine Learning "
    "Repository. "
    "https://doi.org/10.24432/C5PG66",
    licence=_CC_BY,
    uci=471,
    folder="grid",
    files=("Data_for_UCI_named.csv",),
    notes=(
        "`stab`, whose sign is the label, is left out. p1 = -(p2 + p3 + p4) in every row: "
        "one feature follows from three others.",
    ),
)

_ENTRIES = (
    Dataset(
        name="breast_cancer",
        title="Breast Cancer Wisconsin (Diagnostic)",
        loader=load_sklearn("breast_cancer", label_names=True),
        rows=569,
        features=30,
        classes=2,
        citation="Wolberg, W., Mangasarian, O., Street, N., Street, W. (1993). Breast Cancer Wisconsin "
        "(Diagnostic). "
        "UCI Machine Learning Repository. https://doi.org/10.24432/C5DW2B",
        licence=_CC_BY,
        uci=17,
    ),
    Dataset(
        name="digits",
        title="Optical Recognition of Handwritten Digits (test part, 8 x 8)",
        loader=load_sklearn("digits", label_names=False),
        rows=1_797,
        features=64,
        classes=10,
        citation="Alpaydin, E., Kaynak, C. (1998). Optical Recognition of Handwritten Digits. "
        "UCI Machine Learning Repository. https://doi.org/10.24432/C50P49",
        licence=_CC_BY,
        uci=80,
    ),
    Dataset(
        name="wine",
        title="Wine",
        loader=load_sklearn("wine", label_names=True),
        rows=178,
        features=13,
        classes=3,
        citation="Aeberhard, S., Forina, M. (1992). Wine. UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C5PC7J",
        licence=_CC_BY,
        uci=109,
    ),
    _bank("bank", "duration", "The 11th column, `duration`, is left out, as Rassouli VIII says."),
    _bank(
        "bank_code",
        "campaign",
        "The 12th column, `campaign`, is left out, as Rassouli's published code does; "
        "the paper's text leaves out the 11th, `duration`, which is known only after the outcome.",
    ),
    _bank(
        "bank_all", None, "All 20 columns are kept, as in Jiang, Table 1; `duration` is known only after the outcome."
    ),
    _ADULT,
    replace(
        _ADULT,
        name="adult_means",
        title="Adult without `fnlwgt`, categories as mean labels",
        loader=load_adult_means,
        features=13,
        simulation=(
            "Categories were replaced by the share of label `>50K` among all rows of the category: "
            "this needs the labels, which a real passive party does not have.",
        ),
        notes=(
            "Varasteh maps each category to its average in each class, and has 13 of the 14 columns without saying "
            "which: the census weight `fnlwgt`, which tells least of the label, is left out.",
        ),
    ),
    Dataset(
        name="satellite",
        title="Statlog (Landsat Satellite)",
        loader=load_headless(
            ["sat.trn", "sat.tst"], r"\s+", [f"pixel{p}_band{b}" for p in range(1, 10) for b in range(1, 5)]
        ),
        rows=6_435,
        features=36,
        classes=6,
        citation="Srinivasan, A. (1993). Statlog (Landsat Satellite). UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C55887",
        licence=_CC_BY,
        uci=146,
        folder="satellite",
        files=("sat.trn", "sat.tst"),
        train_rows=4_435,
        notes=("Rassouli's table 1 gives 6430 records; the source has 6435.",),
    ),
    Dataset(
        name="pendigits",
        title="Pen-Based Recognition of Handwritten Digits",
        loader=load_headless(
            ["pendigits.tra", "pendigits.tes"],
            ",",
            [f"{axis}{point}" for point in range(1, 9) for axis in "xy"],
        ),
        rows=10_992,
        features=16,
        classes=10,
        citation="Alpaydin, E., Alimoglu, F. (1996). Pen-Based Recognition of Handwritten Digits. "
        "UCI Machine Learning Repository. https://doi.org/10.24432/C5MG6K",
        licence=_CC_BY,
        uci=81,
        folder="pendigits",
        files=("pendigits.tra", "pendigits.tes"),
        train_rows=7_494,
    ),
    _GRID,
    replace(
        _GRID,
        name="grid_all",
        title="Electrical Grid Stability Simulated Data with its outcome",
        loader=load_grid(outcome=True),
        features=13,
        notes=(
            "All 13 columns are kept, as in Varasteh, Table I; `stab` is the outcome itself, whose sign is the label.",
        ),
    ),
    Dataset(
        name="robot",
        title="Wall-Following Robot Navigation Data",
        loader=load_headless(["sensor_readings_24.data"], ",", [f"ultrasound_{i}" for i in range(1, 25)]),
        rows=5_456,
        features=24,
        classes=4,
        citation="Freire, A., Veloso, M., Barreto, G. (2009). Wall-Following Robot Navigation Data. "
        "UCI Machine Learning Repository. https://doi.org/10.24432/C57C8W",
        licence=_CC_BY,
        uci=194,
        folder="robot",
        files=("sensor_readings_24.data",),
    ),
    Dataset(
        name="drive",
        title="Dataset for Sensorless Drive Diagnosis",
        loader=load_drive,
        rows=58_509,
        features=48,
        classes=11,
        citation="Bator, M. (2013). Dataset for Sensorless Drive Diagnosis. UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C5VP5F",
        licence=_CC_BY,
        uci=325,
        folder="drive",
        files=DRIVE_FILES[:1],
        sample_file=DRIVE_FILES[1],
        sample_rows=2_200,
        notes=("Rows are ordered by class: a batch of consecutive rows holds one class.",),
    ),
    Dataset(
        name="credit",
        title="Default of Credit Card Clients",
        loader=load_credit,
        rows=30_000,
        features=23,
        classes=2,
        citation="Yeh, I. (2009). Default of Credit Card Clients. UCI Machine Learning Repository. "
        "https://doi.org/10.24432/C55S3H",
        licence=_CC_BY,
        uci=350,
        openml=42_477,
        folder="credit",
        files=("UCI_Credit_Card.csv",),
        notes=("SEX, EDUCATION, MARRIAGE and the PAY_ columns are the source's integer codes.",),
    ),
    Dataset(
        name="mnist01",
        title="MNIST, digits 0 and 1",
        loader=load_mnist01,
        rows=14_780,
        features=784,
        classes=2,
        citation="LeCun, Y., Bottou, L., Bengio, Y., Haffner, P. (1998). Gradient-based learning applied to "
        "document "
        "recognition. Proceedings of the IEEE 86(11):2278-2324",
        licence="CC BY-SA 3.0",
        openml=554,
        folder="mnist",
        files=tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")),
        train_rows=12_665,
        notes=("Pixels are divided by 255.",),
    ),
)

DATASETS: dict[str, Dataset] = {entry.name: entry for entry in _ENTRIES}
