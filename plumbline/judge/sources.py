"""The columns of the passive parties' own tables behind the federation's features, and what counts as knowing one."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from plumbline.judge.categories import Category, indicators_of, values_of
from services.common.run_records import PartyFeatures
from vfl.arrays import FloatArray, IntArray

# What a column of a passive table is judged as.
SourceKind = Literal["number", "date", "code", "category"]
# Cells count as known when an estimate is off by this part of their column's range at most, or near it in its units.
TOLERANCE = 0.05
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
        category: what is named, of codes and categories; None of others.
        missing: whether a number is there at all, where that is a feature of its own; None elsewhere.
    """

    party: str
    name: str
    kind: SourceKind
    features: IntArray
    tolerance: float
    known_as: str
    category: Category | None = None
    missing: Category | None = None

    @property
    def value(self) -> int:
        """The feature that it is judged by: of numbers, dates and codes the only one, of categories the first."""
        return int(self.features[0])


def sources_of(party: str, own: PartyFeatures, features: FloatArray, first: int) -> list[Source]:
    """List the columns of one party's table, in the order of its features.

    Runs from before tables had types don't tell them: each of their features is a column.

    Args:
        party: name of the owner.
        own: its features as it wrote them.
        features: (n, d) of all passive parties.
        first: which of these is its first.
    """
    count = own.features.shape[1]
    names = np.array(own.names if own.sources is None else own.sources)
    kinds = np.full(count, "number") if own.kinds is None else own.kinds
    offsets = np.zeros(count) if own.offsets is None else own.offsets
    scales = np.full(count, np.nan) if own.scales is None else own.scales
    groups = np.arange(count)[:, None] if own.sources is None else [names == name for name in dict.fromkeys(names)]
    return [
        _source(
            (party, str(names[group][0])),
            kinds[group].tolist(),
            np.arange(first, first + count)[group],
            features,
            (float(offsets[group][0]), float(scales[group][0])),
        )
        for group in groups
    ]


def _source(
    name: tuple[str, str], kinds: list[str], columns: IntArray, features: FloatArray, unit: tuple[float, float]
) -> Source:
    """One source; a number stands before whether it is missing. ``unit``: offset and scale of the first feature."""
    kind, column = kinds[0], int(columns[0])
    if kind not in ("number", "date", "code"):
        return Source(*name, "category", columns, np.nan, "guessed right", indicators_of(features, columns))
    gaps = columns[[at for at, one in enumerate(kinds) if one == "missing"]]
    missing = indicators_of(features, gaps) if len(gaps) else None
    if kind == "code" or len(np.unique(features[:, column])) == 2:  # two values are a category, whatever they are
        judged: SourceKind = "code" if kind == "code" else "category"
        offset, scale = unit
        # Codes count from 0; below it is what no record had that the code was made from.
        nameless = kind == "code" and bool(offset + scale * features[:, column].min() < -_WHOLE)
        named = values_of(features, column, has_nameless=nameless)
        return Source(*name, judged, columns, np.nan, "guessed right", named, missing)
    tolerance, words = _tolerance(features[:, column], *unit, is_date=kind == "date")
    return Source(*name, "date" if kind == "date" else "number", columns, tolerance, words, None, missing)


def _tolerance(cells: FloatArray, offset: float, scale: float, *, is_date: bool) -> tuple[float, str]:
    """How far off a cell may be and count as known, on the encoded scale, and the same in words."""
    spread = float(np.ptp(cells))
    scale = abs(scale)
    if not scale > 0 or not np.isfinite(scale) or spread <= 0:
        return TOLERANCE * spread, "within 5 % of its range"
    near = TOLERANCE * spread * scale
    if is_date:
        words = min(_SPANS, key=lambda one: abs(np.log(_SPANS[one] / near)))
        return _SPANS[words] / scale, f"within {words}"
    values = offset + scale * cells
    if near < 1 and np.allclose(values, np.round(values), rtol=0, atol=_WHOLE_NUMBERS):
        return _WHOLE / scale, "exactly right"
    step = round_number(near)
    return step / scale, f"within {step:g}"


def round_number(near: float) -> float:
    """The nearest of 1, 2 and 5 times a power of ten, by ratio."""
    power = 10.0 ** np.floor(np.log10(near))
    candidates = [float(f"{factor * power:.0e}") for factor in (1, 2, 5, 10)]
    return min(candidates, key=lambda one: abs(np.log(one / near)))
