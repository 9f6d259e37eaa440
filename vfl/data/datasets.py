"""What an entry of the catalogue of public data sets is, and what loading one delivers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy.typing as npt

from vfl.data.tables import Features, Labels


class DatasetError(ValueError):
    """A data set's raw files are damaged or not the expected ones."""


class DatasetNotFound(DatasetError):
    """No such data set, or its raw files are not there."""


@dataclass(frozen=True, eq=False)
class RegistryTable:
    """A public data set before it is split among parties.

    features: (n, d) float64. feature_names: d names. labels: (n,) object array of str or int. class_names: k
    names as by `tables.class_names`. train_rows: the first train_rows rows are the published training set,
    None where none was published. simulation: what was done to the data that real parties could not do, in
    sentences for the report; empty otherwise. notes: other facts a reader of results needs.
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
    """What a loader delivers."""

    features: npt.NDArray[Any]
    feature_names: Sequence[str]
    labels: Sequence[object] | npt.NDArray[Any]


@dataclass(frozen=True)
class Dataset:
    """A registry entry.

    rows, features, classes: what loading must deliver (features without id and label). uci / openml: number
    of the data set there. folder and files: where the raw files lie in the data directory and what they are
    called (no files: it comes with scikit-learn). sample_file, sample_rows: a published excerpt used where
    the full file is missing. train_rows, simulation, notes: see RegistryTable.
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

    @property
    def task(self) -> Literal["binary", "multiclass"]:
        return "binary" if self.classes == 2 else "multiclass"
