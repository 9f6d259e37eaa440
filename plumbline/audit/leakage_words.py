"""What the judge found of columns and labels, in words that a person can act on, for the console and the page."""

from collections.abc import Sequence

from attacks import LEVELS, Level
from plumbline.judge.answer import HEADLINE
from plumbline.judge.federation_part import LevelVerdict
from plumbline.judge.federation_part import at as at_level
from plumbline.judge.measures import Interval
from plumbline.judge.predictions import PredictionFindings
from plumbline.judge.verdicts import CategoryVerdict, ColumnVerdict
from plumbline.judge.wording import KNOWING_MORE, label_sentences, share_words

__all__ = ["HEADLINE", "label_sentences", "share_words"]

# What each level means, for a person.
LEVEL_WORDS: dict[Level, str] = {
    "nothing": "public ranges only",
    "marginals": "each column's mean and variance, or frequencies",
    "covariance": "also how the passive columns vary together",
    "records": "also the declared complete records",
}
# The same of labels, for a passive party.
LABEL_LEVEL_WORDS: dict[Level, str] = {
    "nothing": "the classes only",
    "marginals": "how frequent each class is",
    "records": "also up to 1,000 labelled records, which is assumed and not declared",
}


def at(levels: Sequence[LevelVerdict], level: Level = HEADLINE) -> LevelVerdict:
    """The verdict of one level, the headline's by default."""
    return at_level(levels, level)


def own(levels: Sequence[LevelVerdict]) -> LevelVerdict:
    """One attack's verdict at the headline level, or at its own where that is higher."""
    return next((one for one in levels if one.level == HEADLINE), levels[0])


def distinct_levels(findings: PredictionFindings) -> list[Level]:
    """Levels at which anything can differ from the level before: some attack or guess needs to know just that much."""
    needed = {"nothing", HEADLINE, *(one.level for one in findings.attacks if one.mse is not None)}
    needed |= {one.level for one in findings.baselines}
    return [level for level in LEVELS if level in needed]


def exposed(findings: PredictionFindings, level: Level = HEADLINE) -> list[ColumnVerdict]:
    """Columns of which the federation gave something away beyond chance, the most exposed first."""
    found = [column for column in findings.columns if at(column.squared, level).is_exposed]
    return sorted(found, key=lambda column: -_mean(at(column.squared, level).part))


def ranked(findings: PredictionFindings) -> list[ColumnVerdict]:
    """All columns, the most exposed first; where that is the same, by the levels that know more."""

    def parts(column: ColumnVerdict) -> tuple[float, float]:
        return _mean(at(column.squared).part), max(_mean(at(column.squared, level).part) for level in KNOWING_MORE)

    return sorted(findings.columns, key=parts, reverse=True)


def _mean(part: Interval | None) -> float:
    return -1.0 if part is None else part.mean


def part_words(verdict: LevelVerdict) -> str:
    """The federation's part with its interval, why there is none, or a dash where no attack ran."""
    if verdict.part is not None:
        return share_words(verdict.part)
    return "n/a" if verdict.attack else "-"


def bare_part_words(verdict: LevelVerdict) -> str:
    """The same without the interval."""
    return part_words(verdict).partition(" (")[0]


def more_words(verdict: LevelVerdict) -> str:
    """How much more often an attack is right, in points with the interval: ``12 (8 to 16)``; none if it is not."""
    if verdict.removed is None:
        return "-"
    one = verdict.removed
    return f"{one.mean * 100:.1f} ({one.low * 100:.1f} to {one.high * 100:.1f})" if one.mean > 0 else "none"


def column_name(column: ColumnVerdict, findings: PredictionFindings) -> str:
    """A column's name, with its owner's where there are several."""
    several = len({one.party for one in findings.columns}) > 1
    return f"{column.column} of {column.party}" if several else column.column


def category_name(category: CategoryVerdict) -> str:
    """A category's name: its column's, or the first and last of its group."""
    if len(category.columns) == 1:
        return category.columns[0]
    return f"{category.columns[0]} ... {category.columns[-1]}"


def verdict_sentences(findings: PredictionFindings, most: int = 5) -> list[str]:
    """Say which columns the federation gave away, and how much of what was unknown; empty without an attack.

    Args:
        findings: of an audit.
        most: how many columns to name.
    """
    if not any(verdict.attack for column in findings.columns for verdict in column.squared):
        return []
    # Where a level has no attack of its own, what it is given is what the level before was.
    given = {_given_only_at(level, findings): level for level in reversed(KNOWING_MORE)}
    known_more = [f"At level {level}, though, {words}" for words, level in reversed(given.items()) if words]
    if not any(at(column.squared).attack for column in findings.columns):
        return [f"No attack could be mounted that knows no more beforehand than level {HEADLINE}.", *known_more]
    found = exposed(findings)
    sentences = [_sentence(column, findings) for column in found[:most]]
    if more := len(found[most:]):
        exposed_too = "1 more column is" if more == 1 else f"{more} more columns are"
        sentences.append(f"{exposed_too} exposed; the report has every column.")
    if rest := len(findings.columns) - len(found):
        others = f"the other {rest} columns" if rest > 1 else "the other column"
        beyond = f"of {others}" if found else "of any column"
        sentences.append(
            f"Beyond chance, no attack told more {beyond} than is known without a score at level {HEADLINE}."
        )
    return [*sentences, *known_more]


def _given_only_at(level: Level, findings: PredictionFindings) -> str:
    """What a level that knows more is given of columns that aren't exposed at the headline's; empty for nothing."""
    found = [column for column in exposed(findings, level) if not at(column.squared).is_exposed]
    if not found:
        return ""
    verdict, others = at(found[0].squared, level), len(found) - 1
    share = "" if verdict.part is None else share_words(verdict.part)
    more = f", and something of {others} more column{'s' if others > 1 else ''}" if others else ""
    return (
        f"the federation gives away {share} of what was unknown of "
        f"{column_name(found[0], findings)}, by {verdict.attack}{more}."
    )


def _sentence(column: ColumnVerdict, findings: PredictionFindings) -> str:
    verdict = at(column.squared)
    if verdict.part is None:
        raise ValueError(f"{column.column} has no part at level {verdict.level}: only exposed columns have a sentence.")
    return (
        f"{column_name(column, findings)}: the federation gives away {share_words(verdict.part)} of what was unknown "
        f"at level {verdict.level}, by {verdict.attack}."
    )
