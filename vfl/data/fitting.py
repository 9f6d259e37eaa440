"""From typed columns to features: imputation, codes and scales, learned on a party's own training rows.

What is learned describes that party's people, so it stays with the party. Which features there are follows from the
party's whole table instead: their number is told to others, who may choose which rows are trained on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.crypto.widths import BYTE
from vfl.data.columns import UNSEEN_CODE, ColumnPlan, EncodedColumn, FeatureKind, open_ends
from vfl.data.encoders import Encoder, EncoderKind, fit_encoder, rows_to_unit_norm
from vfl.data.grids import UNIT_GRID, Grid, grid_of
from vfl.data.typed_tables import TypedTable

if TYPE_CHECKING:
    import pandas as pd

_SCALED: frozenset[FeatureKind] = frozenset({"number", "date", "code"})


@dataclass(frozen=True, eq=False)
class FittedColumns:
    """What a party learned of its training rows, and the features that it makes of any row.

    Attributes:
        columns: d features, those of a source column side by side and in the table's order.
        kind: how numbers are scaled.
    """

    columns: tuple[EncodedColumn, ...]
    kind: EncoderKind
    _transformer: Any
    _sources: tuple[str, ...]
    _scaled: IntArray
    _scales: Encoder | None

    def grids(self, of_table: Sequence[Grid | None]) -> tuple[Grid | None, ...]:
        """The grids of a table's features as they are encoded here: see `column_grids`."""
        if self.kind != "minmax":
            return tuple(of_table)
        return tuple(
            grid.scaled(one.scale) if grid is not None and one.kind in _SCALED else grid
            for grid, one in zip(of_table, self.columns, strict=True)
        )

    def transform(self, table: TypedTable) -> FloatArray:
        """Encode all rows of a table of the same columns: (n, d) float64, finite.

        Categories that the party's table doesn't have are 0 in every feature of their column. A value among many that
        the training rows don't have gets the code below the rarest one.
        """
        features = _matrix(self._transformer.transform(_cells(table, self._sources)))
        if self._scales is not None:
            features[:, self._scaled] = self._scales.transform(_matrix(features[:, self._scaled]))
        return rows_to_unit_norm(features) if self.kind == "unit_norm" else features


def fit_columns(table: TypedTable, rows: IntArray, encoder: EncoderKind) -> FittedColumns:
    """Learn codes, what stands for missing cells, and scales from ``rows`` of a table, and from no other row.

    Which features there are, a category's and a gap's included, follows from all rows. The same table and rows give the
    same bits.

    Args:
        table: with at least one column that is kept.
        rows: (m,) row numbers, m >= 1.
        encoder: how numbers, dates and codes are scaled; categories and gaps are 0 or 1 before ``unit_norm`` scales
            whole rows.

    Raises:
        EncoderError: for an unknown encoder, no rows, and values too large to scale.
    """
    from sklearn.compose import ColumnTransformer

    sources = tuple(plan.name for plan in table.kept)
    # Names of columns are the party's own: positions can't clash with the transformer's.
    cells = _cells(table, sources)
    values = [_Values.of(cells[at], plan) for at, plan in enumerate(table.kept)]
    transformer = ColumnTransformer(list(_steps(table.kept, values)), sparse_threshold=0.0)
    fitted_on = _matrix(transformer.fit_transform(cells.iloc[rows]))
    described = [one for at, plan in enumerate(table.kept) for one in _features(plan, values[at])]
    scaled = np.array([at for at, one in enumerate(described) if one.kind in _SCALED], dtype=np.int64)
    if encoder == "minmax":
        fitted_on = _with_unseen(fitted_on, described)
    scales = fit_encoder(encoder, _matrix(fitted_on[:, scaled])) if len(scaled) and encoder != "unit_norm" else None
    return FittedColumns(
        tuple(_with_scales(described, scaled, scales, encoder)), encoder, transformer, sources, scaled, scales
    )


def column_grids(table: TypedTable, encoder: EncoderKind) -> tuple[Grid | None, ...]:
    """Find the grid of every feature that ``fit_columns`` makes of a table, whichever rows it is fitted on.

    How many columns are narrow is told to others, who may choose which rows are trained on, so it follows from the
    whole table. Every session then keeps to it:

    - minmax: codes and numbers are cut to the range of the training rows, which is no wider than the whole table's.
    - none: values keep their unit and their grid, counted from 0; below 0 there is none. A code of a value that no
      training row has is -1.
    - standardise: a mean is a multiple of nothing, so only columns of one value stay on a grid, at 0.
    - unit_norm: every row has a scale of its own. No column has a grid, not even a category's.

    What fills a gap is a median, maybe the middle between two values: a column with gaps is counted in half steps.

    Returns:
        d grids in the features' order, the steps in the source's unit; None for a full column.
    """
    return tuple(grid for grids in grids_by_column(table, encoder).values() for grid in grids)


def grids_by_column(table: TypedTable, encoder: EncoderKind) -> dict[str, tuple[Grid | None, ...]]:
    """The same grids by the name of the source column, whose features stand side by side."""
    cells = _cells(table, tuple(plan.name for plan in table.kept))
    return {plan.name: tuple(_grids(cells[at], plan, encoder)) for at, plan in enumerate(table.kept)}


def _grids(cells: pd.Series[Any], plan: ColumnPlan, encoder: EncoderKind) -> Iterator[Grid | None]:
    """The grids of the features of one column."""
    values = _Values.of(cells, plan)
    grid = None if plan.coarsening else _source_grid(cells, plan, encoder)
    if (values.has_gaps or values.ends) and grid is not None:
        grid = grid.halved()
    for feature in _features(plan, values):
        yield None if encoder == "unit_norm" else grid if feature.kind in _SCALED else UNIT_GRID


def _source_grid(cells: pd.Series[Any], plan: ColumnPlan, encoder: EncoderKind) -> Grid | None:
    """The grid of a number, a date or a code, in its own unit and without what fills its gaps."""
    if plan.encoding == "onehot":
        return UNIT_GRID
    if plan.encoding == "ordinal":
        # From the code of a value never seen to the most frequent one's.
        steps = cells.nunique() - 1 - UNSEEN_CODE
        return Grid(steps=steps) if encoder == "minmax" and steps <= BYTE.bound else None
    days = cells.to_numpy(dtype=np.float64)
    grid = grid_of(np.where(np.isinf(days), np.nan, days), from_zero=encoder == "none")
    return None if grid is not None and grid.steps and encoder == "standardise" else grid


@dataclass(frozen=True)
class _Values:
    """What a whole column holds: its categories, in the order of their letters, and whether cells are missing.

    Of dates also what some lack, in words, and what stands for it.
    """

    categories: tuple[str, ...]
    has_gaps: bool
    ends: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, cells: pd.Series[Any], plan: ColumnPlan) -> _Values:
        categories = sorted(cells.dropna().unique()) if plan.encoding == "onehot" else []
        ends = open_ends(cells.to_numpy(dtype=np.float64)) if plan.encoding == "date" else ()
        return cls(tuple(categories), bool(cells.isna().any()), tuple((words, value) for words, value, _ in ends))


def _with_unseen(fitted_on: FloatArray, described: list[EncodedColumn]) -> FloatArray:
    """The fitted rows and one more whose codes are of values never seen: cut to the range, they'd be the rarest's."""
    unseen = fitted_on[:1].copy()
    unseen[:, [at for at, one in enumerate(described) if one.kind == "code"]] = UNSEEN_CODE
    return np.vstack([fitted_on, unseen])


def _cells(table: TypedTable, sources: tuple[str, ...]) -> pd.DataFrame:
    """The table's kept columns under their positions, categories as text objects."""
    import pandas as pd

    columns = {at: table.frame[name] for at, name in enumerate(sources)}
    return pd.DataFrame(
        {
            at: column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
            for at, column in columns.items()
        }
    )


def _matrix(features: Any) -> FloatArray:
    """Float64, row by row: sums over a column in another order would round differently."""
    return np.ascontiguousarray(features, dtype=np.float64)


def _steps(plans: Sequence[ColumnPlan], values: Sequence[_Values]) -> Iterator[tuple[str, Any, list[int]]]:
    """The transformers, named, with the places of their columns, in the table's order.

    Neighbours that are treated alike share one: scikit-learn looks at its input for longer than it learns.
    """

    def treated(index: int) -> str | int:
        if plans[index].encoding == "onehot":
            return "onehot"
        is_plain = plans[index].encoding != "ordinal" and not values[index].has_gaps and not values[index].ends
        return "number" if is_plain else index

    for _, alike in groupby(range(len(plans)), treated):
        places = list(alike)
        yield str(places[0]), _step(plans[places[0]], [values[at] for at in places]), places


def _step(plan: ColumnPlan, alike: Sequence[_Values]) -> Any:
    """The scikit-learn transformer of columns that are treated alike, of which one has this plan."""
    from sklearn.impute import MissingIndicator, SimpleImputer
    from sklearn.pipeline import make_union
    from sklearn.preprocessing import OneHotEncoder

    from vfl.data.frequency_codes import FrequencyCodes

    if plan.encoding == "onehot":
        # A gap is a category of its own here: its feature is the indicator.
        categories = [
            np.array([*values.categories, *([np.nan] if values.has_gaps else [])], dtype=object) for values in alike
        ]
        return OneHotEncoder(categories=categories, handle_unknown="ignore", sparse_output=False)
    values = alike[0]
    if values.ends:
        return _open_ended(values)
    learned = (
        FrequencyCodes() if plan.encoding == "ordinal" else SimpleImputer(strategy="median", keep_empty_features=True)
    )
    return make_union(learned, MissingIndicator(features="all")) if values.has_gaps else learned


def _open_ended(values: _Values) -> Any:
    """The transformer of dates of which some have no end, or no beginning: they get the median, and say so."""
    from functools import partial

    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import FunctionTransformer

    dates = make_pipeline(
        FunctionTransformer(_without_ends), SimpleImputer(strategy="median", keep_empty_features=True)
    )
    gaps = [FunctionTransformer(np.isnan)] if values.has_gaps else []
    return make_union(dates, *gaps, *(FunctionTransformer(partial(np.equal, value)) for _, value in values.ends))


def _without_ends(days: pd.DataFrame) -> FloatArray:
    values = days.to_numpy(dtype=np.float64)
    return np.where(np.isinf(values), np.nan, values)


def _features(plan: ColumnPlan, values: _Values) -> Iterator[EncodedColumn]:
    """The features that the transformer makes of its column, in its order."""
    name = plan.name
    gap = EncodedColumn(f"{name} is missing", name, "missing")
    if plan.encoding == "onehot":
        yield from (EncodedColumn(f"{name}={category}", name, "category") for category in values.categories)
    else:
        kinds: dict[str, FeatureKind] = {"number": "number", "date": "date", "ordinal": "code"}
        yield EncodedColumn(name, name, kinds[plan.encoding])
    if values.has_gaps:
        yield gap
    for phrase, _ in values.ends:
        yield EncodedColumn(f"{name} {phrase}", name, "missing")


def _with_scales(
    described: list[EncodedColumn], scaled: IntArray, scales: Encoder | None, kind: EncoderKind
) -> Iterator[EncodedColumn]:
    """The same features with the offset and the scale that lead back to their source's values."""
    from dataclasses import replace

    learned = {}
    if scales is not None and scales.scale:
        learned = dict(zip(scaled.tolist(), zip(scales.offset, scales.scale, strict=True), strict=True))
    for index, column in enumerate(described):
        offset, scale = learned.get(index, (0.0, 1.0))
        yield replace(column, offset=offset, scale=float("nan") if kind == "unit_norm" else scale)
