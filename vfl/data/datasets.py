"""What a catalogue of public data sets holds about each, and what loading one delivers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from vfl.data.labels import Labels
from vfl.data.tables import Features


class DatasetError(ValueError):
    """The raw files of a data set are damaged or not the expected ones."""


class DatasetNotFound(DatasetError):
    """There is no such data set, or its raw files are missing."""


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
        sample_file: a published excerpt, used where the full file is missing.
        sample_rows: rows of the excerpt.
        train_rows: see RegistryTable.
        simulation: see RegistryTable.
        notes: see RegistryTable.
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
    sample_file: str | None = None
    sample_rows: int | None = None
    train_rows: int | None = None
    simulation: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
