"""From an answer to the document of its first screen: a line for each column, beside the sentence and the matrix."""

from attacks import Level
from plumbline.judge.answer import (
    Answer,
    ColumnAnswer,
    errors_words,
    hits_words,
    log_words,
    part_words,
    read_words,
    without_part,
)
from plumbline.judge.federation_part import at
from plumbline.telling.document import ColumnLine, Document, Glance


def document_of(answer: Answer, glance: Glance | None = None) -> Document:
    """Make the first screen of an answer; ``glance``: its matrix, and the sentence that goes before it."""
    first, *rest = [*([glance.sentence] if glance else []), *answer.sentences] or [""]
    return Document(first, answer.light, glance, lines_of(answer), tuple(rest))


def lines_of(answer: Answer, level: Level | None = None) -> tuple[ColumnLine, ...]:
    """Say what is told of each column, at one level or at what its light is of first."""
    return tuple(
        column_line(one, answer.called(one.party), level, number) for number, one in enumerate(answer.columns, start=1)
    )


def column_line(column: ColumnAnswer, party: str, level: Level | None = None, number: int = 0) -> ColumnLine:
    """Say what is told of a column.

    Args:
        column: the verdict on it.
        party: whose it is, as a person calls it.
        level: what the adversary knows beforehand; None for what the column's light is of first.
        number: its place among all columns.
    """
    level = level or column.headline
    verdict = at(column.levels, level)
    guess, attack = errors_words(column, level)
    return ColumnLine(
        column=column.column,
        party=party,
        light=column.light,
        role=column.role,
        level=level,
        guess=guess,
        attack=attack,
        part=verdict.part,
        without=without_part(verdict),
        by=verdict.attack,
        alone=part_words(at(column.one_session, level)).partition(" (")[0] if column.one_session else "",
        more=tuple(filter(None, (words(column, level) for words in (log_words, hits_words, read_words)))),
        is_exposed=verdict.is_exposed,
        number=number,
    )
