"""The federation's part of a leak: how much less an attack errs than the same adversary does without any score.

Whatever is measured is a loss per record and column. e0 is the lowest mean loss of any guess that sees no score and
needs to know no more beforehand than a level allows; the part is max(0, 1 - e / e0) of an attack whose mean loss is e.

How large a part is and whether there is any are two questions. The best attack is chosen for the first, on other
records than judge it. For the second none is chosen: every attack is tested on all records against the best guess, and
Holm's method corrects for all of these tests.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from attacks import LEVELS, Level
from plumbline.judge.chance import ALPHA, holm, largest_part, mean_ends, p_values, part_ends
from plumbline.judge.measures import Interval
from vfl.arrays import FloatArray, IntArray

# What a verdict in one sentence is measured at: means and frequencies are often published, records hardly ever.
HEADLINE: Level = "marginals"
# Where e0 is smaller, nothing is left that a federation could give away: who has no score is off by less than 1 % of
# the column's range (root mean square) already, and what an attack takes off that rests on one record or two.
FLOOR = 1e-4
# A smaller part is no leak to speak of, and a column is safe where the interval's upper end lies below it.
LEAST_PART = 0.1
# All but one of them choose for that one. With two, a small leak is missed by the choice of either.
FOLDS = 10
# From fewer complete records an adversary learns too little for what it finds, or doesn't, to mean something.
LEAST_KNOWN = 20
_NO_GUESS = "Give a guess that needs to know nothing, such as a constant: nothing to compare with."


@dataclass(frozen=True, eq=False)
class Losses:
    """What one way to guess costs, record by record.

    Attributes:
        name: of the attack, or of the guess without scores.
        level: what its adversary knows beforehand.
        values: (n, m), a loss per record and column, such as a squared error; 0 is right. Where a person has several
            records, a row is what `Clusters.summed` makes of them.
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
            ``FLOOR``. Where the attack was chosen among several, the upper end is that of the one whose is largest.
        removed: e0 minus the attack's mean loss with its 95 % interval; below 0 where the attack is worse. None without
            an attack.
        p_value: how likely chance alone makes an attack look as good that is no better than the guess; None where
            nobody computed it: then the interval's lower end says what is beyond chance.
        corrected: the same beside all that was judged with it, by Holm's method; None where it is judged alone.
        records: how many records judged, those of one person counted once; None where nobody says.
        shown_by: name of the attack whose test ``p_value`` is: of all of the level the one with the least; empty where
            the attack itself was tested.
        known: how many complete records adversaries of the level ``records`` had; None at other levels, and for none.
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
    shown_by: str = ""
    known: int | None = None

    @property
    def knows_few(self) -> bool:
        """Whether so few complete records were known that the level shows nothing, either way."""
        return self.known is not None and self.known < LEAST_KNOWN

    @property
    def is_beyond_chance(self) -> bool:
        """Whether an attack does better than the guess, in truth and not by luck."""
        chance = self.p_value if self.corrected is None else self.corrected
        return self.part is not None and (self.part.low > 0 if chance is None else chance <= ALPHA)

    @property
    def is_exposed(self) -> bool:
        """Whether the federation gave away a part worth speaking of, beyond chance."""
        return self.part is not None and self.part.mean >= LEAST_PART and self.is_beyond_chance and not self.knows_few

    @property
    def is_small(self) -> bool:
        """Whether the part is shown to be none worth speaking of."""
        return self.part is not None and self.part.high < LEAST_PART and not self.knows_few


def at(levels: Sequence[LevelVerdict], level: Level = HEADLINE) -> LevelVerdict:
    """Find the verdict of one level, the headline's by default."""
    return next(one for one in levels if one.level == level)


def corrected(families: Iterable[Sequence[LevelVerdict]]) -> list[tuple[LevelVerdict, ...]]:
    """Verdicts on single attacks at several levels, each beside all others.

    What is the same attack against the same guess at several levels is one test.
    """
    numbered = list(enumerate(families))
    chances = _holm_of(
        {
            (number, one.attack, one.baseline): one.p_value
            for number, levels in numbered
            for one in levels
            if one.p_value is not None
        }
    )
    return [
        tuple(replace(one, corrected=chances.get((number, one.attack, one.baseline))) for one in levels)
        for number, levels in numbered
    ]


def _holm_of(tests: Mapping[Hashable, float]) -> dict[Hashable, float]:
    return dict(zip(tests, holm(np.array(list(tests.values()))).tolist(), strict=True))


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
        indices = indices_up_to(self._attacks, level)
        eligible = indices_up_to(self._score_free, level)
        means = self._means[len(self._attacks) :][eligible]
        best = np.array(eligible)[means.argmin(axis=0)]
        guess = _columns_of(self._score_free, best[None])
        attacks = [self._attacks[number].values for number in indices]
        columns = guess.shape[1]
        chances = [p_values(guess, one) for one in attacks]
        return LevelTable(
            level=level,
            records=len(guess),
            attacks=tuple(self._attacks[number].name for number in indices),
            baselines=tuple(self._score_free[number].name for number in best),
            e0=guess.mean(axis=0),
            error=self._means[indices],
            part_ends=np.array(list(map(partial(part_ends, guess), attacks, chances))).reshape(-1, 2, columns),
            removed_ends=np.array([mean_ends(guess - one) for one in attacks]).reshape(-1, 2, columns),
            p_values=np.array(chances).reshape(-1, columns),
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


@dataclass(frozen=True)
class AttackTests:
    """Every attack on one column at one level, on all records, against the guess that is best on them.

    Attributes:
        guess: its name. No other is harder to beat, so that choosing it lets chance say less.
        chances: by the name of each attack of the level, how likely chance makes it look as good.
    """

    guess: str
    chances: Mapping[str, float]


@dataclass(frozen=True)
class Judged:
    """What a federation gives away of one column.

    Attributes:
        levels: how much, by the best attack of each level of what its adversary knows beforehand, ``nothing`` first.
        one_session: the same without attacks that read several sessions; empty where there are none.
        tests: whether anything, level by level; empty where nobody asks.
    """

    levels: tuple[LevelVerdict, ...]
    one_session: tuple[LevelVerdict, ...] = ()
    tests: tuple[AttackTests, ...] = ()


def beside_each_other(keyed: Sequence[tuple[Hashable, Judged]]) -> list[Judged]:
    """Correct what was found of several columns for being so many tests, those of the level ``nothing`` by themselves.

    No light rests on that level. What is the same attack against the same guess at several levels is one test, and so
    it is where a column is judged several times, by more attacks and by fewer.

    Args:
        keyed: with what tells a column and its measure from all others.
    """
    nothing, more = (
        _holm_of(
            {
                (key, attack, tests.guess): chance
                for key, one in keyed
                for tests in one.tests[levels]
                for attack, chance in tests.chances.items()
            }
        )
        for levels in (slice(1), slice(1, None))
    )

    def corrected_levels(key: Hashable, levels: Sequence[LevelVerdict], of: Judged) -> tuple[LevelVerdict, ...]:
        if not of.tests:
            return tuple(levels)
        chances = (nothing if one.level == "nothing" else more for one in levels)
        return tuple(
            replace(one, corrected=some.get((key, one.shown_by, tests.guess)))
            for one, tests, some in zip(levels, of.tests, chances, strict=True)
        )

    return [
        replace(
            one,
            levels=corrected_levels(key, one.levels, one),
            one_session=corrected_levels(key, one.one_session, one) if one.one_session else (),
        )
        for key, one in keyed
    ]


def choose_and_judge(
    attacks: Sequence[Losses],
    guesses: Sequence[Losses],
    *,
    of_sessions: Collection[str] = (),
    is_tested: bool = True,
    record_count: int | None = None,
) -> list[Judged]:
    """Judge each column at every level: how much by the attack and the guess that cost least on other records.

    For each tenth of the records the others choose (cross-fitting): the best of many is partly lucky, on either side.
    Whether anything is told at all is tested without a choice.

    Args:
        attacks: losses of those that saw scores.
        guesses: losses of those that didn't, on the same records; one of the level ``nothing`` at least.
        of_sessions: names of the attacks that read several sessions.
        is_tested: whether every attack is tested; else each verdict has the chance of its own attack and guess.
        record_count: how many complete records those of the level ``records`` had; None for none.

    Raises:
        ValueError: without a guess of the level ``nothing``.
    """
    if not any(one.level == "nothing" for one in guesses):
        raise ValueError(_NO_GUESS)
    choices = _Choices.of(attacks), _Choices.of(guesses)
    columns = range(guesses[0].values.shape[1])
    tests = list(_tested(attacks, guesses)) if is_tested else [() for _ in columns]

    def levels(without: Collection[str] = ()) -> list[tuple[LevelVerdict, ...]]:
        *less, most = (_at_level(*choices, level, without) for level in LEVELS)
        verdicts = zip(*less, [replace(one, known=record_count) for one in most], strict=True)
        return [_with_tests(one, some, without) for one, some in zip(verdicts, tests, strict=True)]

    at_the_limit = levels()
    alone = levels(of_sessions) if of_sessions else [() for _ in columns]
    return [Judged(*one) for one in zip(at_the_limit, alone, tests, strict=True)]


def _with_tests(
    levels: Sequence[LevelVerdict], tests: Sequence[AttackTests], without: Collection[str]
) -> tuple[LevelVerdict, ...]:
    """Say at each level the least chance of any attack but those of these names."""
    verdicts = []
    for verdict, level_tests in zip(levels, tests or (None,) * len(levels), strict=True):
        chances = (
            {}
            if level_tests is None
            else {name: chance for name, chance in level_tests.chances.items() if name not in without}
        )
        shown_by = min(chances, key=chances.__getitem__, default="")
        verdicts.append(replace(verdict, p_value=chances[shown_by], shown_by=shown_by) if shown_by else verdict)
    return tuple(verdicts)


def _tested(attacks: Sequence[Losses], guesses: Sequence[Losses]) -> Iterator[tuple[AttackTests, ...]]:
    """Test every attack on every column, level by level; what a level shares with the one before is tested once."""
    means = np.array([one.values.mean(axis=0) for one in guesses])
    before = np.full(means.shape[1], -1)
    chances = dict[str, FloatArray]()
    levels = list[tuple[IntArray, dict[str, FloatArray]]]()
    for level in LEVELS:
        eligible = indices_up_to(guesses, level)
        best = np.array(eligible)[means[eligible].argmin(axis=0)]
        guess = _columns_of(guesses, best[None])
        for number in indices_up_to(attacks, level):
            name, losses = attacks[number].name, attacks[number].values
            new = best != before if name in chances else np.ones(len(best), dtype=bool)
            chance = chances.get(name, np.ones(len(best))).copy()
            chance[new] = p_values(guess[:, new], losses[:, new])
            chances[name] = chance
        levels.append((best, dict(chances)))
        before = best
    for column in range(len(before)):
        yield tuple(
            AttackTests(guesses[best[column]].name, {name: float(one[column]) for name, one in some.items()})
            for best, some in levels
        )


def _columns_of(ways: Sequence[Losses], numbers: IntArray, folds: IntArray | int = 0) -> FloatArray:
    """Take each of m columns from the way to guess that is chosen for it in a record's fold, (n, m).

    Args:
        ways: losses of the ways to guess.
        numbers: (folds, m) their numbers.
        folds: (n,) each record's fold, or that of all records.
    """
    losses = np.empty_like(ways[0].values, dtype=np.float64)
    for number in np.unique(numbers):
        np.copyto(losses, ways[number].values, where=(numbers == number)[folds])
    return losses


@dataclass(frozen=True, eq=False)
class _Choices:
    """Ways to guess, of which the records of all other folds choose for those of one.

    Attributes:
        ways: their losses.
        folds: (n,) each record's fold.
        sums: (folds, ways, m) of each fold's losses.
    """

    ways: Sequence[Losses]
    folds: IntArray
    sums: FloatArray

    @classmethod
    def of(cls, ways: Sequence[Losses]) -> "_Choices":
        numbers = folds(len(ways[0].values) if ways else 0)
        rows = [numbers == fold for fold in np.unique(numbers)]
        return cls(ways, numbers, np.array([[way.values[fold].sum(axis=0) for way in ways] for fold in rows]))

    def at(self, level: Level, without: Collection[str]) -> tuple[list[str], FloatArray] | None:
        """Find what costs least in each column on the records that choose: names (m,), losses on those judged, (n, m).

        Args:
            level: what those may know beforehand that are chosen among; None is returned where there are none.
            without: names of those that aren't.
        """
        eligible = self.eligible(level, without)
        if not eligible:
            return None
        totals = self.sums.sum(axis=0)
        choosing = totals - self.sums if len(self.sums) > 1 else self.sums
        judging = np.array(eligible)[choosing[:, eligible].argmin(axis=1)]
        # A verdict bears one name: where choices differ, that of the better one on all records.
        columns = np.arange(judging.shape[1])
        named = judging[totals[judging, columns].argmin(axis=0), columns]
        return [self.ways[one].name for one in named], _columns_of(self.ways, judging, self.folds)

    def eligible(self, level: Level, without: Collection[str]) -> list[int]:
        """Numbers of those that may be chosen at a level: all but those of the names ``without``."""
        return [number for number in indices_up_to(self.ways, level) if self.ways[number].name not in without]


def _at_level(attacks: _Choices, guesses: _Choices, level: Level, without: Collection[str]) -> list[LevelVerdict]:
    choice = guesses.at(level, ())
    if choice is None:
        raise ValueError(_NO_GUESS)
    baselines, guess = choice
    names, attack = attacks.at(level, without) or ([""] * len(baselines), None)
    compared = [] if attack is None else [Losses("best", "nothing", attack)]
    table = Comparison(compared, [Losses("best", "nothing", guess)]).at("nothing")
    # Any attack that looks better than the guess may tell most: few records don't show which.
    losses = [attacks.ways[number].values for number in attacks.eligible(level, without)]
    largest = np.max([largest_part(guess, one) for one in losses], axis=0, initial=0.0)
    table.part_ends[:, 1] = np.maximum(table.part_ends[:, 1], largest)
    return [
        replace(table.verdict("best" if name else "", column), level=level, attack=name, baseline=baseline)
        for column, (name, baseline) in enumerate(zip(names, baselines, strict=True))
    ]


def folds(records: int) -> IntArray:
    """Split records into ten folds as large as each other, or each by itself where they are fewer; always alike.

    Returns (n,) the number of each record's fold.
    """
    numbers: IntArray = np.random.default_rng(0).permutation(records) % min(FOLDS, max(1, records))
    return numbers


def indices_up_to(losses: Sequence[Losses], level: Level) -> list[int]:
    """Numbers of those whose adversary knows no more beforehand than ``level``."""
    return [number for number, one in enumerate(losses) if LEVELS.index(one.level) <= LEVELS.index(level)]


def _interval(mean: float, ends: FloatArray) -> Interval:
    return Interval(mean, float(ends[0]), float(ends[1]))
