"""Estimates of the same cells with scores and without, beside the truth, and the verdicts on columns that follow.

Guesses without a score are constants, imputations from complete records, and attacks whose scores are withheld.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

import attacks
from attacks import AuxiliaryRows, Level, PassiveMoments, PredictionView, reconstruct
from attacks.registry import FROM_RECORDS, LEARNED
from plumbline.judge.clusters import Clusters
from plumbline.judge.columns import READ, TOLERANCE, Category, LogScale, Source, SourceKind
from plumbline.judge.federation_part import (
    HEADLINE,
    Comparison,
    Judged,
    LevelVerdict,
    Losses,
    at,
    beside_each_other,
    choose_and_judge,
)
from plumbline.judge.measures import misses, squared_errors
from vfl.arrays import FloatArray, IntArray
from vfl.data.columns import ColumnRole

# How many complete records an adversary holds, as far as an audit declares so many.
IMPUTATION_RECORDS = (30, 100, 1_000)
# What can be guessed of a column whose public range is [0, 1].
_PUBLIC = {"guessing 0": 0.0, "guessing 1/2": 0.5, "guessing 1": 1.0}
# Values to which this much of floating point's noise is no difference.
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Predictor:
    """What one adversary takes every judged cell for.

    Attributes:
        name: of the attack, or of the guess without scores.
        level: what its adversary knows beforehand.
        estimate: (n, d), on the columns' encoded scale; its errors are judged.
        densest: (n, d), where each cell most likely is; its hits and names are judged; None for the estimate.
    """

    name: str
    level: Level
    estimate: FloatArray
    densest: FloatArray | None = None

    def of_records(self, rows: IntArray) -> "Predictor":
        """Take the same guess of some of the records."""
        densest = None if self.densest is None else self.densest[rows]
        return Predictor(self.name, self.level, self.estimate[rows], densest)


def imputations(
    view: PredictionView, groups: tuple[IntArray, ...] = (), counts: Sequence[int] = IMPUTATION_RECORDS
) -> list[Predictor]:
    """Predict the passive columns from what the active party owns, with 30, 100 and 1,000 of its complete records.

    Where it holds fewer, all of them are taken once; where it holds none, nothing is predicted.

    Args:
        view: of the judged records; no score in it is looked at.
        groups: which passive columns are the one-hot features of one category, exactly one of which is 1.
        counts: other numbers of records to learn from, beside all of them.
    """
    if view.auxiliary is None:
        return []
    available = len(view.auxiliary.features_passive)
    sizes = sorted({count for count in counts if count <= available} | ({available} if available else set()))
    with threadpool_limits(1):  # hundreds of small fits, which several threads only keep each other from
        return [found for count in sizes for found in _from_records(view, view.auxiliary, count, groups)]


def _from_records(
    view: PredictionView, auxiliary: AuxiliaryRows, count: int, groups: tuple[IntArray, ...]
) -> Iterator[Predictor]:
    passive = auxiliary.features_passive[:count]
    labels = None if auxiliary.labels is None else auxiliary.labels[:count]
    without_scores = PredictionView(
        features_active=view.features_active,
        record_labels=view.record_labels,
        passive_features=passive.shape[1],
        moments=PassiveMoments(passive.mean(axis=0), passive.var(axis=0), groups=groups),
        auxiliary=AuxiliaryRows(auxiliary.features_active[:count], passive, np.empty((count, 0)), labels),
    )
    for name, imputation in (
        (FROM_RECORDS, reconstruct(attacks.load_prediction(FROM_RECORDS), without_scores)),
        (LEARNED, attacks.load(LEARNED).guess(without_scores)),
    ):
        yield Predictor(f"{name} from {count:,} records", "records", imputation.estimate, imputation.densest)


def squared_losses(truth: FloatArray, predictors: Sequence[Predictor]) -> list[Losses]:
    """Square the errors of predictors of (n, d) cells."""
    return [Losses(one.name, one.level, squared_errors(truth, one.estimate)) for one in predictors]


def missing_losses(truth: FloatArray, predictors: Sequence[Predictor], tolerance: FloatArray) -> list[Losses]:
    """1 where predictors of (n, d) cells are off by more than their column's (d,) tolerance, else 0."""
    hits = [one.estimate if one.densest is None else one.densest for one in predictors]
    return [
        Losses(one.name, one.level, misses(truth, hit, tolerance)) for one, hit in zip(predictors, hits, strict=True)
    ]


def wrong_losses(truth: FloatArray, predictors: Sequence[Predictor], categories: Sequence[Category]) -> list[Losses]:
    """1 where predictors of (n, d) cells name another value than the true one, else 0: (n, categories).

    A column's value is named by the densest place, a group's by the largest estimate.
    """
    truths = [(one, one.symbols(truth)) for one in categories]

    def wrong(guess: Predictor) -> FloatArray:
        hits = guess.estimate if guess.densest is None else guess.densest
        named = [one.symbols(hits if len(one.columns) == 1 else guess.estimate) for one, _ in truths]
        return _columns([one.is_wrong(name, true) for (one, true), name in zip(truths, named, strict=True)])

    return [Losses(one.name, one.level, wrong(one)) for one in predictors]


def prior_losses(
    truth: FloatArray, categories: Sequence[Category], reference: FloatArray | None = None
) -> list[Losses]:
    """Measure naming a value without scores: any value alike, and the most frequent one for who knows frequencies.

    The most frequent is that of ``reference`` cells; by default of the judged (n, d) cells themselves.
    """
    blind, modes = [], []
    for category in categories:
        symbols, reference_symbols = (
            category.symbols(truth),
            category.symbols(truth if reference is None else reference),
        )
        blind.append(np.where(category.can_be_named(symbols), 1 - 1 / max(category.count, 1), 1.0))
        named = reference_symbols[category.can_be_named(reference_symbols)]
        modes.append(category.is_wrong(int(np.bincount(named).argmax()) if len(named) else -1, symbols))
    return [
        Losses("any value", "nothing", _columns(blind)),
        Losses("the most frequent value", "marginals", _columns(modes)),
    ]


def _columns(parts: Sequence[FloatArray]) -> FloatArray:
    return np.column_stack(parts) if parts else np.empty((0, 0))


def constants(cells: FloatArray, records: int | None = None) -> list[Predictor]:
    """Guess one value for all records: what public ranges suggest and, for who knows marginals, each column's mean.

    Args:
        cells: (n, d) cells whose mean it is: no other constant has a smaller squared error on them.
        records: how many records are guessed; as many as are known by default.
    """
    shape = (len(cells) if records is None else records, cells.shape[1])
    public = [Predictor(name, "nothing", np.full(shape, value)) for name, value in _PUBLIC.items()]
    return [*public, Predictor("its mean", "marginals", np.broadcast_to(cells.mean(axis=0), shape))]


def densest_constants(cells: FloatArray, tolerance: FloatArray, records: int | None = None) -> list[Predictor]:
    """Guess one value for all records, to be within a (d,) tolerance: public ranges, the mean, the densest place.

    Args:
        cells: (n, d) cells whose densest place it is: no other constant is within tolerance of as many of them.
        tolerance: (d,).
        records: how many records are guessed; as many as are known by default.
    """
    places = [_densest(column, width) for column, width in zip(cells.T, tolerance, strict=True)]
    predictors = constants(cells, records)
    densest = np.broadcast_to(np.array(places), predictors[0].estimate.shape)
    return [*predictors, Predictor("its densest place", "marginals", densest)]


def _densest(column: FloatArray, tolerance: float) -> float:
    """Find the middle of the interval of width 2 tolerance that holds most of a column's values."""
    ordered = np.sort(column)
    counts = np.searchsorted(ordered, ordered + 2 * tolerance + _SAME, side="right") - np.arange(len(ordered))
    return float(ordered[counts.argmax()] + tolerance)


@dataclass(frozen=True)
class ColumnVerdict:
    """What a federation gives away of one passive column, at each level of what its adversary knows beforehand.

    Attributes:
        party: name of the column's owner.
        column: name of the column.
        squared: on squared errors, level by level, ``nothing`` first.
        misses: on cells that are off by more than what counts as known, 5 % of the usual range or near it, likewise.
        one_session: as ``squared``, without attacks that read several sessions; empty where there are none.
        read: on cells that aren't read nearly exactly, off by a tenth of what counts as known at most, level by level.
    """

    party: str
    column: str
    squared: tuple[LevelVerdict, ...]
    misses: tuple[LevelVerdict, ...]
    one_session: tuple[LevelVerdict, ...] = ()
    read: tuple[LevelVerdict, ...] = ()


@dataclass(frozen=True)
class JudgedFeatures:
    """What a federation gives away of each passive feature, before anything is corrected for being many.

    Attributes:
        squared: on squared errors.
        misses: on cells that are off by more than what counts as known.
        read: on cells that aren't read nearly exactly.
        logs: on squared errors on a log scale, by number of the feature; of skewed ones only.
    """

    squared: Sequence[Judged]
    misses: Sequence[Judged]
    read: Sequence[Judged]
    logs: Mapping[int, Judged]


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


@dataclass(frozen=True, kw_only=True)
class ColumnLevels:
    """What a federation gives away of one column of a passive party's own table, level by level.

    Attributes:
        party: name of the owner.
        column: name of the column.
        kind: what it is judged as: numbers and dates by squared errors, codes and categories by wrong names.
        features: which of the passive features are of it; the parties' stand in the agreement's order.
        levels: the federation's part by what the adversary knows beforehand, ``nothing`` first.
        known: shares of records that aren't known, likewise: ``e0`` by a guess, ``error`` by the best attack.
        known_as: what counts as known: ``within 5``, ``within 30 days``, ``guessed right``.
        read: as ``known``, of what is read nearly exactly; empty for what is named.
        logs: as ``levels``, on a log scale of the public range; of skewed numbers only.
        unit: how many of the table's units a unit of the errors' roots is; None where there are none, and of names.
        one_session: as ``levels``, without attacks that read several sessions; empty where there are none.
        role: what the column's owner says of it; of a public one every guess knows the values.
        headline: the level that its light and its sentence are of.
    """

    party: str
    column: str
    kind: SourceKind
    features: tuple[int, ...]
    levels: tuple[LevelVerdict, ...]
    known: tuple[LevelVerdict, ...] = ()
    known_as: str = ""
    read: tuple[LevelVerdict, ...] = ()
    logs: tuple[LevelVerdict, ...] = ()
    unit: float | None = None
    one_session: tuple[LevelVerdict, ...] = ()
    role: ColumnRole = ""
    headline: Level = HEADLINE

    @property
    def measures(self) -> tuple[tuple[LevelVerdict, ...], ...]:
        """What its light rests on: means or names, of numbers persons besides, and of skewed ones means of logs."""
        return tuple(one for one in (self.levels, self.logs, self.read) if one)

    def is_exposed(self, level: Level | None = None) -> bool:
        """Tell whether something of it was given away to who knows just so much beforehand, by default the headline."""
        return any(at(one, level or self.headline).is_exposed for one in self.measures)


@dataclass(frozen=True, kw_only=True)
class SourceVerdict(ColumnLevels):
    """The verdict on one column of a passive party's own table.

    Attributes:
        missing: of a number, on records of which it is named wrongly whether it is there; empty elsewhere.
    """

    missing: tuple[LevelVerdict, ...] = ()

    @classmethod
    def of(cls, source: Source, measures: Mapping["Measure", Judged]) -> "SourceVerdict":
        """Say what was found of a source.

        Args:
            source: the column.
            measures: what was found by each measure that it is judged by.
        """
        levels: dict[str, Any] = {name: one.levels for name, one in measures.items()}
        return cls(
            party=source.party,
            column=source.name,
            kind=source.kind,
            features=tuple(sorted(map(int, source.features))),
            known_as=source.known_as,
            unit=source.unit if np.isfinite(source.unit) else None,
            one_session=measures["levels"].one_session,
            role=source.role,
            **levels,
        )


# What a source is judged by, and what its light rests on of that.
Measure = Literal["levels", "known", "read", "logs", "missing"]
_LIGHTS: tuple[Measure, ...] = ("levels", "read", "logs", "missing")


# A column of a passive party's own table, and what was found by each measure that it is judged by.
JudgedSource = tuple[Source, Mapping[Measure, Judged]]


def judged_source(
    source: Source, features: JudgedFeatures, named: Judged | None, missing: Judged | None
) -> JudgedSource:
    """Choose what a source is judged by.

    Args:
        source: the column.
        features: what was found of the features.
        named: how often its values are named wrongly; None for what isn't named.
        missing: the same of whether it is there.
    """
    if named is not None:
        measures: dict[Measure, Judged] = {"levels": named, "known": named}
    else:
        value = source.value
        measures = {"levels": features.squared[value], "known": features.misses[value], "read": features.read[value]}
        if value in features.logs:
            measures["logs"] = features.logs[value]
    return source, measures if missing is None else {**measures, "missing": missing}


def verdicts_of(judged_sources: Sequence[JudgedSource]) -> tuple[SourceVerdict, ...]:
    """Correct all that lights of an audit's columns rest on for being so many tests, and say what was found of each."""
    tested = [
        ((source.party, source.name, name), measures[name])
        for source, measures in judged_sources
        for name in _LIGHTS
        if name in measures
    ]
    corrections = iter(beside_each_other(tested))
    return tuple(
        SourceVerdict.of(source, {**measures, **{name: next(corrections) for name in _LIGHTS if name in measures}})
        for source, measures in judged_sources
    )


def no_less_than(more: SourceVerdict, less: SourceVerdict) -> SourceVerdict:
    """Choose the verdict on a column by ``more`` attacks, or by ``less`` of them where only that shows a leak.

    Where a worse one was chosen among more of them the part may be smaller, and who could mount all may mount fewer.
    """
    changed: dict[str, Any] = {
        name: tuple(
            other if other.is_exposed and not one.is_exposed else one
            for one, other in zip(getattr(more, name), getattr(less, name), strict=True)
        )
        for name in _LIGHTS
    }
    return replace(more, **changed)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Estimates of the same cells, with and without scores, beside the truth.

    Constants are always among those without: nobody can forget them.

    Attributes:
        truth: (n, d) passive cells, on their encoded scale.
        attacks: estimates that scores entered.
        score_free: estimates that no score entered: imputations, attacks with their scores withheld, other guesses.
        tolerance: (d,), how far off a cell may be and still count as known.
        near: (d,), how far off it may be and still count as read nearly exactly.
        of_sessions: names of the attacks that read several sessions.
        persons: whose the records are; each person judges once.
        logs: of skewed columns, by number, the scale on which they are judged besides.
        known: how many complete records adversaries of the level ``records`` had; None for none.
    """

    truth: FloatArray
    attacks: tuple[Predictor, ...]
    score_free: tuple[Predictor, ...]
    tolerance: FloatArray
    near: FloatArray
    persons: Clusters
    of_sessions: frozenset[str] = frozenset()
    logs: Mapping[int, LogScale] = field(default_factory=dict)
    known: int | None = None

    @classmethod
    def of(
        cls,
        truth: FloatArray,
        attacks: Sequence[Predictor],
        score_free: Sequence[Predictor],
        *,
        tolerance: FloatArray | None = None,
        near: FloatArray | None = None,
        persons: Clusters | None = None,
    ) -> "Evidence":
        """Gather estimates.

        Args:
            truth: (n, d) passive cells.
            attacks: estimates that scores entered.
            score_free: estimates that no score entered.
            tolerance: (d,), 5 % of the range that min-max encoding makes by default.
            near: (d,), a tenth of the tolerance by default.
            persons: whose the records are, each another one's by default.
        """
        width = np.full(truth.shape[1], TOLERANCE) if tolerance is None else tolerance
        exact = READ * width if near is None else near
        whose = Clusters.alone(len(truth)) if persons is None else persons
        return cls(truth, tuple(attacks), tuple(score_free), width, exact, whose)

    def compared(self) -> Comparison:
        """Squared errors on all records, each attack by itself."""
        return Comparison(*self._squared())

    def judged(self) -> JudgedFeatures:
        """Judge every feature by the best attack of each level."""
        within, near_misses = (
            choose_and_judge(*self._missing(width), is_tested=is_tested, record_count=self.known)
            for width, is_tested in ((self.tolerance, False), (self.near, True))
        )
        squared = choose_and_judge(*self._squared(), of_sessions=self.of_sessions, record_count=self.known)
        logs = choose_and_judge(*self._logarithmic(), record_count=self.known) if self.logs else []
        return JudgedFeatures(squared, within, near_misses, dict(zip(self.logs, logs, strict=True)))

    def column_verdicts(
        self, names: Sequence[str], owners: Sequence[str], features: JudgedFeatures | None = None
    ) -> tuple[ColumnVerdict, ...]:
        """Give the verdict on every feature.

        Args:
            names: of the features.
            owners: of the features' parties.
            features: what was found of them; by default they are judged.
        """
        judgements = self.judged() if features is None else features
        numbered = [(key, one) for some in (judgements.squared, judgements.read) for key, one in enumerate(some)]
        tested = beside_each_other([((at < len(names), key), one) for at, (key, one) in enumerate(numbered)])
        return tuple(
            ColumnVerdict(owner, name, square.levels, known.levels, square.one_session, near.levels)
            for owner, name, square, known, near in zip(
                owners, names, tested[: len(names)], judgements.misses, tested[len(names) :], strict=True
            )
        )

    def wrong_names(self, categories: Sequence[Category]) -> list[Judged]:
        """Judge every category likewise, by how often another value than the true one is named."""
        if not categories:
            return []
        return choose_and_judge(*self._wrong(categories), of_sessions=self.of_sessions, record_count=self.known)

    def _squared(self) -> tuple[list[Losses], list[Losses]]:
        """Squared errors of attacks and of guesses without scores."""
        guesses = [*constants(self.truth), *self.score_free]
        return self._summed(squared_losses(self.truth, self.attacks), squared_losses(self.truth, guesses))

    def _logarithmic(self) -> tuple[list[Losses], list[Losses]]:
        """Squared errors of the skewed columns on their log scales, likewise."""

        def scaled(cells: FloatArray) -> FloatArray:
            return np.column_stack([scale.of(cells[:, column]) for column, scale in self.logs.items()])

        truth, attacks, guesses = (
            scaled(self.truth),
            *(
                [replace(one, estimate=scaled(one.estimate), densest=None) for one in some]
                for some in (self.attacks, self.score_free)
            ),
        )
        return self._summed(squared_losses(truth, attacks), squared_losses(truth, [*constants(truth), *guesses]))

    def _missing(self, tolerance: FloatArray) -> tuple[list[Losses], list[Losses]]:
        """1 where a cell is off by more than its column's (d,) tolerance, likewise."""
        guesses = [*densest_constants(self.truth, tolerance), *self.score_free]
        return self._summed(*(missing_losses(self.truth, some, tolerance) for some in (self.attacks, guesses)))

    def _wrong(self, categories: Sequence[Category]) -> tuple[list[Losses], list[Losses]]:
        """1 where another value than the true one is named, likewise."""
        guesses = [*constants(self.truth), *self.score_free]
        named = [*prior_losses(self.truth, categories), *wrong_losses(self.truth, guesses, categories)]
        return self._summed(wrong_losses(self.truth, self.attacks, categories), named)

    def _summed(self, attacks: Sequence[Losses], guesses: Sequence[Losses]) -> tuple[list[Losses], list[Losses]]:
        """Add up what each person's records lose."""
        sums = ([replace(one, values=self.persons.summed(one.values)) for one in some] for some in (attacks, guesses))
        return next(sums), next(sums)
