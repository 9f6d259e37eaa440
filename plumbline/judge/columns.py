"""The columns of the passive tables behind the features: what takes few values, and what counts as knowing one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from plumbline.judge.measures import is_discrete
from services.common.run_records import PartyFeatures
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.data.columns import ROLES, ColumnRole


@dataclass(frozen=True, eq=False)
class Category:
    """What takes few values: one column, or the columns of a one-hot encoded feature.

    Attributes:
        columns: (c,) which columns; one, or those of the group.
        values: (v, 1), the values that one column takes, in order; of a group (1, c), what a 1 is encoded as.
        is_open: whether some records have none of a group's values; that is then one more, the last.
        has_nameless: whether the lowest value stands for all that have no code of their own: nobody names those.
    """

    columns: IntArray
    values: FloatArray
    is_open: bool = False
    has_nameless: bool = False

    @property
    def count(self) -> int:
        """How many values there are that can be named."""
        return int(max(self.values.shape)) + self.is_open - self.has_nameless

    def can_be_named(self, symbols: IntArray) -> BoolArray:
        """Tell which of these numbers of values mean one value, (n,)."""
        return symbols > 0 if self.has_nameless else np.ones(len(symbols), dtype=bool)

    def is_wrong(self, named: IntArray | int, symbols: IntArray) -> FloatArray:
        """1 for each of (n,) true numbers of values that is named otherwise or has no name, else 0."""
        return ((named != symbols) | ~self.can_be_named(symbols)).astype(np.float64)

    def symbols(self, cells: FloatArray) -> IntArray:
        """Find the nearest value's number for each of (n, d) cells' records, (n,); of a group, the largest column's."""
        if len(self.columns) == 1:
            return _nearest(self.values[:, 0], cells[:, self.columns[0]])
        indicators = cells[:, self.columns] / self.values[0]  # each 1 as large as the others
        if self.is_open:  # what the others leave
            indicators = np.column_stack([indicators, 1 - indicators.sum(axis=1)])
        largest: IntArray = indicators.argmax(axis=1)
        return largest


def values_of(features: FloatArray, column: int, *, has_nameless: bool = False) -> Category:
    """Find the category of the values that one of (n, d) columns takes."""
    return Category(np.array([column]), np.unique(features[:, column])[:, None], has_nameless=has_nameless)


def indicators_of(features: FloatArray, columns: IntArray) -> Category:
    """Find the category whose one-hot features are these of (n, d) columns, in whatever unit a 1 is; 0 is none."""
    there = features[:, columns] > 0
    total, count = features[:, columns].sum(axis=0, where=there), there.sum(axis=0)
    # A category that no record has is as large as any.
    ones: FloatArray = np.divide(total, count, out=np.ones(len(columns)), where=count > 0)
    if len(columns) == 1:
        return Category(columns, np.array([[0.0], ones]))
    return Category(columns, ones[None], is_open=bool((~there).all(axis=1).any()))


def find_categories(features: FloatArray, owners: Sequence[str]) -> list[Category]:
    """Find what takes few values in (n, d) columns; ``owners``: the party of each, as no group is shared by two.

    A one-hot group is a run of columns of 0 and 1, exactly one of which is 1 in every record.
    """
    groups = [Category(group, np.ones((1, len(group)))) for group in _one_hot_groups(features, owners)]
    return sorted([*groups, *few_valued(features, groups)], key=lambda one: int(one.columns[0]))


def few_valued(features: FloatArray, groups: Sequence[Category]) -> list[Category]:
    """Find single columns of (n, d) that take few values, but more than one, and are of no category yet."""
    grouped = {int(column) for one in groups for column in one.columns}
    return [
        Category(np.array([column]), np.unique(features[:, column])[:, None])
        for column in range(features.shape[1])
        if column not in grouped and is_discrete(features[:, column]) and np.ptp(features[:, column]) > 0
    ]


def _nearest(values: FloatArray, cells: FloatArray) -> IntArray:
    """Find the number of the nearest of values in rising order; the lower of two as near."""
    middles = (values[1:] + values[:-1]) / 2
    return np.searchsorted(middles, cells, side="left")


def _one_hot_groups(features: FloatArray, owners: Sequence[str]) -> list[IntArray]:
    """Find runs of columns whose ones take every record once; each column is added once and dropped once."""
    binary = ((features == 0) | (features == 1)).all(axis=0) & (np.ptp(features, axis=0) > 0)
    groups, start, covered = list[IntArray](), 0, np.zeros(len(features), dtype=bool)
    for column, ones in enumerate(features.T > 0):
        if not binary[column] or owners[column] != owners[start]:
            start, covered = column + (not binary[column]), np.zeros_like(covered)
        if not binary[column]:
            continue
        while (covered & ones).any():
            covered &= features[:, start] == 0
            start += 1
        covered |= ones
        if covered.all():
            groups.append(np.arange(start, column + 1))
            start, covered = column + 1, np.zeros_like(covered)
    return groups


# What a column of a passive table is judged as.
SourceKind = Literal["number", "date", "code", "category"]
# Cells count as known when an estimate is off by this part of their column's usual range at most, or near it in its
# units; and as read, nearly exactly, at a tenth of that.
TOLERANCE = 0.05
READ = 0.1
# From this skewness on, either way, few cells carry most of a squared error.
SKEWED = 2.0
# The usual range is what these quantiles span, as wide as an even column's whole range would be: a few huge values
# make no guess look close.
_USUAL = (0.05, 0.95)
# Parties write cells in fixed point: what is off by no more than that is a whole number still.
_WHOLE_NUMBERS = 1e-3
# Who is off by less than half a unit knows a whole number; no guess lies so near to two of them, however written.
_WHOLE = 0.5 - 2 * _WHOLE_NUMBERS
# What dates are told to, in days.
_SPANS = {
    "an hour": 1 / 24,
    "6 hours": 0.25,
    "a day": 1.0,
    "2 days": 2.0,
    "a week": 7.0,
    "2 weeks": 14.0,
    "a month": 30.4375,
    "3 months": 91.3125,
    "6 months": 182.625,
    "a year": 365.25,
    "2 years": 730.5,
    "5 years": 1826.25,
    "10 years": 3652.5,
}


@dataclass(frozen=True)
class LogScale:
    """A log scale of a column's public range, 0 to 1 like the range: what most values differ by is seen beside a tail.

    Attributes:
        unit: the distance from the range's crowded end below which the scale is nearly even.
        is_mirrored: whether that end is the upper one.

    Examples:
        >>> LogScale(unit=0.01, is_mirrored=False).of(np.array([0.0, 0.01, 1.0])).round(2)
        array([0.  , 0.15, 1.  ])
    """

    unit: float
    is_mirrored: bool

    @classmethod
    def for_skewed(cls, cells: FloatArray) -> "LogScale | None":
        """Find the scale for (n,) cells in [0, 1]; None for other ranges, and where they aren't skewed.

        Of the cells that don't lie at the end itself, the few nearest to it are within the unit.
        """
        spread = cells.std()
        if spread == 0 or cells.min() < 0 or cells.max() > 1:
            return None
        skewness = float(((cells - cells.mean()) ** 3).mean() / spread**3)
        if abs(skewness) <= SKEWED:
            return None
        distance = 1 - cells if skewness < 0 else cells
        return cls(float(np.quantile(distance[distance > 0], _USUAL[0])), skewness < 0)

    def of(self, cells: FloatArray) -> FloatArray:
        """Move (n,) cells, or estimates of some, onto the scale; what lies outside the range, to its nearest end."""
        cells = np.clip(cells, 0.0, 1.0)
        distance = 1 - cells if self.is_mirrored else cells
        places: FloatArray = np.log1p(distance / self.unit) / np.log1p(1 / self.unit)
        return 1 - places if self.is_mirrored else places

    def cells_at(self, places: FloatArray) -> FloatArray:
        """Find the cells at (n,) places of the scale."""
        ahead = np.clip(1 - places if self.is_mirrored else places, 0.0, 1.0)
        distance: FloatArray = self.unit * np.expm1(ahead * np.log1p(1 / self.unit))
        return 1 - distance if self.is_mirrored else distance


@dataclass(frozen=True, eq=False)
class Source:
    """One column of a passive party's table.

    Attributes:
        party: name of the owner.
        name: of the column.
        kind: what it is judged as: numbers and dates by their errors, codes and categories by wrong names.
        features: (f,) the passive features that are of it.
        tolerance: of a number or a date, how far off its feature may be and still count as known; NaN of others.
        known_as: what counts as known, in words: ``within 5``, ``guessed right``.
        near: of a number or a date, how far off its feature may be and still count as read nearly exactly; else NaN.
        unit: how many of the table's units one of its feature's is; NaN where it has none, and of what is named.
        category: what is named, of codes and categories; None of others.
        missing: whether a number is there at all, where that is a feature of its own; None elsewhere.
        role: what its owner says of it.
        logs: of a skewed number, the scale on which it is judged besides; None elsewhere.
    """

    party: str
    name: str
    kind: SourceKind
    features: IntArray
    tolerance: float
    known_as: str
    near: float = np.nan
    unit: float = np.nan
    category: Category | None = None
    missing: Category | None = None
    role: ColumnRole = ""
    logs: LogScale | None = None

    @property
    def value(self) -> int:
        """The feature that it is judged by: of numbers, dates and codes the only one, of categories the first."""
        return int(self.features[0])


def sources_of(party: str, party_features: PartyFeatures, features: FloatArray, first: int) -> list[Source]:
    """List the columns of one party's table, in the order of its features.

    Runs from before tables had types don't tell them: each of their features is a column.

    Args:
        party: name of the owner.
        party_features: its features as it wrote them.
        features: (n, d) of all passive parties.
        first: which of these is its first.
    """
    count = party_features.features.shape[1]
    names = np.array(party_features.names if party_features.sources is None else party_features.sources)
    kinds = np.full(count, "number") if party_features.kinds is None else party_features.kinds
    offsets = np.zeros(count) if party_features.offsets is None else party_features.offsets
    scales = np.full(count, np.nan) if party_features.scales is None else party_features.scales
    roles = np.full(count, "") if party_features.roles is None else party_features.roles
    groups = (
        np.arange(count)[:, None]
        if party_features.sources is None
        else [names == name for name in dict.fromkeys(names)]
    )
    return [
        replace(
            _source(
                (party, str(names[group][0])),
                kinds[group].tolist(),
                np.arange(first, first + count)[group],
                features,
                (float(offsets[group][0]), float(scales[group][0])),
            ),
            role=next((role for role in ROLES if role == str(roles[group][0])), ""),
        )
        for group in groups
    ]


def _source(
    name: tuple[str, str], kinds: list[str], columns: IntArray, features: FloatArray, unit: tuple[float, float]
) -> Source:
    """Describe a source; a number stands before whether it is missing. ``unit``: offset, scale of the first feature."""
    kind, column = kinds[0], int(columns[0])
    if kind not in ("number", "date", "code"):
        return Source(*name, "category", columns, np.nan, "guessed right", category=indicators_of(features, columns))
    gaps = columns[[at for at, one in enumerate(kinds) if one == "missing"]]
    missing = indicators_of(features, gaps) if len(gaps) else None
    if kind == "code" or len(np.unique(features[:, column])) == 2:  # two values are a category, whatever they are
        source_kind: SourceKind = "code" if kind == "code" else "category"
        offset, scale = unit
        # Codes count from 0; below it is what no record had that the code was made from.
        nameless = kind == "code" and bool(offset + scale * features[:, column].min() < -_WHOLE)
        named = values_of(features, column, has_nameless=nameless)
        return Source(*name, source_kind, columns, np.nan, "guessed right", category=named, missing=missing)
    tolerance, closeness, near = _tolerance(features[:, column], *unit, is_date=kind == "date")
    scale = abs(unit[1]) or np.nan
    if kind == "date":
        return Source(*name, "date", columns, tolerance, closeness, near, scale, missing=missing)
    logs = LogScale.for_skewed(features[:, column])
    return Source(*name, "number", columns, tolerance, closeness, near, scale, missing=missing, logs=logs)


def usual_range(cells: FloatArray) -> float:
    """Tell how wide (n,) cells spread but for the few at either end; where nearly all are alike, how wide others do."""
    if not len(cells):
        return 0.0
    low, high = np.quantile(cells, _USUAL)
    if high > low:
        return float((high - low) / (_USUAL[1] - _USUAL[0]))
    unusual = cells[np.abs(cells - low) > _WHOLE_NUMBERS * np.ptp(cells)]
    return usual_range(unusual) or float(np.ptp(cells))


def _tolerance(cells: FloatArray, offset: float, scale: float, *, is_date: bool) -> tuple[float, str, float]:
    """Say how far off a cell may be and count as known, on the encoded scale; the same in words; and as read."""
    spread, scale = usual_range(cells), abs(scale)
    if not scale > 0 or not np.isfinite(scale) or spread <= 0:
        return TOLERANCE * spread, "within 5 % of its usual range", READ * TOLERANCE * spread
    near = TOLERANCE * spread * scale
    if is_date:
        span = min(_SPANS, key=lambda one: abs(np.log(_SPANS[one] / near)))
        return _SPANS[span] / scale, f"within {span}", READ * _SPANS[span] / scale
    values = offset + scale * cells
    is_whole = np.allclose(values, np.round(values), rtol=0, atol=_WHOLE_NUMBERS)
    if near < 1 and is_whole:
        return _WHOLE / scale, "exactly right", _WHOLE / scale
    step = round_number(near)
    return step / scale, f"within {step:g}", max(READ * step, _WHOLE if is_whole else 0.0) / scale


def round_number(near: float) -> float:
    """Round to the nearest of 1, 2 and 5 times a power of ten, by ratio."""
    power = 10.0 ** np.floor(np.log10(near))
    candidates = [float(f"{factor * power:.0e}") for factor in (1, 2, 5, 10)]
    return min(candidates, key=lambda one: abs(np.log(one / near)))
