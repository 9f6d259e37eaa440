"""Columns of few values and one-hot groups: how often a guess names the right value, with scores and without."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plumbline.judge.baselines import Predictor
from plumbline.judge.federation_part import Losses
from plumbline.judge.measures import is_discrete
from vfl.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Category:
    """What takes few values: one column, or the columns of a one-hot encoded feature.

    Attributes:
        columns: (c,) which columns; one, or those of the group.
        values: (v, c) the values that they take, rows in order.
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
        return len(self.values) + self.is_open - self.has_nameless

    def can_be_named(self, symbols: IntArray) -> BoolArray:
        """Which of these numbers of values mean one value, (n,)."""
        return symbols > 0 if self.has_nameless else np.ones(len(symbols), dtype=bool)

    def is_wrong(self, named: IntArray | int, symbols: IntArray) -> FloatArray:
        """1 for each of (n,) true numbers of values that is named otherwise or has no name, else 0."""
        return ((named != symbols) | ~self.can_be_named(symbols)).astype(np.float64)

    def symbols(self, cells: FloatArray) -> IntArray:
        """Number of the nearest value for each of (n, d) cells' records, (n,); of a group, the largest column's."""
        if len(self.columns) == 1:
            return _nearest(self.values[:, 0], cells[:, self.columns[0]])
        indicators = cells[:, self.columns] / self.values.max(axis=0)  # each 1 as large as the others
        if self.is_open:  # what the others leave
            indicators = np.column_stack([indicators, 1 - indicators.sum(axis=1)])
        largest: IntArray = indicators.argmax(axis=1)
        return largest


def values_of(features: FloatArray, column: int, *, has_nameless: bool = False) -> Category:
    """The category of the values that one of (n, d) columns takes."""
    return Category(np.array([column]), np.unique(features[:, column])[:, None], has_nameless=has_nameless)


def indicators_of(features: FloatArray, columns: IntArray) -> Category:
    """The category whose one-hot features are these of (n, d) columns, in whatever unit a 1 is encoded; 0 is none."""
    there = features[:, columns] > 0
    total, count = features[:, columns].sum(axis=0, where=there), there.sum(axis=0)
    # A category that no record has is as large as any.
    ones: FloatArray = np.divide(total, count, out=np.ones(len(columns)), where=count > 0)
    if len(columns) == 1:
        return Category(columns, np.array([[0.0], ones]))
    return Category(columns, np.diag(ones), is_open=bool((~there).all(axis=1).any()))


def find_categories(features: FloatArray, owners: Sequence[str]) -> list[Category]:
    """Find what takes few values in (n, d) columns; ``owners``: the party of each, as no group is shared by two.

    A one-hot group is a run of columns of 0 and 1, exactly one of which is 1 in every record.
    """
    whole = [Category(group, np.eye(len(group))) for group in _one_hot_groups(features, owners)]
    return sorted([*whole, *few_valued(features, whole)], key=lambda one: int(one.columns[0]))


def few_valued(features: FloatArray, whole: Sequence[Category]) -> list[Category]:
    """Find single columns of (n, d) that take few values, but more than one, and are of no category yet."""
    grouped = {int(column) for one in whole for column in one.columns}
    return [
        Category(np.array([column]), np.unique(features[:, column])[:, None])
        for column in range(features.shape[1])
        if column not in grouped and is_discrete(features[:, column]) and np.ptp(features[:, column]) > 0
    ]


def wrong_losses(truth: FloatArray, predictors: Sequence[Predictor], categories: Sequence[Category]) -> list[Losses]:
    """1 where predictors of (n, d) cells name another value than the true one, else 0: (n, categories)."""
    symbols = [one.symbols(truth) for one in categories]
    return [
        Losses(
            predictor.name,
            predictor.level,
            _columns(
                [
                    one.is_wrong(one.symbols(predictor.estimate), true)
                    for one, true in zip(categories, symbols, strict=True)
                ]
            ),
        )
        for predictor in predictors
    ]


def prior_losses(truth: FloatArray, categories: Sequence[Category]) -> list[Losses]:
    """What naming a value costs without scores: any value alike, and the most frequent one for who knows frequencies.

    The most frequent is that of the judged (n, d) cells themselves: no other constant is right as often.
    """
    blind, modes = [], []
    for one in categories:
        symbols = one.symbols(truth)
        blind.append(np.where(one.can_be_named(symbols), 1 - 1 / max(one.count, 1), 1.0))
        named = symbols[one.can_be_named(symbols)]
        modes.append(one.is_wrong(int(np.bincount(named).argmax()) if len(named) else -1, symbols))
    return [
        Losses("any value", "nothing", _columns(blind)),
        Losses("the most frequent value", "marginals", _columns(modes)),
    ]


def _columns(parts: Sequence[FloatArray]) -> FloatArray:
    return np.column_stack(parts) if parts else np.empty((0, 0))


def _nearest(values: FloatArray, cells: FloatArray) -> IntArray:
    """Number of the nearest of values in rising order; the lower of two as near."""
    middles = (values[1:] + values[:-1]) / 2
    return np.searchsorted(middles, cells, side="left")


def _one_hot_groups(features: FloatArray, owners: Sequence[str]) -> list[IntArray]:
    binary = ((features == 0) | (features == 1)).all(axis=0) & (np.ptp(features, axis=0) > 0)
    groups, start = list[IntArray](), 0
    while start < features.shape[1]:
        end = _end_of_group(features, binary, owners, start)
        if end:
            groups.append(np.arange(start, end))
        start = end or start + 1
    return groups


def _end_of_group(features: FloatArray, binary: BoolArray, owners: Sequence[str], start: int) -> int:
    """Where the one-hot group that begins here ends; 0 if none does."""
    total = np.zeros(len(features))
    for column in range(start, features.shape[1]):
        if not binary[column] or owners[column] != owners[start]:
            return 0
        total += features[:, column]
        if total.max() > 1:
            return 0
        if column > start and total.min() == 1:
            return column + 1
    return 0
