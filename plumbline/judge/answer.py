"""The answer to a person: one sentence, a light per party, and what became of each column of the passive tables.

Thresholds of lights and their reasons stand in docs/measure.md. What wasn't measured is grey, and never green.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from plumbline.judge.columns import SourceKind
from plumbline.judge.evidence import SourceVerdict
from plumbline.judge.federation_part import HEADLINE, LevelVerdict, at
from plumbline.judge.training import TrainingFinding

# What a light says; grey: not measured, so never a word of safety.
Light = Literal["green", "amber", "red", "grey"]


@dataclass(frozen=True)
class ColumnAnswer:
    """What the federation gives away of one column of a passive party's table.

    Attributes:
        party: name of the owner.
        column: name of the column in the owner's table.
        kind: what it is judged as: numbers and dates by squared errors, codes and categories by wrong names.
        light: ``red`` from half of what was unknown, ``amber`` for anything beyond chance.
        levels: the federation's part by what the adversary knows beforehand, ``nothing`` first.
        sentence: what an adversary knows of the column with the federation and without it.
        features: which columns of the passive features are of it; the parties' stand in the agreement's order.
        known: shares of records that aren't known, level by level: ``e0`` by a guess, ``error`` by the best attack.
        known_as: what counts as known: ``within 5``, ``within 30 days``, ``guessed right``.
        one_session: as ``levels``, of one session alone; empty where ``levels`` are of no more.
    """

    party: str
    column: str
    kind: SourceKind
    light: Light
    levels: tuple[LevelVerdict, ...]
    sentence: str
    features: tuple[int, ...]
    known: tuple[LevelVerdict, ...] = ()
    known_as: str = ""
    one_session: tuple[LevelVerdict, ...] = ()


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
