"""Truth and estimates of each column, in the units of its owner's table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plumbline.charts.axes import number_words
from plumbline.judge.answer import ColumnAnswer
from plumbline.judge.columns import Category, Source
from plumbline.judge.predictions import Truth
from services.common.run_folder import RunFolder
from services.common.run_records import PartyFeatures
from vfl.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class ColumnEvidence:
    """What is true of one column in the judged records, and what attacks made of it.

    Attributes:
        answer: the verdict on the column.
        names: of its values, for categories; empty for numbers and dates.
        unit: what its numbers count: empty for the column's own, ``days since 1970`` or ``on its encoded scale``.
        truth: (n,) values, or of categories numbers of names; records without a value are left out.
        estimates: the same by attack.
        absent: number of records without a value.
        per_feature: how many units one unit of the feature is; 1 for categories.
    """

    answer: ColumnAnswer
    names: tuple[str, ...]
    unit: str
    truth: FloatArray
    estimates: dict[str, FloatArray]
    absent: int = 0
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


def read_evidence(folder: RunFolder, columns: Sequence[ColumnAnswer], parties: Sequence[str]) -> list[ColumnEvidence]:
    """Read what is true of each column and what attacks estimated of it; nothing where no attack wrote estimates.

    Args:
        folder: what the parties of a run wrote.
        columns: verdicts on columns of the passive parties' tables.
        parties: names of the passive parties, in the agreement's order.

    Raises:
        RunFolderError: when a file is missing or broken.
    """
    if not columns or not folder.prediction_outcomes():
        return []
    estimates = folder.estimates(0)
    truth = Truth(folder, parties, estimates)
    reader = _Reader(truth, _Units.of([folder.features(party) for party in parties]), estimates.by_attack)
    sources = {(one.party, one.name): one for one in truth.sources}
    return [reader.column(column, sources[column.party, column.column]) for column in columns]


@dataclass(frozen=True, eq=False)
class _Units:
    """Offset and scale of every passive feature, NaN where it has no unit; older runs say none."""

    offsets: FloatArray
    scales: FloatArray

    @classmethod
    def of(cls, features: Sequence[PartyFeatures]) -> "_Units":
        return cls(
            np.concatenate([np.zeros(len(one.names)) if one.offsets is None else one.offsets for one in features]),
            np.concatenate([np.full(len(one.names), np.nan) if one.scales is None else one.scales for one in features]),
        )

    def known(self, feature: int) -> bool:
        return bool(np.isfinite(self.scales[feature]))

    def of_values(self, feature: int, values: FloatArray) -> FloatArray:
        scaled: FloatArray = self.offsets[feature] + self.scales[feature] * values
        return scaled if self.known(feature) else values


@dataclass(frozen=True, eq=False)
class _Reader:
    """Reads columns from the attacked records' cells."""

    truth: Truth
    units: _Units
    estimates: Mapping[str, FloatArray]

    def column(self, answer: ColumnAnswer, source: Source) -> ColumnEvidence:
        there = self._is_there(source)
        absent = int((~there).sum())
        if source.category is not None:
            named = {name: source.category.symbols(array)[there] for name, array in self.estimates.items()}
            return ColumnEvidence(
                answer,
                self._value_names(source, source.category),
                "",
                source.category.symbols(self.truth.cells)[there].astype(np.float64),
                {name: numbers.astype(np.float64) for name, numbers in named.items()},
                absent,
            )
        feature, units = source.value, self.units
        return ColumnEvidence(
            answer,
            (),
            "" if units.known(feature) else "on its encoded scale",
            units.of_values(feature, self.truth.cells[there, feature]),
            {name: units.of_values(feature, array[there, feature]) for name, array in self.estimates.items()},
            absent,
            float(abs(units.scales[feature])) if units.known(feature) else 1.0,
        )

    def _is_there(self, source: Source) -> BoolArray:
        """Which records have a value of their own in the column: others were filled in by the owner."""
        if source.missing is None:
            return np.ones(len(self.truth.cells), dtype=bool)
        there: BoolArray = source.missing.symbols(self.truth.cells) == 0
        return there

    def _value_names(self, source: Source, category: Category) -> tuple[str, ...]:
        """What a category's values are called by who knows the column."""
        named = [self.truth.names[feature].removeprefix(f"{source.name}=") for feature in category.columns]
        if len(named) > 1:
            return (*named, "none of these") if category.is_open else tuple(named)
        if source.kind == "category" and named[0] != source.name:
            return (f"not {named[0]}", named[0])
        values = self.units.of_values(source.value, category.values[:, 0])
        return tuple(number_words(float(value)) for value in values)
