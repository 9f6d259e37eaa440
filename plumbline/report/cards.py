"""A card for each column: how it is distributed, what the best attack made of it, and how far each attack is off.

Truth and estimates are in the units of the owner's table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attacks import LEVELS, Level
from plumbline.charts.axes import NUMBERS, Values, number_words
from plumbline.charts.dates import DAYS
from plumbline.charts.drawings import Amount, amounts, counts, cut, histogram, scatter
from plumbline.charts.marks import Chart
from plumbline.judge.answer import ColumnAnswer
from plumbline.judge.columns import Category, Source
from plumbline.judge.federation_part import HEADLINE, LevelVerdict
from plumbline.judge.findings import Findings
from plumbline.judge.predictions import AttackFinding, ColumnLeakage
from plumbline.judge.truth import Truth
from plumbline.telling.numbers import percent
from services.common.run_folder import RunFolder
from services.common.run_records import PartyFeatures
from vfl.arrays import FloatArray, IntArray


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
        """Measure how far off (n,) estimates are: root mean square in the column's units, or the share named wrong."""
        if self.is_category:
            return float((estimate != self.truth).mean()) if len(self.truth) else float("nan")
        return float(np.sqrt(((estimate - self.truth) ** 2).mean())) if len(self.truth) else float("nan")

    def loss_in_units(self, loss: float) -> float:
        """Write a verdict's mean loss as an error: of categories it is the share named wrong already."""
        return loss if self.is_category else float(np.sqrt(max(0.0, loss))) * self.per_feature

    def sample(self, most: int) -> IntArray:
        """Numbers of ``most`` records at most, the same for the same column."""
        count = len(self.truth)
        return np.sort(np.random.default_rng(0).permutation(count)[:most])


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
    reader = _Reader.of(truth, [folder.features(party) for party in parties], estimates.by_attack)
    sources = {(one.party, one.name): one for one in truth.sources}
    return [reader.column(column, sources[column.party, column.column]) for column in columns]


def evidence_of(findings: Findings) -> dict[ColumnAnswer, ColumnEvidence]:
    """Read what is true of each column of a run; nothing where its folder is gone. Raises RunFolderError."""
    if findings.folder is None:
        return {}
    passive = [party.name for party in findings.summary.parties[1:]]
    return {one.answer: one for one in read_evidence(findings.folder, findings.answer.columns, passive)}


@dataclass(frozen=True, eq=False)
class _Reader:
    """Reads columns from the attacked records' cells.

    Attributes:
        truth: of the attacked records.
        offsets: of every passive feature, in units of its owner's table.
        scales: likewise; NaN where it has no unit, and older runs say none.
        estimates: by attack.
    """

    truth: Truth
    offsets: FloatArray
    scales: FloatArray
    estimates: Mapping[str, FloatArray]

    @classmethod
    def of(cls, truth: Truth, features: Sequence[PartyFeatures], estimates: Mapping[str, FloatArray]) -> "_Reader":
        offsets = [np.zeros(len(one.names)) if one.offsets is None else one.offsets for one in features]
        scales = [np.full(len(one.names), np.nan) if one.scales is None else one.scales for one in features]
        return cls(truth, np.concatenate(offsets), np.concatenate(scales), estimates)

    def column(self, answer: ColumnAnswer, source: Source) -> ColumnEvidence:
        cells, category, feature = self.truth.cells, source.category, source.value
        # Others were filled in by the owner.
        there = np.ones(len(cells), dtype=bool) if source.missing is None else source.missing.symbols(cells) == 0
        arrays = {"": cells, **self.estimates}
        unit, per_feature, names = "", 1.0, tuple[str, ...]()
        if category is not None:
            names = self._value_names(source, category)
            values = {name: category.symbols(array)[there].astype(np.float64) for name, array in arrays.items()}
        else:
            values = {name: self._in_units(feature, array[there, feature]) for name, array in arrays.items()}
            unit, per_feature = ("", float(abs(self.scales[feature])))
            if not np.isfinite(per_feature):
                unit, per_feature = "on its encoded scale", 1.0
        truth = values.pop("")
        return ColumnEvidence(answer, names, unit, truth, values, int((~there).sum()), per_feature)

    def _in_units(self, feature: int, values: FloatArray) -> FloatArray:
        scaled: FloatArray = self.offsets[feature] + self.scales[feature] * values
        return scaled if np.isfinite(self.scales[feature]) else values

    def _value_names(self, source: Source, category: Category) -> tuple[str, ...]:
        """Name a category's values as who knows the column does."""
        named = [self.truth.names[feature].removeprefix(f"{source.name}=") for feature in category.columns]
        if len(named) > 1:
            return (*named, "none of these") if category.is_open else tuple(named)
        if source.kind == "category" and named[0] != source.name:
            return (f"not {named[0]}", named[0])
        values = self._in_units(source.value, category.values[:, 0])
        return tuple(number_words(float(value)) for value in values)


# Points of a scatter, and categories that are told apart; the rest goes together.
POINTS, VALUES = 200, 8


@dataclass(frozen=True)
class Confusion:
    """How often each true value is taken for which: rows are true values.

    Attributes:
        names: of the values, most frequent first.
        shares: a row per true value, of its records; in the order of ``names``.
        counts: records of each true value.
    """

    names: tuple[str, ...]
    shares: tuple[tuple[float, ...], ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Card:
    """What the page shows of one column.

    Attributes:
        answer: the verdict on it.
        number: of the column, most exposed first, from 1.
        attack: whose estimates are shown; empty without an attack.
        distribution: of true and estimated values; None without estimates in the run's folder.
        scatter: true against estimated values; None for categories and without an attack.
        confusion: the same for categories.
        errors: of each attack; None without one.
        errors_note: what a reader of that chart must know; empty for nothing.
        by_attack: more measures of each attack, for numbers and dates: the attack's name and what it measured.
        absent: number of records without a value, which are left out.
        level: at which the attack is the best one: the headline's, or where none is of that, the first with one.
        sessions: after how many sessions that attack is.
    """

    answer: ColumnAnswer
    number: int
    attack: str = ""
    distribution: Chart | None = None
    scatter: Chart | None = None
    confusion: Confusion | None = None
    errors: Chart | None = None
    errors_note: str = ""
    by_attack: tuple[tuple[str, ColumnLeakage], ...] = ()
    absent: int = 0
    level: str = HEADLINE
    sessions: int = 1


def cards_of(
    columns: Sequence[ColumnAnswer], evidence: Mapping[ColumnAnswer, ColumnEvidence], found: Sequence[AttackFinding]
) -> list[Card]:
    """Make the cards of columns, in their order.

    Args:
        columns: verdicts on columns.
        evidence: truth and estimates of each; a column without any has a card of words.
        found: what each attack reconstructed.
    """
    done = [one for one in found if one.mse is not None and one.sees_scores]
    return [_card(number, column, evidence.get(column), done) for number, column in enumerate(columns, start=1)]


def _card(number: int, column: ColumnAnswer, evidence: ColumnEvidence | None, done: Sequence[AttackFinding]) -> Card:
    best, feature = shown_verdict(column), column.features[0]
    # Categories have no single feature.
    is_measured = column.kind not in ("category", "code")
    measures = tuple((one.attack, one.columns[feature]) for one in done if is_measured and feature < len(one.columns))
    card = Card(column, number, best.attack, by_attack=measures, level=best.level)
    if evidence is None:
        return card
    sessions = next((one.sessions for one in done if one.attack == best.attack), 1)
    card = replace(card, absent=evidence.absent, sessions=sessions)
    if not len(evidence.truth):
        return card
    estimate, (errors, note) = evidence.estimates.get(best.attack), _errors(evidence, done)
    card = replace(card, distribution=_distribution(evidence, estimate), errors=errors, errors_note=note)
    if estimate is None:
        return card
    if evidence.is_category:
        return replace(card, confusion=_confusion(evidence, estimate))
    return replace(card, scatter=_scatter(evidence, estimate))


def shown_verdict(column: ColumnAnswer) -> LevelVerdict:
    """Choose the verdict whose attack a card shows: the headline level's, or that of the first with an attack."""
    at_least = [one for one in column.levels if LEVELS.index(one.level) >= LEVELS.index(column.headline)]
    return next((one for one in at_least if one.attack), at_least[0])


def _values(evidence: ColumnEvidence) -> Values:
    return DAYS if evidence.is_date else NUMBERS


def _distribution(evidence: ColumnEvidence, estimate: FloatArray | None) -> Chart:
    title = "How it is distributed"
    if not evidence.is_category:
        return histogram(title, evidence.unit, evidence.truth, estimate, values=_values(evidence))
    order = _most_frequent(evidence)
    names, (true, guessed) = _merged_names(evidence, order), (_merged(evidence.truth, order), None)
    shares = np.bincount(true, minlength=len(names)) / len(true)
    if estimate is not None:
        guessed = np.bincount(_merged(estimate, order), minlength=len(names)) / len(true)
    return counts(title, names, shares, guessed)


def _most_frequent(evidence: ColumnEvidence) -> list[int]:
    """Numbers of the values that are told apart, most frequent first."""
    frequency = np.bincount(evidence.truth.astype(np.int64), minlength=len(evidence.names))
    order = [int(value) for value in np.argsort(-frequency, kind="stable")]
    return order if len(order) <= VALUES else order[: VALUES - 1]


def _merged_names(evidence: ColumnEvidence, order: Sequence[int]) -> list[str]:
    names = [evidence.names[value] for value in order]
    rest = len(evidence.names) - len(order)
    return [*names, f"{rest} others"] if rest else names


def _merged(values: FloatArray, order: Sequence[int]) -> IntArray:
    """Numbers of values in the order of those told apart; the last for all others."""
    places = {value: place for place, value in enumerate(order)}
    return np.array([places.get(int(value), len(order)) for value in values], dtype=np.int64)


def _scatter(evidence: ColumnEvidence, estimate: FloatArray) -> Chart:
    sample = evidence.sample(POINTS)
    return scatter(
        "True against estimated",
        evidence.unit,
        evidence.truth[sample],
        estimate[sample],
        guess=float(evidence.truth.mean()),
        values=_values(evidence),
    )


def _confusion(evidence: ColumnEvidence, estimate: FloatArray) -> Confusion:
    order = _most_frequent(evidence)
    names = _merged_names(evidence, order)
    table = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(table, (_merged(evidence.truth, order), _merged(estimate, order)), 1)
    totals = table.sum(axis=1)
    shares = table / np.maximum(1, totals)[:, None]
    return Confusion(tuple(names), tuple(tuple(map(float, row)) for row in shares), tuple(map(int, totals)))


def _errors(evidence: ColumnEvidence, done: Sequence[AttackFinding]) -> tuple[Chart | None, str]:
    """Draw one bar per attack, the least error first, with a note; the line is the best guess without a score."""
    ranking = sorted(
        ((evidence.error(evidence.estimates[one.attack]), one) for one in done if one.attack in evidence.estimates),
        key=lambda pair: pair[0],
    )
    if not ranking:
        return None, ""
    headline = evidence.answer.headline
    guess, largest = evidence.loss_in_units(shown_verdict(evidence.answer).e0), ranking[-1][0]
    end = max(min(largest, 2 * guess) if guess > 0 else largest, guess, 1e-12)
    rows = [
        Amount(
            f"{cut(one.attack, 36)} *" if knows_more(one, headline) else one.attack,
            error_words(evidence, error),
            error,
            "leak" if error < guess else "harmless",
        )
        for error, one in ranking
    ]
    title = f"By attack: {'named wrong' if evidence.is_category else 'typical error'}"
    chart = amounts(title, rows, end=end, guess=guess, guess_words=f"guessed anyway: {error_words(evidence, guess)}")
    notes = ["Bars end at twice the guess."] if largest > end else []
    if any(knows_more(one, headline) for _, one in ranking):
        notes.append(f"*: knows more beforehand than level {headline}.")
    return chart, " ".join(notes)


def error_words(evidence: ColumnEvidence, error: float) -> str:
    """Write an error as a person reads it: of categories a share, of dates days."""
    if evidence.is_category:
        return percent(error, 1)
    return f"± {number_words(error)}{' days' if evidence.is_date else ''}"


def knows_more(finding: AttackFinding, headline: Level = HEADLINE) -> bool:
    """Tell whether an attack needs to know more beforehand than the headline's level allows."""
    return LEVELS.index(finding.level) > LEVELS.index(headline)
