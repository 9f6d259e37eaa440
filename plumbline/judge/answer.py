"""The answer to a person: a few sentences, a light per party, and what became of each column of the passive tables."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attacks import LEVELS, Level
from plumbline.charts.axes import number_words
from plumbline.judge.evidence import ColumnLevels, SourceVerdict
from plumbline.judge.federation_part import HEADLINE, LEAST_KNOWN, LevelVerdict, at
from plumbline.judge.lights import KNOWING_MORE, LEAST_RECORDS, are_too_few, is_open, leaks_whether_there
from plumbline.judge.predictions import PredictionFindings
from plumbline.judge.training import TrainingFinding
from plumbline.telling.document import Light
from plumbline.telling.numbers import percent, share_words
from services.common.words import escaped
from vfl.data.faults import counted


@dataclass(frozen=True, kw_only=True)
class ColumnAnswer(ColumnLevels):
    """What the federation gives away of one column of a passive party's table, to a person.

    Attributes:
        light: by the rule of ``plumbline.judge.lights``.
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
        besides: the worst of what else counts than its columns' lights, or its labels': what training gave away, and
            grey for what wasn't tried.
    """

    party: str
    light: Light
    words: str
    title: str = ""
    besides: Light = "green"


@dataclass(frozen=True)
class Answer:
    """The verdict on a federation.

    Attributes:
        sentences: who can learn what of whom, in plain words; of columns first.
        light: the worst of all parties'; ``green`` only where each party's is.
        parties: the active party first.
        columns: every column of the passive tables, the most exposed first.
        labels: a sentence for each attack on labels.
        not_measured: sentences about leaks that this run can say nothing of.
        label_levels: the verdict on each attack on labels, level by level.
        sessions: after how many sessions the lights of columns hold, and what one alone tells; empty where nobody says.
        rarest: the part of labels of the rarest class, by each attack that was shown to find them.
    """

    sentences: tuple[str, ...]
    light: Light
    parties: tuple[PartyAnswer, ...]
    columns: tuple[ColumnAnswer, ...]
    labels: tuple[str, ...] = ()
    not_measured: tuple[str, ...] = ()
    label_levels: tuple[tuple[LevelVerdict, ...], ...] = ()
    sessions: str = ""
    rarest: tuple[float, ...] = ()

    @property
    def sentence(self) -> str:
        """All sentences in one line."""
        return " ".join(self.sentences)

    def called(self, party: str) -> str:
        """Name a party as a person does beside others: its table's name; its own where nobody gave a title."""
        title = next((one.title for one in self.parties if one.party == party), "")
        return title if title and title != f"the {party} party" else party

    @property
    def largest_part(self) -> float | None:
        """The largest federation's part at the headline level, of columns and labels; None where none was measured.

        Of all that lights rest on but whether a value is there: means, names and persons. What isn't shown either way
        counts with its estimate; what fewer than ``LEAST_RECORDS`` judge doesn't count.
        """
        headlines = [
            *(at(one, column.headline) for column in self.columns for one in column.measures if not are_too_few(one)),
            *(at(one) for one in self.label_levels if not are_too_few(one)),
        ]
        return max((*self.rarest, *(one.part.mean for one in headlines if one.part is not None)), default=None)


# Of a name that somebody else chose, in a sentence; and of names in a list.
_MOST_LETTERS, _MOST_NAMES = 40, 5
# What an adversary of these levels has beyond the headline's.
ONCE_IT_KNOWS: dict[Level, str] = {"covariance": "how the columns vary together", "records": "some complete records"}


def short(name: str) -> str:
    """Write a name as one printable word group of bounded length, whoever chose it."""
    return escaped(name, _MOST_LETTERS)


def quoted(column: str) -> str:
    """Mark a column's own name, which may be words that say something else: “worst radius”."""
    return f"“{short(column)}”"


def listed(names: Sequence[str], most: int = _MOST_NAMES, write: Callable[[str], str] = short) -> str:
    """Write names in one line: all of a few, else the first and how many more there are; columns are ``quoted``."""
    first_names = [write(name) for name in names[:most]]
    return ", ".join(first_names) + (f" and {len(names) - most} more" if len(names) > most else "")


def together(names: Sequence[str]) -> str:
    """Write the names of all, the last after "and"."""
    *first, last = [short(name) for name in names]
    return f"{', '.join(first)} and {last}" if first else last


def judged_words(findings: PredictionFindings) -> str:
    """Say how many records judge, and how many differ from all others by more than rounding."""
    return f"{counted(findings.records, 'test record')}, {findings.distinct:,} distinct"


def once_it_knows(column: ColumnLevels) -> str:
    """Say what an adversary must know beyond the headline's level to be given something; empty where it needn't."""
    if column.is_exposed():
        return ""
    return next((ONCE_IT_KNOWS[level] for level in KNOWING_MORE if column.is_exposed(level)), "")


# From this share of records on, a guess knows nearly all: hits tell nobody's leak then.
_NEARLY_ALL = 0.9


def error_words(column: ColumnLevels, loss: float) -> str:
    """Write a mean loss as a person reads it: ``± 43`` in the table's units, ``± 12 days``, ``39 % right`` of names."""
    if column.kind in ("category", "code"):
        return f"{percent(1 - loss)} right"
    off = math.sqrt(max(0.0, loss))
    if column.unit is None:
        return f"± {percent(off)}"
    return f"± {number_words(column.unit * off)}{' days' if column.kind == 'date' else ''}"


def errors_words(column: ColumnLevels, level: Level | None = None) -> tuple[str, str]:
    """Say what the best guess and the best attack are off by; of the attack nothing where none was judged."""
    verdict = at(column.levels, level or column.headline)
    return error_words(column, verdict.e0), "" if verdict.error is None else error_words(column, verdict.error)


def hits_words(column: ColumnLevels, level: Level | None = None) -> str:
    """Say how many records are known, by the attack made for that; empty where a guess knows as many or nearly all.

    Of what is named, the error itself says it.
    """
    verdict = next((one for one in column.known if one.level == (level or column.headline)), None)
    if verdict is None or verdict.error is None or column.kind in ("category", "code"):
        return ""
    if verdict.e0 < 1 - _NEARLY_ALL or verdict.error >= verdict.e0:
        return ""
    return f"{column.known_as} in {percent(1 - verdict.error)} of records, {percent(1 - verdict.e0)} by guessing"


def read_words(column: ColumnLevels, level: Level | None = None) -> str:
    """Say how many records are read nearly exactly, where that is a leak beyond what a guess reads; else empty."""
    verdict = at(column.read, level or column.headline) if column.read else None
    if verdict is None or not verdict.is_exposed or verdict.error is None:
        return ""
    return f"{percent(1 - verdict.error)} of records read nearly exactly, {percent(1 - verdict.e0)} by guessing"


def log_words(column: ColumnLevels, level: Level | None = None) -> str:
    """Say how much of what was unknown on a log scale is told of a skewed column, where that is a leak; else empty."""
    logs = at(column.logs, level or column.headline) if column.logs else None
    if logs is None or not logs.is_exposed or logs.part is None:
        return ""
    return f"on a log scale {share_words(logs.part)} of what was unknown"


def column_sentence(verdict: SourceVerdict, teller: str = "the federation") -> str:
    """Say what an adversary knows of a column with the ``teller`` and without it."""
    coded = "; it was made a code, and not measured as a number" if verdict.kind == "code" else ""
    more = "; whether it is there is given away too" if leaks_whether_there(verdict) else ""
    role = f" ({verdict.role})" if verdict.role else ""
    return f"{short(verdict.column)}{role}: {_known(verdict, teller)}{coded}{more}"


def _known(verdict: SourceVerdict, teller: str) -> str:
    headline = at(verdict.levels, verdict.headline)
    if not any(one.attack for one in verdict.levels):
        return "not measured"
    guess, attack = errors_words(verdict)
    by_guessing = f"{guess} by guessing"
    if are_too_few(verdict.levels):
        return f"{by_guessing}; {headline.records} records are too few to say more, {LEAST_RECORDS} are needed"
    if verdict.is_exposed():
        comparison = f"{guess} by guessing, {attack} with {teller}" if headline.is_exposed else by_guessing
        return "; ".join(filter(None, (comparison, log_words(verdict), hits_words(verdict), read_words(verdict))))
    if knowing := once_it_knows(verdict):
        return f"{by_guessing}; more is given to who knows {knowing}"
    if not headline.attack:
        return f"{by_guessing}; no attack that knows no more was tried"
    if headline.part is None:
        return "published" if verdict.role == "public" else f"{by_guessing}: nothing is left to give away"
    if (most := at(verdict.levels, "records")).knows_few:
        records = counted(most.known or 0, "known record")
        return f"{by_guessing}; {records} are too few to say more, {LEAST_KNOWN} are needed"
    if any(is_open(one, verdict.headline) for one in verdict.measures):
        return f"{by_guessing}; whether attacks do a tenth better is not shown either way"
    return f"{by_guessing}, and no attack does a tenth better"


def label_sentences(findings: Sequence[TrainingFinding]) -> list[str]:
    """Say how much training gave away of labels beyond their frequencies, and beyond a party's own classifier."""
    return [_label_sentence(one) for one in findings if one.levels]


def _label_sentence(finding: TrainingFinding) -> str:
    frequencies, records = at(finding.levels), at(finding.levels, "records")
    if frequencies.part is None:
        return f"labels: {finding.party} knows them from how frequent each class is; nothing is left to give away."
    if are_too_few(finding.levels):
        return f"labels: {frequencies.records} of them are too few to say what {finding.attack} told {finding.party}."
    rarest = f" {finding.rarest.words}" if finding.rarest is not None else ""
    if not frequencies.is_exposed:
        if records.is_exposed and records.part is not None:
            return (
                f"labels: once it knows some labels, the federation gives {finding.party} {share_words(records.part)} "
                f"of what its {records.baseline} leaves unknown, by {records.attack}.{rarest}"
            )
        if frequencies.is_small:
            return f"labels: {finding.attack} told {finding.party} under a tenth of what was unknown.{rarest}"
        claim = f"{finding.attack} told {finding.party} a tenth of what was unknown"
        return f"labels: whether {claim} is not shown either way.{rarest}"
    to_records = ""
    if records.baseline != frequencies.baseline:
        share = "n/a" if records.part is None else share_words(records.part)
        to_records = f" To its {records.baseline} it gives {share} of what that leaves unknown."
    control = f" {finding.control.words}" if finding.control is not None and finding.control.words else ""
    return (
        f"labels: the federation gives {finding.party} {share_words(frequencies.part)} of what was unknown at level "
        f"{frequencies.level}, by {finding.attack}.{rarest}{to_records}{control}"
    )


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
    """Find one attack's verdict at the headline level, or at its own where that is higher."""
    return next((one for one in levels if one.level == HEADLINE), levels[0])


def distinct_levels(findings: PredictionFindings) -> list[Level]:
    """Levels at which anything can differ from the level before: some attack or guess needs to know just that much."""
    needed = {"nothing", HEADLINE, *(one.level for one in findings.attacks if one.mse is not None)}
    needed |= {one.level for one in findings.baselines}
    return [level for level in LEVELS if level in needed]


def part_words(verdict: LevelVerdict) -> str:
    """Write the federation's part with its interval, or why there is none."""
    return without_part(verdict) if verdict.part is None else share_words(verdict.part)


def without_part(verdict: LevelVerdict) -> str:
    """Say why a verdict has no part: nothing was unknown, or no attack ran; empty where it has one."""
    if verdict.part is not None:
        return ""
    return "known anyway" if verdict.attack else "not measured"
