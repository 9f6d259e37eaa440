"""Verdicts on columns and categories: what the best attack of each level adds to the best guess without scores."""

from collections.abc import Collection, Sequence
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
from plumbline.judge.federation_part import Comparison, Judged, LevelVerdict, Losses, choose_and_judge
from plumbline.judge.sources import TOLERANCE, Source, SourceKind
from vfl.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class ColumnVerdict:
    """What a federation gives away of one passive column, at each level of what its adversary knows beforehand.

    Attributes:
        party: name of the column's owner.
        column: name of the column.
        squared: on squared errors, level by level, ``nothing`` first.
        misses: on cells that are off by more than what counts as known, 5 % of the range or near it, likewise.
        one_session: as ``squared``, without attacks that read several sessions; empty where there are none.
    """

    party: str
    column: str
    squared: tuple[LevelVerdict, ...]
    misses: tuple[LevelVerdict, ...]
    one_session: tuple[LevelVerdict, ...] = ()


@dataclass(frozen=True)
class CategoryVerdict:
    """What a federation gives away of a column of few values, or of a one-hot encoded feature.

    Attributes:
        party: name of the owner.
        columns: names of its features, one or those of the group.
        values: how many values it takes.
        wrong: on records for which another value is named, level by level.
    """

    party: str
    columns: tuple[str, ...]
    values: int
    wrong: tuple[LevelVerdict, ...]


@dataclass(frozen=True)
class SourceVerdict:
    """What a federation gives away of one column of a passive party's own table.

    Attributes:
        party: name of the owner.
        column: name of the column.
        kind: what it is judged as.
        features: which of the passive features are of it.
        levels: level by level, of numbers and dates on squared errors, of codes and categories on wrong names.
        known: on cells that aren't known, likewise.
        known_as: what counts as known: ``within 5``, ``guessed right``.
        missing: of a number, on records of which it is named wrongly whether it is there; empty elsewhere.
        one_session: as ``levels``, without attacks that read several sessions; empty where there are none.
    """

    party: str
    column: str
    kind: SourceKind
    features: tuple[int, ...]
    levels: tuple[LevelVerdict, ...]
    known: tuple[LevelVerdict, ...]
    known_as: str
    missing: tuple[LevelVerdict, ...] = ()
    one_session: tuple[LevelVerdict, ...] = ()

    @classmethod
    def of(cls, source: Source, column: ColumnVerdict, named: Judged | None, missing: Judged | None) -> "SourceVerdict":
        """Choose what a source is judged by.

        Args:
            source: the column.
            column: the verdict on the feature that stands for it.
            named: how often its values are named wrongly; None for what isn't named.
            missing: the same of whether it is there.
        """
        levels, known = (column.squared, column.misses) if named is None else (named.levels, named.levels)
        return cls(
            party=source.party,
            column=source.name,
            kind=source.kind,
            features=tuple(sorted(map(int, source.features))),
            levels=levels,
            known=known,
            known_as=source.known_as,
            missing=() if missing is None else missing.levels,
            one_session=column.one_session if named is None else named.one_session,
        )


@dataclass(frozen=True, eq=False)
class Evidence:
    """Estimates of the same cells, with and without scores, beside the truth.

    Constants are always among those without: nobody can forget them.

    Attributes:
        truth: (n, d) passive cells, on their encoded scale.
        attacks: estimates that scores entered.
        score_free: estimates that no score entered: imputations, attacks with their scores withheld, other guesses.
        tolerance: (d,), how far off a cell may be and still count as known.
        of_sessions: names of the attacks that read several sessions.
    """

    truth: FloatArray
    attacks: tuple[Predictor, ...]
    score_free: tuple[Predictor, ...]
    tolerance: FloatArray
    of_sessions: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        truth: FloatArray,
        attacks: Sequence[Predictor],
        score_free: Sequence[Predictor],
        *,
        tolerance: FloatArray | None = None,
        of_sessions: Collection[str] = (),
    ) -> "Evidence":
        """Gather estimates; ``tolerance``: (d,), 5 % of the range that min-max encoding makes by default."""
        width = np.full(truth.shape[1], TOLERANCE) if tolerance is None else tolerance
        return cls(truth, tuple(attacks), tuple(score_free), width, frozenset(of_sessions))

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
        squared = choose_and_judge(self.squared, count, generator=generator, of_sessions=self.of_sessions)
        missing = choose_and_judge(self.missing, count, generator=generator)
        return tuple(
            ColumnVerdict(owner, name, near.levels, missed.levels, near.one_session)
            for owner, name, near, missed in zip(owners, names, squared, missing, strict=True)
        )

    def wrong_names(self, categories: Sequence[Category], *, generator: np.random.Generator) -> list[Judged]:
        """Judge every category likewise, by how often another value than the true one is named."""
        if not categories:
            return []
        return choose_and_judge(
            lambda rows: self.wrong(rows, categories),
            len(self.truth),
            generator=generator,
            of_sessions=self.of_sessions,
        )

    def _of(self, rows: IntArray) -> tuple[FloatArray, list[Predictor], list[Predictor]]:
        return (
            self.truth[rows],
            [one.of_records(rows) for one in self.attacks],
            [one.of_records(rows) for one in self.score_free],
        )
