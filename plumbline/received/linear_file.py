"""Linear and generalised linear models in a small JSON: weights by column, encodings as tables, intercept, link."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import ConfigDict
from scipy.special import expit

from plumbline.received.model_files import numbers_of
from services.common.run_files import parsed, read_json
from vfl.arrays import FloatArray, IntArray
from vfl.data.faults import TableError, counted, quoted

if TYPE_CHECKING:
    import pandas as pd

AGAIN = "Write it as docs/how-to/received.md has it."
_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Bins:
    """A table of values by bins: ``values[i]`` from ``edges[i - 1]`` on, below ``edges[i]``.

    Raises ValueError for edges that don't rise, and where there isn't one value more than edges.
    """

    __pydantic_config__ = _STRICT
    edges: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.edges) + 1 or any(np.diff(self.edges) <= 0):
            raise ValueError("expected rising edges, and one value more than edges")

    def of(self, numbers: FloatArray) -> FloatArray:
        """Look (n,) numbers up."""
        return np.asarray(self.values)[np.searchsorted(self.edges, numbers, side="right")]


@dataclass(frozen=True)
class Term:
    """What one column adds: ``weight`` times its cell as encoded.

    Attributes:
        weight: of the encoded cell.
        mean: a number is encoded as ``(cell - mean) / width``, if by no table.
        width: see there, not 0.
        bins: table of numbers, such as weights of evidence.
        values: table of categories, or of numbers as they are written.
        missing: what a gap is encoded as; without it none may be there.

    Raises ValueError for a width of 0 and for two tables.
    """

    __pydantic_config__ = _STRICT
    weight: float = 1.0
    mean: float = 0.0
    width: float = 1.0
    bins: Bins | None = None
    values: dict[str, float] | None = None
    missing: float | None = None

    def __post_init__(self) -> None:
        if not self.width or (self.bins and self.values):
            raise ValueError("expected a width that isn't 0, and one of bins and values at most")

    def encoded(self, cells: "pd.DataFrame", name: str) -> FloatArray:
        """Encode a column, (n,).

        Raises:
            TableError: for gaps and for values that the model has no number for: how many rows, and no cell.
        """
        column, gaps = cells[name], cells[name].isna().to_numpy()
        if self.values is not None:
            texts = column.astype(str) if column.dtype == "category" else column.map("{:.15g}".format)
            encoded: FloatArray = np.asarray(texts.map(self.values), dtype=np.float64)
        else:
            numbers = numbers_of(cells, name)
            scaled = (numbers - self.mean) / self.width
            encoded = scaled if self.bins is None else self.bins.of(numbers)
        encoded = np.where(gaps, np.nan if self.missing is None else self.missing, encoded)
        if unknown := int(np.isnan(encoded).sum()):
            raise TableError(
                f"--model is of another table: {counted(unknown, 'row')} of {quoted(name)} have no number in it. "
                "Say what gaps are with `missing`, and list every category."
            )
        return encoded


@dataclass(frozen=True)
class Points:
    """A scale of points: ``offset + factor * predictor``, of a predictor on the scale of the link."""

    __pydantic_config__ = _STRICT
    offset: float
    factor: float


@dataclass(frozen=True)
class LinearModel:
    """``link(E[y]) = intercept + sum of terms``.

    Attributes:
        model: ``linear``: what the file is.
        columns: a term by the column's name.
        intercept: of the predictor.
        link: of a generalised linear model.
        points: where points are sent in place of the prediction.

    Raises ValueError without a column.
    """

    __pydantic_config__ = _STRICT
    model: Literal["linear"]
    columns: dict[str, Term]
    intercept: float = 0.0
    link: Literal["identity", "logit", "log"] = "identity"
    points: Points | None = field(default=None)

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("expected one column at least")

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns that it reads."""
        return tuple(self.columns)

    @property
    def assumed(self) -> str:
        """What its reader takes for granted."""
        return f"A linear model of {counted(len(self.columns), 'column')}, link {self.link}, not clipped or rounded."

    def scores(self, cells: "pd.DataFrame") -> Mapping[str, FloatArray]:
        """Compute predictions, (n,): points if there are any, on the scale of the answer, and of the link."""
        terms = (term.weight * term.encoded(cells, name) for name, term in self.columns.items())
        predictor = sum(terms, np.full(len(cells), self.intercept))
        scales = {"identity": predictor, "logit": expit(predictor), "log": np.exp(predictor)}
        sent = {"score": scales[self.link], "predictor": predictor}
        if self.points is None:
            return sent
        return {"points": self.points.offset + self.points.factor * predictor, **sent}

    def leaves(self, cells: "pd.DataFrame") -> IntArray:
        """Find no leaves: (n, 0)."""
        return np.zeros((len(cells), 0), dtype=np.int64)


@dataclass(frozen=True)
class LinearReader:
    """Reads JSON that says ``"model": "linear"``."""

    def read(self, path: Path) -> LinearModel | None:
        """Read a linear model; None for another file, RunFolderError for one that is broken."""
        if path.suffix.lower() != ".json":
            return None
        content = read_json(path, AGAIN, AGAIN)
        if not isinstance(content, dict) or content.get("model") != "linear":
            return None
        return parsed(LinearModel, content, path, AGAIN)
