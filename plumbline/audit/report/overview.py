"""The first screen: columns ranked by what the federation gives away of them, labels by epoch."""

from collections.abc import Sequence
from dataclasses import dataclass

from attacks import Level
from plumbline.charts.axes import WHOLE, Axis
from plumbline.charts.drawings import PERCENT, Series, Share, lines, percent_words, share_bar
from plumbline.charts.marks import Chart
from plumbline.judge.answer import ColumnAnswer
from plumbline.judge.federation_part import HEADLINE, LevelVerdict
from plumbline.judge.findings import Findings
from plumbline.judge.training import TrainingFinding
from plumbline.judge.words import LEVEL_WORDS, distinct_levels

# Lines that a chart can tell apart.
_MOST_LINES = 5


@dataclass(frozen=True)
class RankedRow:
    """One column in the ranking of a level.

    Attributes:
        column: the verdict on it.
        number: of its card.
        part: the federation's part, in words.
        value: the same as a number, for sorting; -1 for none.
        bar: the same as a bar.
        anyway: what could be guessed anyway, and with the federation.
        attack: the best attack; empty without one.
    """

    column: ColumnAnswer
    number: int
    part: str
    value: float
    bar: Chart
    anyway: str
    attack: str


@dataclass(frozen=True)
class RankedLevel:
    """The ranking at one level of what the adversary knows beforehand.

    Attributes:
        level: its name.
        words: what the adversary knows.
        rows: the columns, most exposed first.
    """

    level: Level
    words: str
    rows: tuple[RankedRow, ...]


def ranked_levels(findings: Findings) -> list[RankedLevel]:
    """Rank the columns at every level that differs from the one before; nothing without columns."""
    columns = list(enumerate(findings.answer.columns, start=1))
    if not columns:
        return []
    return [
        RankedLevel(level, LEVEL_WORDS[level], tuple(sorted(_rows(columns, level), key=lambda row: -row.value)))
        for level in distinct_levels(findings.predictions)
    ]


def _rows(columns: Sequence[tuple[int, ColumnAnswer]], level: Level) -> list[RankedRow]:
    return [_row(column, number, level) for number, column in columns]


def _row(column: ColumnAnswer, number: int, level: Level) -> RankedRow:
    verdict = next(one for one in column.levels if one.level == level)
    part = verdict.part
    words = share_words(verdict)
    share = None if part is None else Share(part.mean, part.low, part.high)
    title = f"{column.column}: {bar_words(verdict)}"
    return RankedRow(
        column=column,
        number=number,
        part=words,
        value=-1.0 if part is None else part.mean,
        bar=share_bar(title, share, "leak" if verdict.is_exposed else "harmless"),
        anyway=_anyway(column, level),
        attack=verdict.attack,
    )


def share_words(verdict: LevelVerdict) -> str:
    """The federation's part in percent; why there is none where there isn't."""
    if verdict.part is None:
        return "known anyway" if verdict.attack else "not measured"
    return percent_words(verdict.part.mean)


def bar_words(verdict: LevelVerdict) -> str:
    """The federation's part with its interval."""
    if verdict.part is None:
        return share_words(verdict)
    part = verdict.part
    ends = f"{100 * part.low:.0f} to {100 * part.high:.0f} %"
    return f"{percent_words(part.mean)} of what was unknown, 95 % interval {ends}"


def _anyway(column: ColumnAnswer, level: Level) -> str:
    """How often the column's value is known by a guess, and with the scores."""
    known = next((one for one in column.known if one.level == level), None)
    if known is None:
        return ""
    guessed = f"{column.known_as}: {percent_words(1 - known.e0)} anyway"
    if known.error is None:
        return guessed
    # Who has the scores can still guess.
    more = percent_words(1 - known.error) if known.error < known.e0 else "no more"
    one = next((share_words(own) for own in column.one_session if own.level == level), "")
    return f"{guessed}, {more} with scores" + (f"; after one session alone the share is {one}" if one else "")


# -- labels ------------------------------------------------------------------------------------------------------------


def labels_by_epoch(training: Sequence[TrainingFinding]) -> Chart | None:
    """Draw which share of labels each attack had right after each epoch, beside guessing; None without any."""
    followed = [one for one in training if one.so_far][:_MOST_LINES]
    if not followed:
        return None
    last = max(len(one.so_far) for one in followed)
    guess = max((_guessed(one) for one in followed if one.levels), default=None)
    series = [
        Series(_attack_by(one), tuple(map(float, range(1, len(one.so_far) + 1))), one.so_far, f"s{number}")
        for number, one in enumerate(followed, start=1)
    ]
    across = Axis(1, max(2, last), "epoch", WHOLE)
    if guess is not None:
        series.append(Series("guessing the most frequent class", (1.0, float(max(2, last))), (guess, guess), "guess"))
    return lines("Labels told right so far, by epoch", series, across, Axis(0, 1, values=PERCENT), height=170)


def _guessed(finding: TrainingFinding) -> float:
    return 1 - next(one.e0 for one in finding.levels if one.level == HEADLINE)


def _attack_by(finding: TrainingFinding) -> str:
    return f"{finding.attack} by {finding.party}"
