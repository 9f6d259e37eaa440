"""Verdicts on columns and categories: what the best attack of each level adds to the best guess without scores."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plumbline.judge.baselines import (
    Predictor,
    constants,
    densest_constants,
    missing_losses,
    squared_losses,
)
from plumbline.judge.categories import Category, prior_losses, wrong_losses
from plumbline.judge.federation_part import Comparison, LevelVerdict, Losses, choose_and_judge
from vfl.arrays import FloatArray, IntArray

# Cells count as known when an estimate is off by this part of their column's range at most.
TOLERANCE = 0.05


@dataclass(frozen=True)
class ColumnVerdict:
    """What a federation gives away of one passive column, at each level of what its adversary knows beforehand.

    Attributes:
        party: name of the column's owner.
        column: name of the column.
        squared: on squared errors, level by level, ``nothing`` first.
        misses: on cells that are off by more than ``TOLERANCE`` of the column's range, likewise.
    """

    party: str
    column: str
    squared: tuple[LevelVerdict, ...]
    misses: tuple[LevelVerdict, ...]


@dataclass(frozen=True)
class CategoryVerdict:
    """What a federation gives away of a column of few values, or of a one-hot encoded feature.

    Attributes:
        party: name of the owner.
        columns: names of its columns, one or those of the group.
        values: how many values it takes.
        wrong: on records for which another value is named, level by level.
    """

    party: str
    columns: tuple[str, ...]
    values: int
    wrong: tuple[LevelVerdict, ...]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Estimates of the same cells, with and without scores, beside the truth.

    Constants are always among those without: nobody can forget them.

    Attributes:
        truth: (n, d) passive cells, on their encoded scale.
        attacks: estimates that scores entered.
        score_free: estimates that no score entered: imputations, attacks with their scores withheld, other guesses.
        tolerance: (d,), how far off a cell may be and still count as known.
    """

    truth: FloatArray
    attacks: tuple[Predictor, ...]
    score_free: tuple[Predictor, ...]
    tolerance: FloatArray

    @classmethod
    def of(
        cls,
        truth: FloatArray,
        attacks: Sequence[Predictor],
        score_free: Sequence[Predictor],
        *,
        ranges: FloatArray | None = None,
    ) -> "Evidence":
        """Gather estimates; ``ranges``: (d,) of the columns, 1 by default, as min-max encoding makes them."""
        spread = np.ones(truth.shape[1]) if ranges is None else ranges
        return cls(truth, tuple(attacks), tuple(score_free), TOLERANCE * spread)

    def squared(self, rows: IntArray) -> tuple[list[Losses], list[Losses]]:
        """Squared errors on some records, of attacks and of guesses without scores."""
        truth, attacks, score_free = self._of(rows)
        return squared_losses(truth, attacks), squared_losses(truth, [*constants(truth), *score_free])

    def missing(self, rows: IntArray) -> tuple[list[Losses], list[Losses]]:
        """1 where a cell is off by more than the tolerance, on some records, likewise."""
        truth, attacks, score_free = self._of(rows)
        guesses = [*densest_constants(truth, self.tolerance), *score_free]
        return (
            missing_losses(truth, attacks, self.tolerance),
            missing_losses(truth, guesses, self.tolerance),
        )

    def wrong(self, rows: IntArray, categories: Sequence[Category]) -> tuple[list[Losses], list[Losses]]:
        """1 where another value than the true one is named, on some records, likewise."""
        truth, attacks, score_free = self._of(rows)
        guesses = [*constants(truth), *score_free]
        return (
            wrong_losses(truth, attacks, categories),
            [*prior_losses(truth, categories), *wrong_losses(truth, guesses, categories)],
        )

    def compared(self, *, generator: np.random.Generator) -> Comparison:
        """Squared errors on all records, each attack by itself."""
        return Comparison(*self.squared(np.arange(len(self.truth))), generator=generator)

    def column_verdicts(
        self, names: Sequence[str], owners: Sequence[str], *, generator: np.random.Generator
    ) -> tuple[ColumnVerdict, ...]:
        """Judge every column by the best attack of each level; ``names`` and ``owners``: of the columns and parties."""
        count = len(self.truth)
        squared = choose_and_judge(self.squared, count, generator=generator)
        missing = choose_and_judge(self.missing, count, generator=generator)
        return tuple(map(ColumnVerdict, owners, names, squared, missing))

    def category_verdicts(
        self,
        categories: Sequence[Category],
        names: Sequence[str],
        owners: Sequence[str],
        *,
        generator: np.random.Generator,
    ) -> tuple[CategoryVerdict, ...]:
        """Judge every category likewise; ``names`` and ``owners``: of all columns and their parties."""
        if not categories:
            return ()
        wrong = choose_and_judge(lambda rows: self.wrong(rows, categories), len(self.truth), generator=generator)
        return tuple(
            CategoryVerdict(
                owners[one.columns[0]], tuple(names[column] for column in one.columns), len(one.values), levels
            )
            for one, levels in zip(categories, wrong, strict=True)
        )

    def _of(self, rows: IntArray) -> tuple[FloatArray, list[Predictor], list[Predictor]]:
        return (
            self.truth[rows],
            [one.of_records(rows) for one in self.attacks],
            [one.of_records(rows) for one in self.score_free],
        )
