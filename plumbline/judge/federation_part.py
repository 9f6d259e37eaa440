"""The federation's part of a leak: how much less an attack errs than the same adversary does without any score.

Whatever is measured is a loss per record and column. e0 is the lowest mean loss of any guess that sees no score and
needs to know no more beforehand than a level allows; the part is max(0, 1 - e / e0) of an attack whose mean loss is e.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks import LEVELS, Level
from plumbline.judge.measures import Interval
from vfl.arrays import FloatArray, IntArray

# What a verdict in one sentence is measured at: means and frequencies are often published, records hardly ever.
HEADLINE: Level = "marginals"
# Where e0 is smaller, nothing is left that a federation could give away: who has no score is off by less than 1 % of
# the column's range (root mean square) already, and what an attack takes off that rests on one record or two.
FLOOR = 1e-4
RESAMPLES = 1000
# Of resampled counts that are held at once: 32 MB of them.
_MOST_COUNTS = 8_000_000
# A smaller share of what was unknown is rounding: resampled means are summed in single precision.
_ROUNDING = 1e-4
# Ends of a 95 % interval.
_ENDS = (0.025, 0.975)


@dataclass(frozen=True, eq=False)
class Losses:
    """What one way to guess costs, record by record.

    Attributes:
        name: of the attack, or of the guess without scores.
        level: what its adversary knows beforehand.
        values: (n, m), a loss per record and column, such as a squared error; 0 is right.
    """

    name: str
    level: Level
    values: FloatArray


@dataclass(frozen=True)
class LevelVerdict:
    """What one attack adds to the knowledge of an adversary of one level, in one column.

    Attributes:
        level: what the adversary knows beforehand, at most.
        baseline: name of the best guess without scores.
        e0: its mean loss.
        attack: name of the attack; empty where none of this level or a lower one saw scores.
        error: the attack's mean loss; None without an attack.
        part: the federation's part with its 95 % interval, in [0, 1]; None without an attack and where e0 is below
            ``FLOOR``.
        removed: e0 minus the attack's mean loss with its 95 % interval; below 0 where the attack is worse. None without
            an attack.
    """

    level: Level
    baseline: str
    e0: float
    attack: str = ""
    error: float | None = None
    part: Interval | None = None
    removed: Interval | None = None

    @property
    def is_exposed(self) -> bool:
        """Whether the federation gave something away beyond chance."""
        return self.part is not None and self.part.low > 0

    @property
    def is_closer(self) -> bool:
        """Whether an attack beats, beyond chance, a guess that is so near already that there is no part to speak of.

        Of a column with a few huge values, 1 % of the range may be all that most records differ by.
        """
        return self.part is None and self.removed is not None and self.removed.low > _ROUNDING * self.e0


def at(levels: Sequence[LevelVerdict], level: Level = HEADLINE) -> LevelVerdict:
    """The verdict of one level, the headline's by default."""
    return next(one for one in levels if one.level == level)


class Comparison:
    """Attacks against guesses without scores, on the same records, with a paired bootstrap over these.

    One matrix of counts resamples the records of all losses at once, so that differences keep what they have in common.
    """

    def __init__(
        self,
        attacks: Sequence[Losses],
        score_free: Sequence[Losses],
        *,
        generator: np.random.Generator,
        resamples: int = RESAMPLES,
    ) -> None:
        """Resample all losses.

        Args:
            attacks: losses of those that saw scores.
            score_free: losses of those that didn't; one of the level ``nothing`` at least.
            generator: draws the resamples.
            resamples: how many.

        Raises:
            ValueError: without a guess of the level ``nothing``, or for losses of different shapes.
        """
        self._attacks, self._score_free = tuple(attacks), tuple(score_free)
        if not any(one.level == "nothing" for one in self._score_free):
            raise ValueError("Give a guess that needs to know nothing, such as a constant: nothing to compare with.")
        everything = np.stack([one.values for one in (*self._attacks, *self._score_free)], axis=1)
        self._means = everything.mean(axis=0)
        self._resampled = _resampled_means(everything, generator, resamples)
        self._tables: dict[Level, LevelTable] = {}

    @property
    def score_free(self) -> tuple[tuple[str, Level], ...]:
        """Names and levels of the guesses without scores."""
        return tuple((one.name, one.level) for one in self._score_free)

    def mean_losses(self, name: str) -> tuple[Interval, list[Interval]]:
        """Mean loss of an attack or a guess with its 95 % interval: over all columns, and of each column.

        Raises KeyError for a name that isn't among them.
        """
        number = {one.name: number for number, one in enumerate((*self._attacks, *self._score_free))}[name]
        means, resampled = self._means[number], self._resampled[:, number]
        columns = [_interval(float(mean), ends) for mean, ends in zip(means, _quantiles(resampled).T, strict=True)]
        return _interval(float(means.mean()), _quantiles(resampled.mean(axis=1))), columns

    def at(self, level: Level) -> "LevelTable":
        """The attacks of this level and lower ones against the best guess of these levels."""
        if level not in self._tables:
            self._tables[level] = self._table(level)
        return self._tables[level]

    def _table(self, level: Level) -> "LevelTable":
        mounted = indices_up_to(self._attacks, level)
        eligible = indices_up_to(self._score_free, level)
        guesses = [len(self._attacks) + number for number in eligible]
        best = self._means[guesses].argmin(axis=0)
        e0_resampled = self._resampled[:, guesses].min(axis=1, keepdims=True)
        error_resampled = self._resampled[:, mounted]
        # A resample whose best guess is exact has nothing to give away.
        remaining = np.divide(error_resampled, e0_resampled, out=np.ones_like(error_resampled), where=e0_resampled > 0)
        return LevelTable(
            level=level,
            attacks=tuple(self._attacks[number].name for number in mounted),
            baselines=tuple(self._score_free[eligible[number]].name for number in best),
            e0=self._means[guesses].min(axis=0),
            error=self._means[mounted],
            part_ends=_without_rounding(_quantiles(1 - remaining)),
            removed_ends=_quantiles(e0_resampled - error_resampled),
        )


@dataclass(frozen=True, eq=False)
class LevelTable:
    """All attacks and columns at one level.

    Attributes:
        level: what the adversary knows beforehand, at most.
        attacks: (a,) names of the attacks that need to know no more.
        baselines: (m,) name of each column's best guess without scores.
        e0: (m,) its mean loss.
        error: (a, m) mean losses of the attacks.
        part_ends: (2, a, m) ends of the interval of the federation's part.
        removed_ends: (2, a, m) ends of the interval of e0 minus the attack's loss.
    """

    level: Level
    attacks: tuple[str, ...]
    baselines: tuple[str, ...]
    e0: FloatArray
    error: FloatArray
    part_ends: FloatArray
    removed_ends: FloatArray

    def verdict(self, attack: str, column: int) -> LevelVerdict:
        """One attack, by its name, on one column, by its number; without a name, what holds without any attack.

        Raises ValueError for an attack that isn't of this level.
        """
        e0, baseline = float(self.e0[column]), self.baselines[column]
        if not attack:
            return LevelVerdict(self.level, baseline, e0)
        number = self.attacks.index(attack)
        error = float(self.error[number, column])
        part = _interval(max(0.0, 1 - error / e0), self.part_ends[:, number, column]) if e0 >= FLOOR else None
        removed = _interval(e0 - error, self.removed_ends[:, number, column])
        return LevelVerdict(self.level, baseline, e0, attack, error, part, removed)

    def verdicts(self) -> Iterator[tuple[int, LevelVerdict]]:
        """Every attack on every column, with the column's number."""
        for attack in self.attacks:
            for column in range(len(self.e0)):
                yield column, self.verdict(attack, column)


# The losses of attacks, and of guesses without scores, on some of the records.
Measure = Callable[[IntArray], tuple[Sequence[Losses], Sequence[Losses]]]


@dataclass(frozen=True)
class Judged:
    """What a federation gives away of one column.

    Attributes:
        levels: by the best attack of each level of what its adversary knows beforehand, ``nothing`` first.
        one_session: the same without attacks that read several sessions; empty where there are none.
    """

    levels: tuple[LevelVerdict, ...]
    one_session: tuple[LevelVerdict, ...] = ()


def choose_and_judge(
    measure: Measure, records: int, *, generator: np.random.Generator, of_sessions: Collection[str] = ()
) -> list[Judged]:
    """Judge each column at every level: its best attack is chosen on one half of the records, judged on the other.

    Args:
        measure: computes losses of the records that it is given by number; guesses may be fitted to these.
        records: how many there are.
        generator: draws the resamples.
        of_sessions: names of the attacks that read several sessions.
    """
    choosing, judging = halves(records)
    on_choosing, _ = measure(choosing)
    comparison = Comparison(*measure(judging), generator=generator)
    at_the_limit = _chosen_and_judged(comparison, on_choosing)
    if not of_sessions:
        return [Judged(levels) for levels in at_the_limit]
    of_one = _chosen_and_judged(comparison, [one for one in on_choosing if one.name not in of_sessions])
    return list(map(Judged, at_the_limit, of_one))


def _chosen_and_judged(comparison: Comparison, on_choosing: Sequence[Losses]) -> list[tuple[LevelVerdict, ...]]:
    tables = [comparison.at(level) for level in LEVELS]
    columns = range(len(tables[0].e0))
    chosen = [best_attacks(on_choosing, level) or [""] * len(columns) for level in LEVELS]
    return [
        tuple(table.verdict(best[column], column) for table, best in zip(tables, chosen, strict=True))
        for column in columns
    ]


def best_attacks(attacks: Sequence[Losses], level: Level) -> list[str]:
    """Name the attack of this level or a lower one that costs least in each column; nothing where there is none.

    Choose on other records than those that judge: the best of many is partly lucky.
    """
    eligible = [attacks[number] for number in indices_up_to(attacks, level)]
    if not eligible:
        return []
    return [eligible[number].name for number in np.argmin([one.values.mean(axis=0) for one in eligible], axis=0)]


def halves(records: int) -> tuple[IntArray, IntArray]:
    """Split records into those that choose an attack and those that judge it, always alike; one record does both."""
    order = np.random.default_rng(0).permutation(records)
    middle = records // 2
    return (order[:middle] if middle else order), order[middle:]


def indices_up_to(losses: Sequence[Losses], level: Level) -> list[int]:
    """Numbers of those whose adversary knows no more beforehand than ``level``."""
    return [number for number, one in enumerate(losses) if LEVELS.index(one.level) <= LEVELS.index(level)]


def _resampled_means(losses: FloatArray, generator: np.random.Generator, resamples: int) -> FloatArray:
    """Means of (n, guesses, m) losses over resampled records: (resamples, guesses, m).

    In single precision: half the time, and a millionth is nothing beside what resampling does.
    """
    records, means = len(losses), list[NDArray[np.float32]]()
    flat = losses.reshape(records, -1).astype(np.float32)
    for start in range(0, resamples, block := max(1, _MOST_COUNTS // records)):
        means.append(_counts(records, min(block, resamples - start), generator) @ flat)
    resampled: FloatArray = np.concatenate(means).reshape(resamples, *losses.shape[1:]).astype(np.float64)
    return resampled / records


def _counts(records: int, resamples: int, generator: np.random.Generator) -> NDArray[np.float32]:
    """How often each record is drawn, with replacement: (resamples, records)."""
    drawn = generator.integers(records, size=(resamples, records), dtype=np.int32)
    return np.stack([np.bincount(one, minlength=records) for one in drawn]).astype(np.float32)


def _quantiles(resampled: FloatArray) -> FloatArray:
    """Ends of a 95 % interval over the first axis, as ``np.quantile`` has them: (2, ...).

    Only the few values on either side are put in order, each where it lies beside the next.
    """
    last = len(resampled) - 1
    ordered = np.ascontiguousarray(np.moveaxis(resampled, 0, -1))
    places = [last * end for end in _ENDS]
    ordered.partition(sorted({int(f(place)) for place in places for f in (np.floor, np.ceil)}), axis=-1)
    ends = []
    for place in places:
        low, high = ordered[..., int(np.floor(place))], ordered[..., int(np.ceil(place))]
        ends.append(low + (high - low) * (place - np.floor(place)))
    return np.array(ends)


def _without_rounding(parts: FloatArray) -> FloatArray:
    """Parts within [0, 1], exactly 0 and 1 where they are as good as that."""
    return np.where(parts < _ROUNDING, 0.0, np.where(parts > 1 - _ROUNDING, 1.0, parts))


def _interval(mean: float, ends: FloatArray) -> Interval:
    return Interval(mean, float(ends[0]), float(ends[1]))
