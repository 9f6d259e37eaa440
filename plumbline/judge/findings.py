"""Everything that a run tells an auditor: its summary, what attacks found, and the answer to a person."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, overload

from plumbline.judge.answer import Answer, ColumnAnswer
from plumbline.judge.answering import answer_of
from plumbline.judge.federation_part import LevelVerdict
from plumbline.judge.how_far import Progress, silent
from plumbline.judge.measures import Interval
from plumbline.judge.predictions import AttackFinding, PredictionFindings, read_prediction_findings
from plumbline.judge.summary import RunSummary, read_summary
from plumbline.judge.training import TrainingFinding, read_training_findings
from services.common.run_folder import RunFolder
from services.common.run_records import content_of

if TYPE_CHECKING:
    import pandas as pd

Finding = AttackFinding | TrainingFinding


@dataclass(frozen=True, eq=False)
class Findings(Sequence[Finding]):
    """What one run gave away. As a sequence: what each attack found, those on predictions first.

    Attributes:
        summary: the run's terms, quality, times and traffic.
        predictions: what attacks on predictions reconstructed, and the verdicts.
        training: what attacks on training found.
        answer: the verdict in words, with lights.
        trials: defences that were tried, with what they left of the leak.
    """

    summary: RunSummary
    predictions: PredictionFindings
    training: tuple[TrainingFinding, ...]
    answer: Answer
    trials: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.predictions.attacks) + len(self.training)

    def __iter__(self) -> Iterator[Finding]:
        return iter((*self.predictions.attacks, *self.training))

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | Sequence[Finding]:
        found: tuple[Finding, ...] = (*self.predictions.attacks, *self.training)
        return found[index]

    def to_frame(self) -> "pd.DataFrame":
        """A table of one row per column of the passive tables and level of what the adversary knows beforehand.

        Shares of records are NaN where no attack of the level ran, parts as well where nothing is left to give away.
        """
        import pandas as pd

        rows = [_row(one, level, known) for one in self.answer.columns for level, known in _levels(one)]
        return pd.DataFrame(rows, columns=_FRAME)

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON has it: plain lists and dictionaries; ``results.json`` of an audit."""
        return {
            **asdict(self.summary),
            "predictions": content_of(self.summary.predictions),
            **asdict(self.predictions),
            "training_attacks": [asdict(finding) for finding in self.training],
            "answer": asdict(self.answer),
            "largest_part": self.answer.largest_part,
        }


# Columns of ``Findings.to_frame``.
_FRAME = (
    *("party", "column", "kind", "light", "level", "known_as", "known_by_guessing", "known", "part", "part_low"),
    *("part_high", "attack", "guess"),
)


def _levels(one: ColumnAnswer) -> Iterator[tuple[LevelVerdict, LevelVerdict]]:
    return zip(one.levels, one.known, strict=True)


def _row(one: ColumnAnswer, verdict: LevelVerdict, known: LevelVerdict) -> tuple[Any, ...]:
    """One column at one level, as ``_FRAME`` names it."""
    nan = float("nan")
    part = verdict.part or Interval(nan, nan, nan)
    return (
        *(one.party, one.column, one.kind, one.light, verdict.level, one.known_as, 1 - known.e0),
        nan if known.error is None else 1 - known.error,
        *(part.mean, part.low, part.high, verdict.attack, verdict.baseline),
    )


def read_findings(
    folder: RunFolder,
    passive_names: Sequence[str],
    name: str,
    *,
    titles: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Findings:
    """Judge a run from its folder.

    Args:
        folder: what the parties wrote.
        passive_names: names of the passive parties, in the agreement's order.
        name: of the run.
        titles: what a person calls each party, such as its table's name; its name by default.
        progress: called with what is being judged, how much is done and of how much.

    Raises:
        RunFolderError: when a file is missing or broken, or no session began.
    """
    summary = read_summary(folder, name)
    told = progress or silent
    predictions = read_prediction_findings(folder, passive_names, progress=told)
    training = tuple(read_training_findings(folder, progress=told))
    return Findings(summary, predictions, training, answer_of(summary, predictions, training, titles or {}))
