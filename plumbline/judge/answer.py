"""The answer to a person: one sentence, a light per party, and what became of each column of the passive tables.

Thresholds of lights and their reasons stand in docs/measure.md. What wasn't measured is grey, and never green.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from attacks import LEVELS, Level
from plumbline.judge.evidence import CategoryVerdict, ColumnLevels, ColumnVerdict, SourceVerdict
from plumbline.judge.federation_part import HEADLINE, LevelVerdict, at
from plumbline.judge.measures import Interval
from plumbline.judge.predictions import PredictionFindings
from plumbline.judge.training import TrainingFinding
from services.common.words import escaped

# What a light says; grey: not measured, so never a word of safety.
Light = Literal["green", "amber", "red", "grey"]


@dataclass(frozen=True, kw_only=True)
class ColumnAnswer(ColumnLevels):
    """What the federation gives away of one column of a passive party's table, to a person.

    Attributes:
        light: ``red`` from half of what was unknown, ``amber`` for anything beyond chance.
        sentence: what an adversary knows of the column with the federation and without it.
    """

    light: Light
    sentence: str = ""


@dataclass(frozen=True)
class PartyAnswer:
    """What one party risks: a passive party its columns, the active one its labels.

    Attributes:
        party: its name.
        light: the worst of what it risks; ``grey`` where nothing of it was measured.
        words: the same in a sentence.
        title: what a person calls it, such as its table's name; its name by default.
    """

    party: str
    light: Light
    words: str
    title: str = ""


@dataclass(frozen=True)
class Answer:
    """The verdict on a federation.

    Attributes:
        sentence: who can learn what of whom, in plain words.
        light: the worst of all parties'; ``green`` only where each party's is.
        parties: the active party first.
        columns: every column of the passive tables, the most exposed first.
        labels: a sentence for each attack on labels.
        not_measured: sentences about leaks that this run can say nothing of.
        label_levels: the verdict on each attack on labels, level by level.
        sessions: after how many sessions the lights of columns hold, and what one alone tells; empty where nobody says.
    """

    sentence: str
    light: Light
    parties: tuple[PartyAnswer, ...]
    columns: tuple[ColumnAnswer, ...]
    labels: tuple[str, ...] = ()
    not_measured: tuple[str, ...] = ()
    label_levels: tuple[tuple[LevelVerdict, ...], ...] = ()
    sessions: str = ""

    @property
    def largest_part(self) -> float | None:
        """The largest federation's part at the headline level, of columns and labels; None where none was measured."""
        verdicts = (*(column.levels for column in self.columns), *self.label_levels)
        headlines = (one for levels in verdicts for one in levels if one.level == HEADLINE)
        return max((one.part.mean for one in headlines if one.part is not None), default=None)


# From this share of what was unknown on, a leak is red: most of what there was to protect is gone.
RED_PART = 0.5
# From this share on, what training gave away besides labels is more than rounding and luck.
AMBER_SHARE = 0.05
_WORST: tuple[Light, ...] = ("red", "amber", "grey", "green")


def worst(lights: Sequence[Light]) -> Light:
    """The worst of several lights: what wasn't measured comes before what is safe. Grey for none."""
    return next((light for light in _WORST if light in lights), "grey")


def light_of(levels: Sequence[LevelVerdict]) -> Light:
    """Red from half of what was unknown at the headline's level; amber beyond chance there or for who knows more.

    Grey where nobody tried at the headline's level, or on so few records that a leak worth red may hide in chance.
    """
    headline = at(levels)
    if headline.is_exposed and headline.part is not None and headline.part.mean >= RED_PART:
        return "red"
    if headline.is_closer or any(one.is_exposed for one in levels if one.level != "nothing"):
        return "amber"
    return "green" if headline.attack and not is_open(levels) else "grey"


def is_open(levels: Sequence[LevelVerdict]) -> bool:
    """Whether chance could hide what would be red at the headline's level: of too few records, nobody can say."""
    headline = at(levels)
    return headline.part is not None and not headline.is_exposed and headline.part.high >= RED_PART


def light_of_column(verdict: SourceVerdict) -> Light:
    """A column's own; where that is green but whether a value is there was given away, amber."""
    light = light_of(verdict.levels)
    if light == "green" and verdict.missing and light_of(verdict.missing) in ("red", "amber"):
        return "amber"
    return light


def light_of_training(finding: TrainingFinding) -> Light:
    """What an attack on training gave away: labels by the federation's part, anything else by the share it got right.

    Products are sums over a party's columns, so they are amber at most.
    """
    if finding.levels:
        return light_of(finding.levels)
    if not finding.is_scored:
        return "grey"
    share = finding.success * finding.resolved
    if share >= RED_PART and finding.kind != "products":
        return "red"
    return "amber" if share >= AMBER_SHARE else "green"


# Of a name that somebody else chose, in a sentence; and of names in a list.
_MOST_LETTERS, _MOST_NAMES = 40, 5
# Levels beyond the headline's.
KNOWING_MORE = LEVELS[LEVELS.index(HEADLINE) + 1 :]
# What an adversary of these levels has beyond the headline's.
ONCE_IT_KNOWS: dict[Level, str] = {
    "covariance": "how the columns vary together",
    "records": "some complete records",
}


def short(name: str) -> str:
    """A name as one printable word group of bounded length, whoever chose it."""
    return escaped(name, _MOST_LETTERS)


def listed(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    """Names in one line: all of a few, else the first and how many more there are."""
    shown = [short(name) for name in names[:most]]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")


def together(names: Sequence[str]) -> str:
    """Names of all, the last after "and"."""
    *first, last = [short(name) for name in names]
    return f"{', '.join(first)} and {last}" if first else last


def percent(share: float) -> str:
    """A share in whole percent, which says 0 and 100 of nothing and everything only: ``74 %``, ``over 99 %``."""
    rounded = round(share * 100)
    if rounded == 100 and share < 1:
        return "over 99 %"
    return "under 1 %" if rounded == 0 and share > 0 else f"{rounded} %"


def share_words(interval: Interval) -> str:
    """A share with its interval: ``43 % (38 to 48)``."""
    return f"{interval.mean * 100:.0f} % ({interval.low * 100:.0f} to {interval.high * 100:.0f})"


def once_it_knows(levels: Sequence[LevelVerdict]) -> str:
    """What an adversary must know beyond the headline's level to be given anything; empty if it needn't, or isn't."""
    if at(levels).is_exposed:
        return ""
    return next((ONCE_IT_KNOWS[level] for level in KNOWING_MORE if at(levels, level).is_exposed), "")


def column_sentence(verdict: SourceVerdict) -> str:
    """Say what an adversary knows of a column with the federation and without it."""
    more = ""
    if verdict.missing and light_of(verdict.missing) in ("red", "amber"):
        more = "; whether it is there is given away too"
    return f"{short(verdict.column)}: {_known(verdict)}{more}"


def _known(verdict: SourceVerdict) -> str:
    headline, known = at(verdict.levels), at(verdict.known)
    if not any(one.attack for one in verdict.levels):
        return "not measured"
    guess = percent(1 - known.e0)
    if headline.is_exposed and known.error is not None and known.error < known.e0:
        return f"{verdict.known_as} in {percent(1 - known.error)} of records, {guess} without the federation"
    if headline.is_exposed:
        closer = f"estimated closer than a guess is, though not more often {verdict.known_as}"
        return f"{closer} ({guess} of records without the federation)"
    by_guessing = f"{verdict.known_as} in {guess} of records by guessing"
    if knowing := once_it_knows(verdict.levels):
        return f"{by_guessing}; more is given to who knows {knowing}"
    if headline.is_closer:
        return f"{by_guessing}, for few values are far from the others; an attack comes closer still"
    if not headline.attack:
        return f"{by_guessing}; no attack that knows no more was tried"
    if is_open(verdict.levels):
        return f"{by_guessing}; too few records to tell what an attack adds from chance"
    if headline.part is None:
        return f"{by_guessing}: nothing is left to give away"
    return f"{by_guessing}, and no attack did better"


def label_sentences(findings: Sequence[TrainingFinding]) -> list[str]:
    """Say how much training gave away of labels beyond their frequencies, and beyond a party's own classifier."""
    return [_label_sentence(one) for one in findings if one.levels]


def _label_sentence(finding: TrainingFinding) -> str:
    frequencies, records = at(finding.levels), at(finding.levels, "records")
    if frequencies.part is None:
        return f"labels: {finding.party} knows them from how frequent each class is; nothing is left to give away."
    if not frequencies.is_exposed:
        return f"labels: {finding.attack} told {finding.party} no more than how frequent each class is."
    own = ""
    if records.baseline != frequencies.baseline:
        left = "n/a" if records.part is None else share_words(records.part)
        own = f"; {left} of what is unknown to its {records.baseline}"
    return (
        f"labels: the federation gives {finding.party} {share_words(frequencies.part)} of what was unknown at level "
        f"{frequencies.level}, by {finding.attack}{own}{_control_words(finding)}."
    )


def _control_words(finding: TrainingFinding) -> str:
    return f"; {finding.control.words}" if finding.control is not None and finding.control.words else ""


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
