"""Judges attacks on labels: what each has right beyond what its party would guess without the federation.

A party guesses any class (nothing), the most frequent one (marginals), or what a logistic regression from its own
columns says that learned from 30, 100 or 1,000 labelled records which weren't trained on (records). Names hide a rare
class, so that its records are looked for besides, in the order that an attack puts records into.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attacks import LEVELS, Level
from attacks.training.label_completion import completed, group_of_class, own_classifier
from plumbline.judge.chance import ALPHA
from plumbline.judge.federation_part import FLOOR, HEADLINE, LEAST_PART, Comparison, LevelVerdict, Losses, corrected
from plumbline.telling.numbers import percent
from services.common.run_records import FoundLabels
from vfl.arrays import FloatArray, IntArray
from vfl.learning.score_quality import area_under_curve

# What chance may call a leak of labels to a party is this part of what it may of columns: audits have many parties.
SHARED_BY = 5
# How many labelled records a passive party might have: knowledge that is assumed, not declared.
LABELLED_RECORDS = (30, 100, 1_000)
# In attacks' answers.
_UNANSWERED = -1
# Levels that differ for labels, from the headline's on.
_JUDGED: tuple[Level, ...] = (HEADLINE, "records")


@dataclass(frozen=True)
class RarestLabel:
    """How well an attack finds the records of the rarest class, which the share of right names hides.

    Attributes:
        label: the class, by index.
        share: of the records.
        auc: how often a record of the class is held more likely to be of it than one of another class.
        top: how many records are named: a tenth of all, at most as many as there are of the class.
        precision: share of those ``top`` held most likely that are of it; ``share`` is what naming any gives.
        p_value: how likely messages about other records look as telling; 1 where nobody tried.
        by_chance: how much of what naming any records gets wrong the party's attacks get right of such messages.
    """

    label: int
    share: float
    auc: float
    top: int
    precision: float
    p_value: float = 1.0
    by_chance: float = 0.0

    @property
    def beyond_any(self) -> float:
        """How much of what naming any records gets wrong it gets right."""
        return max(0.0, (self.precision - self.share) / (1 - self.share))

    @property
    def part(self) -> float:
        """How much it gets right of what messages about other records leave wrong."""
        room = 1 - self.by_chance
        return max(0.0, (self.beyond_any - self.by_chance) / room) if room > 0 else 0.0

    @property
    def is_told(self) -> bool:
        """Whether it finds records of the class worth speaking of, beyond chance."""
        return self.part >= LEAST_PART and self.p_value <= ALPHA / SHARED_BY

    @property
    def words(self) -> str:
        """What it finds, in a sentence."""
        return (
            f"Of the {self.top} it holds likeliest to be of the rarest class, {percent(self.precision)} are "
            f"({percent(self.share)} of all); the area under the curve is {self.auc:.2f}."
        )


def rarest_label(probabilities: FloatArray, truth: IntArray) -> RarestLabel | None:
    """Judge (m, k) probabilities by the rarest of the classes that (m,) records have; None where all are of one."""
    counts = np.bincount(truth, minlength=probabilities.shape[1])
    present = np.flatnonzero(counts)
    if len(present) < 2:
        return None
    label = int(present[counts[present].argmin()])
    likely, is_it = probabilities[:, label], truth == label
    top = max(1, min(int(counts[label]), len(truth) // 10))
    # Tables may be in their labels' order: what is held equally likely is drawn.
    order = np.random.default_rng(0).permutation(len(truth))
    first = order[np.argsort(-likely[order], kind="stable")[:top]]
    auc = area_under_curve(np.column_stack([1 - likely, likely]), is_it.astype(np.int64))
    return RarestLabel(label, float(is_it.mean()), auc, top, float(is_it[first].mean()))


def abstains(answer: FoundLabels) -> bool:
    """Tell whether an attack has said nothing: it names no label, and holds no class likelier than another.

    An attack that tells classes apart and can't say which is which names none either, but has probabilities.
    """
    rows, likely = answer.judged_rows, answer.probabilities
    is_silent = likely is None or not np.isfinite(likely[rows]).any()
    return bool((answer.labels[rows] == _UNANSWERED).all()) and is_silent


class LabelGuesses:
    """What a party guesses of labels without the federation, and what attacks have right beyond that.

    At every level the guess has the labels that attacks were given as well: a classifier that learned from them.
    """

    def __init__(
        self, truth: IntArray, rows: IntArray, features: FloatArray, known_rows: IntArray | None = None
    ) -> None:
        """Take what is true, and make the guesses.

        Args:
            truth: (n,) the classes.
            rows: (m,) which records are judged: those that training told of.
            features: (n, d) the party's own columns.
            known_rows: (t,) records whose labels attacks were given, none of them judged.
        """
        self._truth, self._rows, self._features = truth, rows, features
        known_rows = np.zeros(0, dtype=np.int64) if known_rows is None else known_rows
        self._others = _not_trained_on(truth, np.union1d(rows, known_rows))
        self._unlabelled = _not_trained_on(truth, rows)
        self._given = list[Losses]()
        if len(np.unique(truth[known_rows])) > 1:
            wrong = self._classified(known_rows)
            self._given = [Losses(f"own classifier from the {len(known_rows):,} known labels", "nothing", wrong)]

    def verdicts(
        self, attack: str, answers: IntArray, probabilities: FloatArray | None = None
    ) -> tuple[LevelVerdict, ...]:
        """Judge one attack by the share that it gets wrong, at each level of what is known of labels beforehand.

        What the attack leaves open is guessed by a party that knows nothing more than the level.

        Args:
            attack: its name.
            answers: (n,) class indices, -1 without an answer.
            probabilities: (n, k), what the attack believes of every record; NaN where nothing, None where it doesn't
                say. Where it says so of records that weren't trained on, those with a known label complete it. Where it
                tells classes apart and answers nothing, as it doesn't know which is which, known labels name them.
        """
        verdicts = []
        for level in LEVELS:
            losses = self._losses(attack, level, answers, probabilities)
            verdicts.append(Comparison([losses], self._guesses(level)).at(level).verdict(losses.name, 0))
        return corrected([verdicts])[0]

    def rarest(self, probabilities: FloatArray | None) -> RarestLabel | None:
        """Judge by the rarest class; None for an attack that doesn't say how likely each class is of every record."""
        if probabilities is None or not np.isfinite(probabilities[self._rows]).all():
            return None
        return rarest_label(probabilities[self._rows], self._truth[self._rows])

    def told(self, answers: IntArray, probabilities: FloatArray | None) -> float:
        """Find the most that the light of labels could rest on: a part of what guesses leave unknown, in [0, 1]."""
        parts = [0.0]
        for level in _JUDGED:
            e0, error = self._e0[level], float(self._losses("", level, answers, probabilities).values.mean())
            parts.append(1 - error / e0 if e0 >= FLOOR else 0.0)
        rarest = self.rarest(probabilities)
        return max(*parts, 0.0 if rarest is None else rarest.beyond_any)

    @cached_property
    def _e0(self) -> dict[Level, float]:
        return {level: min(float(one.values.mean()) for one in self._guesses(level)) for level in _JUDGED}

    def _losses(self, attack: str, level: Level, answers: IntArray, probabilities: FloatArray | None) -> Losses:
        """Measure what an attack gets wrong at a level."""
        truth, rows = self._truth, self._rows
        losses = Losses(attack, level, _filled(answers[rows], truth[rows], level))
        if level != "records" or probabilities is None:
            return losses
        if np.isfinite(probabilities).all():
            return self._completed(losses, probabilities) or losses
        return (self._named(losses, probabilities) if (answers[rows] == _UNANSWERED).all() else None) or losses

    def _completed(self, plain: Losses, probabilities: FloatArray) -> Losses | None:
        """Measure what is wrong once known labels, as many as there are, complete it; None if all are alike."""
        truth, rows = self._truth, self._rows
        counts = [count for count in LABELLED_RECORDS if _teaches(truth, self._unlabelled[:count], count)]
        if not counts:
            return None
        labelled = self._unlabelled[: counts[-1]]
        named = completed(self._features, probabilities, labelled, truth[labelled])[rows].argmax(axis=1)
        name = f"{plain.name} completed from {counts[-1]:,} labels"
        return Losses(name, plain.level, (named != truth[rows]).astype(np.float64)[:, None])

    def _named(self, plain: Losses, probabilities: FloatArray) -> Losses | None:
        """Measure what is wrong once labels of a few of an attack's records say which group is which class.

        As few as name them; what was known beforehand counts as not found. None where no number of labels names them,
        or where it has no groups.
        """
        truth, rows = self._truth, self._rows
        if not np.isfinite(probabilities[rows]).all():
            return None
        candidates = np.random.default_rng(0).permutation(rows)
        for count in LABELLED_RECORDS:
            labelled = candidates[:count]
            order = group_of_class(probabilities[labelled], truth[labelled]) if 2 * count <= len(rows) else None
            if order is not None:
                wrong = probabilities[rows][:, order].argmax(axis=1) != truth[rows]
                wrong |= np.isin(rows, labelled)
                return Losses(f"{plain.name} named by {count:,} labels", plain.level, wrong.astype(np.float64)[:, None])
        return None

    def _guesses(self, level: Level) -> list[Losses]:
        """List what a party of a level guesses: priors, given labels and, of records, classifiers of its own."""
        learned = self._learned if level == "records" else []
        labels = self._truth[self._rows]
        priors = [
            Losses("any class", "nothing", _blind(labels)[:, None]),
            Losses("the most frequent class", "marginals", _most_frequent(labels)[:, None]),
        ]
        return [*priors, *learned, *self._given]

    @cached_property
    def _learned(self) -> list[Losses]:
        """Classifiers that learned from records which weren't trained on, as many as there are."""
        return [
            Losses(f"own classifier from {count:,} labels", "records", self._classified(self._others[:count]))
            for count in LABELLED_RECORDS
            if _teaches(self._truth, self._others[:count], count)
        ]

    def _classified(self, labelled: IntArray) -> FloatArray:
        """1 for each label that a classifier of own columns names wrongly which learned from these, (m, 1)."""
        classifier = own_classifier().fit(self._features[labelled], self._truth[labelled])
        wrong: FloatArray = classifier.predict(self._features[self._rows]) != self._truth[self._rows]
        return wrong.astype(np.float64)[:, None]


def beside_chance(levels: tuple[LevelVerdict, ...], p_value: float) -> tuple[LevelVerdict, ...]:
    """Let verdicts be no less due to chance than messages about other records are as telling."""
    least = min(1.0, SHARED_BY * p_value)
    return tuple(
        one if one.p_value is None else replace(one, corrected=max(least, one.corrected or 0.0)) for one in levels
    )


def _not_trained_on(truth: IntArray, rows: IntArray) -> IntArray:
    """List records that training didn't tell of, in an order that is always the same."""
    untrained: IntArray = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(len(truth)), rows))
    return untrained


def _teaches(truth: IntArray, labelled: IntArray, count: int) -> bool:
    return len(labelled) == count and len(np.unique(truth[labelled])) > 1


def _filled(answers: IntArray, truth: IntArray, level: Level) -> FloatArray:
    """1 for each wrong answer, (m, 1); where there is none, what guessing it costs."""
    guess = _blind(truth) if level == "nothing" else _most_frequent(truth)
    return np.where(answers == _UNANSWERED, guess, (answers != truth).astype(np.float64))[:, None]


def _blind(truth: IntArray) -> FloatArray:
    """Compute the expected loss of naming any class at random."""
    return np.full(len(truth), 1 - 1 / max(2, len(np.unique(truth))))


def _most_frequent(truth: IntArray) -> FloatArray:
    wrong: FloatArray = (truth != np.bincount(truth).argmax()).astype(np.float64)
    return wrong
