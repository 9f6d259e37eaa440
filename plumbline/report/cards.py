"""A card for each column: how it is distributed, what the best attack made of it, and how far each attack is off.

Truth and estimates are in the units of the owner's table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attacks import LEVELS, Level
from plumbline.charts.axes import NUMBERS, Values, number_words
from plumbline.charts.dates import DAYS
from plumbline.charts.drawings import counts, cut, histogram, scatter
from plumbline.charts.marks import Chart
from plumbline.judge.answer import ColumnAnswer, error_words, own, part_words
from plumbline.judge.columns import Category, Source
from plumbline.judge.federation_part import HEADLINE, LevelVerdict
from plumbline.judge.findings import Findings
from plumbline.judge.predictions import AttackFinding, ColumnLeakage
from plumbline.judge.truth import Truth
from plumbline.telling.document import Shade, Table
from plumbline.telling.numbers import percent
from services.common.run_folder import RunFolder
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
    """

    answer: ColumnAnswer
    names: tuple[str, ...]
    unit: str
    truth: FloatArray
    estimates: dict[str, FloatArray]
    absent: int = 0

    @property
    def values(self) -> Values:
        """What kind its numbers are: days, or any."""
        return DAYS if self.answer.kind == "date" and self.unit == "" else NUMBERS

    def named_wrong(self, attack: str) -> float:
        """Measure the share of a category's values that an attack names wrong."""
        return float((self.estimates[attack] != self.truth).mean()) if len(self.truth) else float("nan")

    def sample(self, most: int) -> IntArray:
        """Numbers of ``most`` records at most, the same for the same column."""
        count = len(self.truth)
        return np.sort(np.random.default_rng(0).permutation(count)[:most])


Evidence = Mapping[ColumnAnswer, ColumnEvidence]


def evidence_of(findings: Findings) -> Evidence:
    """Read what is true of each column of a run; nothing where its folder is gone. Raises RunFolderError."""
    passive = [party.name for party in findings.summary.parties[1:]]
    return read_evidence(findings.folder, findings.answer.columns, passive)


def read_evidence(folder: RunFolder | None, columns: Sequence[ColumnAnswer], parties: Sequence[str]) -> Evidence:
    """Read what is true of each column and what attacks estimated of it; nothing where no attack wrote estimates.

    Args:
        folder: what the parties of a run wrote; None where it is gone.
        columns: verdicts on columns of the passive parties' tables.
        parties: names of the passive parties, in the agreement's order.

    Raises:
        RunFolderError: when a file is missing or broken.
    """
    if folder is None or not columns or not folder.prediction_outcomes():
        return {}
    estimates = folder.estimates(0)
    truth, features = Truth(folder, parties, estimates), [folder.features(party) for party in parties]
    offsets = [np.zeros(len(one.names)) if one.offsets is None else one.offsets for one in features]
    scales = [np.full(len(one.names), np.nan) if one.scales is None else one.scales for one in features]
    reader = _Reader(truth, np.concatenate(offsets), np.concatenate(scales), {"": truth.cells, **estimates.by_attack})
    sources = {(one.party, one.name): one for one in truth.sources}
    return {column: reader.column(column, sources[column.party, column.column]) for column in columns}


@dataclass(frozen=True, eq=False)
class _Reader:
    """Reads columns from the attacked records' cells.

    Attributes:
        truth: of the attacked records.
        offsets: of every passive feature, in units of its owner's table.
        scales: likewise; NaN where it has no unit, and older runs say none.
        cells: what is true, by an empty name, and estimates by attack.
    """

    truth: Truth
    offsets: FloatArray
    scales: FloatArray
    cells: Mapping[str, FloatArray]

    def column(self, answer: ColumnAnswer, source: Source) -> ColumnEvidence:
        category, feature = source.category, source.value
        # Others were filled in by the owner.
        there = np.ones(len(self.truth.cells), dtype=bool)
        if source.missing is not None:
            there = source.missing.symbols(self.truth.cells) == 0
        unit, names = "" if np.isfinite(self.scales[feature]) else "on its encoded scale", tuple[str, ...]()
        if category is not None:
            unit, names = "", self._value_names(source, category)
            values = {name: category.symbols(array)[there].astype(np.float64) for name, array in self.cells.items()}
        else:
            values = {name: self._in_units(feature, array[there, feature]) for name, array in self.cells.items()}
        return ColumnEvidence(answer, names, unit, values.pop(""), values, int((~there).sum()))

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
_DISTRIBUTION, _AGAINST = "How it is distributed", "True against estimated"
_CONFUSED = "Percent of the records of a true value (row) that are taken for which (column)."
_NAMED = "How many records each attack names right."
_MEASURES = "Attack|>Off by|>Squared error|>Share|>R²|>Known|>Covered|>Bits"
_ENCODED = (
    "Off by: typically, in the table's units; all else is on the encoded scale. R²: 1 is exact, 0 as good as the mean. "
    "Known: off by 5 % of the usual range at most. Bits: what is unknown of a column of few values, before and after."
)


@dataclass(frozen=True)
class Card:
    """What the page shows of one column.

    Attributes:
        answer: the verdict on it.
        attack: whose estimates are shown; empty without an attack.
        level: at which the attack is the best one: the headline's, or where none is of that, the first with one.
        sessions: after how many sessions that attack is.
        absent: number of records without a value, which are left out.
        figures: how true and estimated values are distributed, and one against the other.
        measures: what each attack makes of the column; None where none was judged.
    """

    answer: ColumnAnswer
    attack: str
    level: str
    sessions: int
    absent: int
    figures: tuple[Chart | Table, ...]
    measures: Table | None


def cards_of(columns: Sequence[ColumnAnswer], evidence: Evidence, found: Sequence[AttackFinding]) -> list[Card]:
    """Make the cards of columns, in their order.

    Args:
        columns: verdicts on columns.
        evidence: truth and estimates of each; a column without any has a card of words.
        found: what each attack reconstructed.
    """
    done = [one for one in found if one.mse is not None and one.sees_scores]
    return [_card(column, evidence.get(column), done) for column in columns]


def _card(column: ColumnAnswer, evidence: ColumnEvidence | None, done: Sequence[AttackFinding]) -> Card:
    best, measures = shown_verdict(column), _measures(column, evidence, done)
    sessions = next((one.sessions for one in done if one.attack == best.attack), 1)
    figures, absent = tuple[Chart | Table, ...](), 0 if evidence is None else evidence.absent
    if evidence is not None and len(evidence.truth):
        draw = _figures_of_names if evidence.names else _figures_of_numbers
        figures = tuple(draw(evidence, evidence.estimates.get(best.attack)))
    return Card(column, best.attack, best.level, sessions, absent, figures, measures)


def shown_verdict(column: ColumnAnswer) -> LevelVerdict:
    """Choose the verdict whose attack a card shows: the headline level's, or that of the first with an attack."""
    at_least = [one for one in column.levels if LEVELS.index(one.level) >= LEVELS.index(column.headline)]
    return next((one for one in at_least if one.attack), at_least[0])


def _figures_of_numbers(evidence: ColumnEvidence, estimate: FloatArray | None) -> Iterator[Chart]:
    truth, unit, values = evidence.truth, evidence.unit, evidence.values
    yield histogram(_DISTRIBUTION, unit, truth, estimate, values=values)
    if estimate is not None:
        sample, guess = evidence.sample(POINTS), float(truth.mean())
        yield scatter(_AGAINST, unit, truth[sample], estimate[sample], guess=guess, values=values)


def _figures_of_names(evidence: ColumnEvidence, estimate: FloatArray | None) -> Iterator[Chart | Table]:
    """Tell the most frequent values apart; all others go together."""
    frequency = np.bincount(evidence.truth.astype(np.int64), minlength=len(evidence.names))
    order = np.argsort(-frequency, kind="stable")
    order = order if len(order) <= VALUES else order[: VALUES - 1]
    places = np.full(len(evidence.names), len(order))
    places[order] = np.arange(len(order))
    names = [evidence.names[value] for value in order]
    if others := len(evidence.names) - len(order):
        names.append(f"{others} others")
    true = places[evidence.truth.astype(np.int64)]
    shares = np.bincount(true, minlength=len(names)) / len(true)
    if estimate is None:
        yield counts(_DISTRIBUTION, names, shares, None)
        return
    guessed = places[estimate.astype(np.int64)]
    yield counts(_DISTRIBUTION, names, shares, np.bincount(guessed, minlength=len(names)) / len(true))
    taken = np.zeros((len(names), len(names)))
    np.add.at(taken, (true, guessed), 1)
    taken /= np.maximum(1, taken.sum(axis=1))[:, None]
    rows = tuple((name, *(Shade(float(share)) for share in row)) for name, row in zip(names, taken, strict=True))
    yield Table(_AGAINST, _CONFUSED, ("true", *names), rows)


def _measures(column: ColumnAnswer, evidence: ColumnEvidence | None, done: Sequence[AttackFinding]) -> Table | None:
    """List attacks, the one that errs least first, beneath what anyone could guess."""
    is_named, feature = column.kind in ("category", "code"), column.features[0]
    rows = list[tuple[float, tuple[str, ...]]]()
    for finding in done:
        name = starred(finding, column.headline)
        if not is_named and feature < len(finding.columns):
            leakage = finding.columns[feature]
            error = (own(leakage.levels).error if leakage.levels else None) or leakage.mse.mean
            rows.append((error, (name, error_words(column, error), *_encoded(leakage))))
        elif is_named and evidence is not None and finding.attack in evidence.estimates:
            error = evidence.named_wrong(finding.attack)
            rows.append((error, (name, error_words(column, error))))
    if not rows:
        return None
    headings, caption = ("Attack|>Named", _NAMED) if is_named else (_MEASURES, _ENCODED)
    guess = ("guessed anyway", error_words(column, shown_verdict(column).e0), *[""] * (len(rows[0][1]) - 2))
    star = f" *: knows more beforehand than level {column.headline}." if any("*" in row[0] for _, row in rows) else ""
    title = f"Measures of {cut(column.column, 40)} by attack"
    return Table.of(title, caption + star, headings, (guess, *(row for _, row in sorted(rows))))


def _encoded(leakage: ColumnLeakage) -> Iterator[str]:
    """Write what an attack tells of a number, on the encoded scale."""
    yield f"{leakage.mse.mean:.4f}"
    yield part_words(own(leakage.levels)) if leakage.levels else "-"
    yield "-" if leakage.r_squared is None else f"{leakage.r_squared:.2f}"
    yield percent(leakage.within)
    yield percent(leakage.coverage)
    yield "-" if leakage.entropy is None else f"{leakage.entropy:.2f}, {leakage.remaining_entropy:.2f}"


def starred(finding: AttackFinding, headline: Level = HEADLINE) -> str:
    """Name an attack, with a star where it needs to know more beforehand than the headline's level allows."""
    return f"{finding.attack} *" if LEVELS.index(finding.level) > LEVELS.index(headline) else finding.attack
