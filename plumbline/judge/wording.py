"""Words of a verdict that every reader shares: shares, lists of names, a sentence for each column and label attack."""

from collections.abc import Sequence

from attacks import LEVELS, Level
from plumbline.judge.answer import HEADLINE
from plumbline.judge.federation_part import LevelVerdict, at
from plumbline.judge.lights import is_open, light_of
from plumbline.judge.measures import Interval
from plumbline.judge.training import TrainingFinding
from plumbline.judge.verdicts import SourceVerdict
from services.common.words import escaped

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
    if at(levels, HEADLINE).is_exposed:
        return ""
    return next((ONCE_IT_KNOWS[level] for level in KNOWING_MORE if at(levels, level).is_exposed), "")


def column_sentence(verdict: SourceVerdict) -> str:
    """Say what an adversary knows of a column with the federation and without it."""
    more = ""
    if verdict.missing and light_of(verdict.missing) in ("red", "amber"):
        more = "; whether it is there is given away too"
    return f"{short(verdict.column)}: {_known(verdict)}{more}"


def _known(verdict: SourceVerdict) -> str:
    headline, known = at(verdict.levels, HEADLINE), at(verdict.known, HEADLINE)
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
    frequencies, records = at(finding.levels, HEADLINE), at(finding.levels, "records")
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
        f"{frequencies.level}, by {finding.attack}{own}."
    )
