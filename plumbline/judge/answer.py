"""The answer to a person: one sentence, a light per party, and what became of each column of the passive tables."""

from dataclasses import dataclass
from typing import Literal

from attacks import Level
from plumbline.judge.federation_part import LevelVerdict
from plumbline.judge.sources import SourceKind

# What a verdict in one sentence is measured at: means and frequencies are often published, records hardly ever.
HEADLINE: Level = "marginals"
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
