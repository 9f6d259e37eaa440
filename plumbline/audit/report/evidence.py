"""Truth and estimates of each column, in the units of its owner's table."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from plumbline.judge.answer import ColumnAnswer
from services.common.run_folder import RunFolder
from services.common.run_records import Estimates, PartyFeatures
from vfl.arrays import BoolArray, FloatArray, IntArray

# Days since 1970, as dates are encoded, that have a date.
_FIRST_DAY, _LAST_DAY = date.min.toordinal(), date.max.toordinal()
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, eq=False)
class ColumnEvidence:
    """What is true of one column in the judged records, and what attacks made of it.

    Attributes:
        answer: the verdict on the column.
        names: of its values, for categories; empty for numbers and dates.
        unit: what its numbers count: empty for the column's own, ``days since 1970`` or ``on its encoded scale``.
        truth: (n,) values, or of categories numbers of names; records without a value are left out.
        estimates: the same by attack.
        per_feature: how many units one unit of the feature is; 1 for categories.
    """

    answer: ColumnAnswer
    names: tuple[str, ...]
    unit: str
    truth: FloatArray
    estimates: dict[str, FloatArray]
    per_feature: float = 1.0

    @property
    def is_category(self) -> bool:
        """Whether it is judged by how often its values are named right."""
        return bool(self.names)

    @property
    def is_date(self) -> bool:
        """Whether its numbers are days."""
        return self.answer.kind == "date" and self.unit == ""

    def error(self, estimate: FloatArray) -> float:
        """How far (n,) estimates are off: root mean square in the column's units, or the share that is named wrong."""
        if self.is_category:
            return float((estimate != self.truth).mean()) if len(self.truth) else float("nan")
        return float(np.sqrt(((estimate - self.truth) ** 2).mean())) if len(self.truth) else float("nan")

    def loss_in_units(self, loss: float) -> float:
        """A verdict's mean loss as an error: of categories it is the share named wrong already."""
        return loss if self.is_category else float(np.sqrt(max(0.0, loss))) * self.per_feature

    def sample(self, most: int) -> IntArray:
        """Numbers of ``most`` records at most, the same for the same column."""
        count = len(self.truth)
        chosen = np.random.default_rng(0).permutation(count)[:most]
        return np.sort(chosen)


def day_words(days: float) -> str:
    """The date of a number of days since 1970."""
    ordinal = _EPOCH + round(days)
    return (date(1970, 1, 1) + timedelta(days=round(days))).isoformat() if _FIRST_DAY <= ordinal <= _LAST_DAY else "-"


def read_evidence(folder: RunFolder, columns: Sequence[ColumnAnswer], parties: Sequence[str]) -> list[ColumnEvidence]:
    """Read what is true of each column and what attacks estimated of it; nothing where no attack wrote estimates.

    Args:
        folder: what the parties of a run wrote.
        columns: verdicts, whose features are numbered through all passive parties.
        parties: names of the passive parties, in the agreement's order.

    Raises:
        RunFolderError: when a file is missing or broken.
    """
    if not columns or not folder.prediction_outcomes():
        return []
    estimates = folder.estimates(0)
    features = [folder.features(party) for party in parties]
    passive = np.hstack([one.features for one in features])[estimates.rows]
    described = _Described.of(features)
    return [_column(column, passive, estimates, described) for column in columns]


@dataclass(frozen=True, eq=False)
class _Described:
    """What the parties say of their features, side by side; older runs say names only."""

    names: list[str]
    kinds: list[str]
    offsets: FloatArray
    scales: FloatArray

    @classmethod
    def of(cls, features: Sequence[PartyFeatures]) -> "_Described":
        return cls(
            [str(name) for one in features for name in one.names],
            [
                str(kind)
                for one in features
                for kind in (["number"] * len(one.names) if one.kinds is None else one.kinds)
            ],
            np.concatenate([np.zeros(len(one.names)) if one.offsets is None else one.offsets for one in features]),
            np.concatenate([np.full(len(one.names), np.nan) if one.scales is None else one.scales for one in features]),
        )

    def has_unit(self, feature: int) -> bool:
        return bool(np.isfinite(self.scales[feature]))

    def in_units(self, feature: int, values: FloatArray) -> FloatArray:
        scaled: FloatArray = self.offsets[feature] + self.scales[feature] * values
        return scaled if self.has_unit(feature) else values


def _column(column: ColumnAnswer, passive: FloatArray, estimates: Estimates, described: _Described) -> ColumnEvidence:
    values = [feature for feature in column.features if described.kinds[feature] != "missing"] or list(column.features)
    is_there = _is_there(column, passive, described)
    cells = {name: array for name, array in estimates.by_attack.items() if array.shape == passive.shape}
    if column.kind == "category" or len(values) > 1:
        names = tuple(_value_name(described.names[feature], column.column) for feature in values)
        if len(values) == 1:
            names = (f"not {names[0]}", names[0])
        numbered = {name: _numbers_of(array, values, described)[is_there] for name, array in cells.items()}
        return ColumnEvidence(column, names, "", _numbers_of(passive, values, described)[is_there], numbered)
    (feature,) = values
    return ColumnEvidence(
        column,
        (),
        "" if described.has_unit(feature) else "on its encoded scale",
        described.in_units(feature, passive[is_there, feature]),
        {name: described.in_units(feature, array[is_there, feature]) for name, array in cells.items()},
        float(abs(described.scales[feature])) if described.has_unit(feature) else 1.0,
    )


def _is_there(column: ColumnAnswer, passive: FloatArray, described: _Described) -> BoolArray:
    """Which records have a value of their own in the column: others were filled in by the owner."""
    gaps = [feature for feature in column.features if described.kinds[feature] == "missing"]
    present = np.ones(len(passive), dtype=bool)
    for feature in gaps if len(gaps) < len(column.features) else []:
        present &= described.in_units(feature, passive[:, feature]) < 0.5
    return present


def _numbers_of(cells: FloatArray, values: Sequence[int], described: _Described) -> FloatArray:
    """Which value each of (n, d) cells' records names: the largest feature's, or of a single one yes or no."""
    own = np.column_stack([described.in_units(feature, cells[:, feature]) for feature in values])
    named = own[:, 0] >= 0.5 if len(values) == 1 else own.argmax(axis=1)
    return named.astype(np.float64)


def _value_name(feature: str, column: str) -> str:
    """What a category's feature is called by who knows the column."""
    return feature.removeprefix(f"{column}=")
