"""What a catalogue of public data sets holds about each, and what reads its raw files: a loader per form of file."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vfl.data.labels import Labels
from vfl.data.tables import Features


class DatasetError(ValueError):
    """The raw files of a data set are damaged or not the expected ones.

    Examples:
        >>> from pathlib import Path
        >>> Path("bank").mkdir()
        >>> _ = Path("bank", "bank-additional-full.csv").write_text("age")
        >>> load_dataset("bank", Path())
        Traceback (most recent call last):
            ...
        vfl.data.datasets.DatasetError: The raw files of bank are damaged (...): run `plumbline datasets fetch bank` ...
    """


class DatasetNotFound(DatasetError):
    """There is no such data set, or its raw files are missing.

    Examples:
        >>> load_dataset("bank", None)
        Traceback (most recent call last):
            ...
        vfl.data.datasets.DatasetNotFound: The data set bank needs raw files: set PLUMBLINE_DATA_DIR ...
    """


@dataclass(frozen=True, eq=False)
class RegistryTable:
    """A public data set before it is split among parties.

    Attributes:
        name: in the catalogue.
        features: (n, d) float64.
        feature_names: d names.
        labels: (n,) object array of str or int.
        class_names: k names as by `tables.class_names`.
        train_rows: how many first rows are the published training set; None where none was published.
        simulation: what was done to the data that real parties could not do, in sentences for the report.
        notes: other facts that a reader of results needs.

    Examples:
        >>> table: RegistryTable = load_dataset("breast_cancer", None)
        >>> table.features.shape, table.class_names
        ((569, 30), ('benign', 'malignant'))
    """

    name: str
    features: Features
    feature_names: tuple[str, ...]
    labels: Labels
    class_names: tuple[str, ...]
    train_rows: int | None = None
    simulation: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RawTable:
    """What a loader delivers: (n, d) features, d names, n labels as they are in the source."""

    features: npt.NDArray[Any]
    feature_names: Sequence[str]
    labels: Sequence[object] | npt.NDArray[Any]


@dataclass(frozen=True)
class Dataset:
    """A catalogue entry.

    Attributes:
        name: what users call it.
        title: what the source calls it.
        loader: reads the raw files of a folder.
        rows: how many loading must deliver.
        features: how many loading must deliver, id and label left out.
        classes: how many loading must deliver.
        citation: whom to cite.
        licence: of the data.
        uci: its number at UCI.
        openml: its number at OpenML.
        folder: where the raw files lie in the data directory.
        files: their names; none for those that come with scikit-learn.
        archive: address of the zip archive that has them, or ending in / of the folder where they are with .gz added.
        sha256: of the files as they are downloaded, where that is published.
        sample_file: a published excerpt, used where the full file is missing.
        sample_rows: rows of the excerpt.
        train_rows: see RegistryTable.
        simulation: see RegistryTable.
        notes: see RegistryTable.

    Examples:
        >>> entry: Dataset = dataset("bank")
        >>> entry.title, entry.rows, entry.features, entry.licence
        ('Bank Marketing without `duration`', 41188, 19, 'CC BY 4.0')
    """

    name: str
    title: str
    loader: Callable[[Path], RawTable]
    rows: int
    features: int
    classes: int
    citation: str
    licence: str
    uci: int | None = None
    openml: int | None = None
    folder: str = ""
    files: tuple[str, ...] = ()
    archive: str = ""
    sha256: tuple[str, ...] = ()
    sample_file: str | None = None
    sample_rows: int | None = None
    train_rows: int | None = None
    simulation: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


if TYPE_CHECKING:
    import pandas as pd


def existing_file(path: Path) -> Path | None:
    """Find the file of this name, plain or with .gz added."""
    return next((at for at in (path, path.with_name(f"{path.name}.gz")) if at.is_file()), None)


def _read(folder: Path, file: str, **options: Any) -> pd.DataFrame:
    import pandas as pd

    # keep_default_na: "NA"-like categories are categories.
    path = existing_file(folder / file) or folder / file
    frame: pd.DataFrame = pd.read_csv(path, keep_default_na=False, **options)
    return frame


def load_sklearn(name: str, label_names: bool) -> Callable[[Path], RawTable]:
    """Make a loader for scikit-learn's load_<name>; labels are its target names or, for digits, the digits."""

    def load(_: Path) -> RawTable:
        import sklearn.datasets

        bunch = getattr(sklearn.datasets, f"load_{name}")()
        labels = bunch.target_names[bunch.target] if label_names else bunch.target
        return RawTable(bunch.data, [str(feature) for feature in bunch.feature_names], labels)

    return load


def load_bank(dropped: str | None) -> Callable[[Path], RawTable]:
    """Make a loader for bank, without one column if any; categories become the mean label of their rows."""

    def load(folder: Path) -> RawTable:
        frame = _read(folder, "bank-additional-full.csv", sep=";")
        labels = frame.pop("y")
        if dropped is not None:
            frame = frame.drop(columns=dropped)
        return RawTable(_mean_labels(frame, labels == "yes"), list(frame.columns), labels.tolist())

    return load


def _mean_labels(frame: pd.DataFrame, positive: pd.Series[bool]) -> npt.NDArray[np.float64]:
    """Replace each category by the share of positive labels among its rows; numbers stay."""
    import pandas as pd

    shares = {
        name: column if pd.api.types.is_numeric_dtype(column.dtype) else positive.groupby(column).transform("mean")
        for name, column in frame.items()
    }
    return pd.DataFrame(shares).to_numpy(np.float64)


_ADULT_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
]


def load_adult(folder: Path) -> RawTable:
    """Load adult: the training file, then the test file; text columns become category codes."""
    import pandas as pd

    frame, labels = _read_adult(folder)
    for name in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[name].dtype):
            frame[name] = np.unique(frame[name].to_numpy(dtype=str), return_inverse=True)[1]
    return RawTable(frame.to_numpy(np.float64), list(frame.columns), labels.tolist())


def load_adult_means(folder: Path) -> RawTable:
    """Load adult without the census weight; categories become the share of `>50K` among their rows."""
    frame, labels = _read_adult(folder)
    frame = frame.drop(columns="fnlwgt")
    return RawTable(_mean_labels(frame, labels == ">50K"), list(frame.columns), labels.tolist())


def _read_adult(folder: Path) -> tuple[pd.DataFrame, pd.Series[str]]:
    import pandas as pd

    # comment: adult.test starts with "|1x3 Cross validator".
    parts = [
        _read(folder, file, header=None, names=_ADULT_COLUMNS, skipinitialspace=True, comment="|")
        for file in ("adult.data", "adult.test")
    ]
    frame = pd.concat(parts, ignore_index=True)
    # adult.test's labels end with a full stop.
    labels = frame.pop("income").str.removesuffix(".")
    return frame, labels


def load_headless(files: Sequence[str], sep: str, feature_names: Sequence[str]) -> Callable[[Path], RawTable]:
    """Make a loader for files without a header: numeric features, and the label in the last column."""

    def load(folder: Path) -> RawTable:
        parts = [_read(folder, file, header=None, sep=sep) for file in files]
        features = np.concatenate([part.iloc[:, :-1].to_numpy(np.float64) for part in parts])
        labels = [label for part in parts for label in part.iloc[:, -1].tolist()]
        return RawTable(features, feature_names, labels)

    return load


def load_drive(folder: Path) -> RawTable:
    """Load drive, whole or its published sample."""
    full, sample = DRIVE_FILES
    file = full if existing_file(folder / full) else sample
    return load_headless([file], r"\s+", [f"current_{i}" for i in range(1, 49)])(folder)


def load_grid(*, outcome: bool) -> Callable[[Path], RawTable]:
    """Make a loader for grid, with or without `stab`, the continuous outcome, whose sign is the label."""

    def load(folder: Path) -> RawTable:
        frame = _read(folder, "Data_for_UCI_named.csv")
        labels = frame.pop("stabf")
        if not outcome:
            frame = frame.drop(columns="stab")
        return RawTable(frame.to_numpy(np.float64), list(frame.columns), labels.tolist())

    return load


def load_credit(folder: Path) -> RawTable:
    """Load credit from its CSV export."""
    frame = _read(folder, "UCI_Credit_Card.csv").drop(columns="ID")
    labels = frame.pop("default.payment.next.month")
    return RawTable(frame.to_numpy(np.float64), list(frame.columns), labels.tolist())


def load_mnist01(folder: Path) -> RawTable:
    """Load MNIST's digits 0 and 1: the training images, then the test images."""
    images = np.concatenate([_read_idx(folder / f"{part}-images-idx3-ubyte", 3) for part in ("train", "t10k")])
    digits = np.concatenate([_read_idx(folder / f"{part}-labels-idx1-ubyte", 1) for part in ("train", "t10k")])
    is_binary = digits <= 1
    pixels = images[is_binary].reshape(-1, 784) / 255.0
    return RawTable(pixels, [f"pixel_{row}_{column}" for row in range(28) for column in range(28)], digits[is_binary])


def _read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """Read an idx file of unsigned bytes. Raises ValueError for another header or a truncated file."""
    file = existing_file(path) or path
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    magic, *shape = struct.unpack_from(f">{1 + dimensions}I", data)
    if magic != 0x0800 + dimensions:
        raise ValueError("not an idx file of unsigned bytes")
    return np.frombuffer(data, dtype=np.uint8, offset=4 * (1 + dimensions)).reshape(shape)


DRIVE_FILES = ("Sensorless_drive_diagnosis.txt", "Sensorless_drive_diagnosis_sample2200.txt")
