"""The federation's part of a leak: how much less an attack errs than the same adversary does without any score.

Whatever is measured is a loss per record and column. e0 is the lowest mean loss of any guess that sees no score and
needs to know no more beforehand than a level allows; the part is max(0, 1 - e / e0) of an attack whose mean loss is e.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attacks import LEVELS, Level
from plumbline.judge.chance import ALPHA, holm, mean_ends, p_values, part_ends
from plumbline.judge.measures import Interval
from vfl.arrays import FloatArray, IntArray

# What a verdict in one sentence is measured at: means and frequencies are often published, records hardly ever.
HEADLINE: Level = "marginals"
# Where e0 is smaller, nothing is left that a federation could give away: who has no score is off by less than 1 % of
# the column's range (root mean square) already, and what an attack takes off that rests on one record or two.
FLOOR = 1e-4
# A smaller part is no leak to speak of, and a column is safe where the interval's upper end lies below it.
LEAST_PART = 0.1
_NO_GUESS = "Give a guess that needs to know nothing, such as a constant: nothing to compare with."


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
        p_value: how likely chance alone makes an attack look as good that is no better than the guess; None where
            nobody computed it: then the interval's lower end says what is beyond chance.
        corrected: the same beside all that was judged with it, by Holm's method; None where it is judged alone.
        records: how many records judged; None where nobody says.
    """

    level: Level
    baseline: str
    e0: float
    attack: str = ""
    error: float | None = None
    part: Interval | None = None
    removed: Interval | None = None
    p_value: float | None = None
    corrected: float | None = None
    records: int | None = None

    @property
    def is_beyond_chance(self) -> bool:
        """Whether the attack does better than the guess, in truth and not by luck."""
        chance = self.p_value if self.corrected is None else self.corrected
        return self.part is not None and self.part.low > 0 and (chance is None or chance <= ALPHA)

    @property
    def is_exposed(self) -> bool:
        """Whether the federation gave away a part worth speaking of, beyond chance."""
        return self.part is not None and self.part.mean >= LEAST_PART and self.is_beyond_chance

    @property
    def is_small(self) -> bool:
        """Whether the part is shown to be none worth speaking of."""
        return self.part is not None and self.part.high < LEAST_PART


def at(levels: Sequence[LevelVerdict], level: Level = HEADLINE) -> LevelVerdict:
    """Find the verdict of one level, the headline's by default."""
    return next(one for one in levels if one.level == level)


def corrected(families: Iterable[Sequence[LevelVerdict]]) -> list[tuple[LevelVerdict, ...]]:
    """Verdicts on several columns at several levels, each beside all others.

    What is the same attack against the same guess at several levels is one test.
    """
    numbered = list(enumerate(families))
    tests = {
        (number, one.attack, one.baseline): one.p_value
        for number, levels in numbered
        for one in levels
        if one.p_value is not None
    }
    chances = dict(zip(tests, holm(np.array(list(tests.values()))).tolist(), strict=True))
    return [
        tuple(replace(one, corrected=chances.get((number, one.attack, one.baseline))) for one in levels)
        for number, levels in numbered
    ]


class Comparison:
    """Attacks against guesses without scores, on the same records, paired within each record."""

    def __init__(self, attacks: Sequence[Losses], score_free: Sequence[Losses]) -> None:
        """Take their losses.

        Args:
            attacks: losses of those that saw scores.
            score_free: losses of those that didn't; one of the level ``nothing`` at least.

        Raises:
            ValueError: without a guess of the level ``nothing``, or for losses of different shapes.
        """
        self._attacks, self._score_free = tuple(attacks), tuple(score_free)
        if not any(one.level == "nothing" for one in self._score_free):
            raise ValueError(_NO_GUESS)
        everything = (*self._attacks, *self._score_free)
        if len({one.values.shape for one in everything}) > 1:
            raise ValueError("Give losses of the same records and columns: these are of different shapes.")
        self._means = np.array([one.values.mean(axis=0) for one in everything])
        self._tables: dict[Level, LevelTable] = {}

    @property
    def score_free(self) -> tuple[tuple[str, Level], ...]:
        """Names and levels of the guesses without scores."""
        return tuple((one.name, one.level) for one in self._score_free)

    def mean_losses(self, name: str) -> tuple[Interval, list[Interval]]:
        """Mean loss of an attack or a guess with its 95 % interval: over all columns, and of each column.

        Raises KeyError for a name that isn't among them.
        """
        values = {one.name: one.values for one in (*self._attacks, *self._score_free)}[name]
        columns = [_interval(float(mean), ends) for mean, ends in zip(values.mean(0), mean_ends(values).T, strict=True)]
        return _interval(float(values.mean()), mean_ends(values.mean(axis=1))), columns

    def at(self, level: Level) -> "LevelTable":
        """Set the attacks of this level and lower ones against the best guess of these levels."""
        if level not in self._tables:
            self._tables[level] = self._table(level)
        return self._tables[level]

    def _table(self, level: Level) -> "LevelTable":
        mounted = indices_up_to(self._attacks, level)
        eligible = indices_up_to(self._score_free, level)
        best = self._means[[len(self._attacks) + number for number in eligible]].argmin(axis=0)
        guess: FloatArray = np.empty_like(self._score_free[0].values, dtype=np.float64)
        for place, number in enumerate(eligible):
            guess[:, best == place] = self._score_free[number].values[:, best == place]
        attacks = [self._attacks[number].values for number in mounted]
        columns = guess.shape[1]
        return LevelTable(
            level=level,
            records=len(guess),
            attacks=tuple(self._attacks[number].name for number in mounted),
            baselines=tuple(self._score_free[eligible[place]].name for place in best),
            e0=guess.mean(axis=0),
            error=self._means[mounted],
            part_ends=np.array([part_ends(guess, one) for one in attacks]).reshape(-1, 2, columns),
            removed_ends=np.array([mean_ends(guess - one) for one in attacks]).reshape(-1, 2, columns),
            p_values=np.array([p_values(guess, one) for one in attacks]).reshape(-1, columns),
        )


@dataclass(frozen=True, eq=False)
class LevelTable:
    """All attacks and columns at one level.

    Attributes:
        level: what the adversary knows beforehand, at most.
        records: how many records judge.
        attacks: (a,) names of the attacks that need to know no more.
        baselines: (m,) name of each column's best guess without scores.
        e0: (m,) its mean loss.
        error: (a, m) mean losses of the attacks.
        part_ends: (a, 2, m) ends of the interval of the federation's part.
        removed_ends: (a, 2, m) ends of the interval of e0 minus the attack's loss.
        p_values: (a, m), how likely each attack looks as good by chance.
    """

    level: Level
    records: int
    attacks: tuple[str, ...]
    baselines: tuple[str, ...]
    e0: FloatArray
    error: FloatArray
    part_ends: FloatArray
    removed_ends: FloatArray
    p_values: FloatArray

    def verdict(self, attack: str, column: int) -> LevelVerdict:
        """Judge one attack, by its name, on one column, by its number; without a name, what holds without any attack.

        Raises ValueError for an attack that isn't of this level.
        """
        e0, baseline = float(self.e0[column]), self.baselines[column]
        if not attack:
            return LevelVerdict(self.level, baseline, e0)
        number = self.attacks.index(attack)
        error = float(self.error[number, column])
        part = _interval(max(0.0, 1 - error / e0), self.part_ends[number, :, column]) if e0 >= FLOOR else None
        removed = _interval(e0 - error, self.removed_ends[number, :, column])
        chance = float(self.p_values[number, column])
        return LevelVerdict(
            self.level, baseline, e0, attack, error, part, removed, p_value=chance, records=self.records
        )

    def verdicts(self) -> Iterator[tuple[int, LevelVerdict]]:
        """Judge every attack on every column, with the column's number."""
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


def choose_and_judge(measure: Measure, records: int, *, of_sessions: Collection[str] = ()) -> list[Judged]:
    """Judge each column at every level by the attack and the guess that cost least on other records.

    Each half of the records chooses for the other one and is judged by its choice (cross-fitting): the best of many is
    partly lucky, on either side.

    Args:
        measure: computes losses of records that it is given by number.
        records: how many there are.
        of_sessions: names of the attacks that read several sessions.
    """
    first, second = (measure(half) for half in halves(records))
    folds = [_Fold(*first, *second), _Fold(*second, *first)][: 2 if records > 1 else 1]
    at_the_limit = _cross_fitted(folds)
    if not of_sessions:
        return [Judged(levels) for levels in at_the_limit]
    return list(map(Judged, at_the_limit, _cross_fitted([fold.without(of_sessions) for fold in folds])))


@dataclass(frozen=True, eq=False)
class _Fold:
    """Losses of attacks and guesses on the records that choose among them, and on those that are judged."""

    attacks: Sequence[Losses]
    guesses: Sequence[Losses]
    judged_attacks: Sequence[Losses]
    judged_guesses: Sequence[Losses]

    def without(self, names: Collection[str]) -> "_Fold":
        """Take attacks of these names out of the fold."""
        attacks, judged = (
            [one for one in some if one.name not in names] for some in (self.attacks, self.judged_attacks)
        )
        return _Fold(attacks, self.guesses, judged, self.judged_guesses)


def _cross_fitted(folds: Sequence[_Fold]) -> list[tuple[LevelVerdict, ...]]:
    """Judge each column, level by level."""
    return list(zip(*(_at_level(folds, level) for level in LEVELS), strict=True))


def _at_level(folds: Sequence[_Fold], level: Level) -> list[LevelVerdict]:
    guesses = _chosen_elsewhere([(one.guesses, one.judged_guesses) for one in folds], level)
    attacks = _chosen_elsewhere([(one.attacks, one.judged_attacks) for one in folds], level)
    if guesses is None:
        raise ValueError(_NO_GUESS)
    baselines, guess = guesses
    names, attack = attacks or ([""] * len(baselines), None)
    compared = [] if attack is None else [Losses("best", "nothing", attack)]
    table = Comparison(compared, [Losses("best", "nothing", guess)]).at("nothing")
    return [
        replace(table.verdict("best" if name else "", column), level=level, attack=name, baseline=baseline)
        for column, (name, baseline) in enumerate(zip(names, baselines, strict=True))
    ]


def _chosen_elsewhere(
    folds: Sequence[tuple[Sequence[Losses], Sequence[Losses]]], level: Level
) -> tuple[list[str], FloatArray] | None:
    """Find what costs least in each column on the records that choose: names (m,), and losses on judged ones, (n, m).

    Args:
        folds: the same ways to guess, on the records that choose and on those that are judged.
        level: what those may know beforehand that are chosen among; None is returned where there are none.
    """
    eligible = indices_up_to(folds[0][0], level)
    if not eligible:
        return None
    best = np.array([np.argmin([some[one].values.mean(axis=0) for one in eligible], axis=0) for some, _ in folds])
    judged = [np.array([some[one].values for one in eligible]) for _, some in folds]
    columns = np.arange(best.shape[1])
    values = np.concatenate([losses[one, :, columns].T for one, losses in zip(best, judged, strict=True)])
    # A verdict bears one name: where choices differ, that of the better one on all records.
    overall = np.concatenate(judged, axis=1).mean(axis=1)
    named = best[overall[best, columns].argmin(axis=0), columns]
    return [folds[0][0][eligible[one]].name for one in named], values


def halves(records: int) -> tuple[IntArray, IntArray]:
    """Split records into two halves that choose for each other, always alike; one record is both of them."""
    order = np.random.default_rng(0).permutation(records)
    middle = records // 2
    return (order[:middle] if middle else order), order[middle:]


def indices_up_to(losses: Sequence[Losses], level: Level) -> list[int]:
    """Numbers of those whose adversary knows no more beforehand than ``level``."""
    return [number for number, one in enumerate(losses) if LEVELS.index(one.level) <= LEVELS.index(level)]


def _interval(mean: float, ends: FloatArray) -> Interval:
    return Interval(mean, float(ends[0]), float(ends[1]))
