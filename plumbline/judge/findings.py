"""Everything that a run tells an auditor: its summary, what attacks found, and the answer to a person."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload

from plumbline.judge.answer import Answer
from plumbline.judge.answering import answer_of
from plumbline.judge.how_far import Progress, silent
from plumbline.judge.predictions import AttackFinding, PredictionFindings, read_prediction_findings
from plumbline.judge.summary import RunSummary, read_summary
from plumbline.judge.training import TrainingFinding, read_training_findings
from plumbline.judge.trials import DefenceTrial
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.run_records import content_of
from services.common.words import escaped

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
        folder: what the parties wrote of the run; None where these findings are of no run on disk.
    """

    summary: RunSummary
    predictions: PredictionFindings
    training: tuple[TrainingFinding, ...]
    answer: Answer
    trials: tuple[DefenceTrial, ...] = ()
    folder: RunFolder | None = None

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

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON has it: plain lists and dictionaries; ``results.json`` of an audit."""
        return {
            **asdict(self.summary),
            "predictions": content_of(self.summary.predictions),
            **asdict(self.predictions),
            "training_attacks": [asdict(finding) for finding in self.training],
            "answer": asdict(self.answer),
            "largest_part": self.answer.largest_part,
            "trials": [asdict(one) for one in self.trials],
        }


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
    names = {party.name for party in summary.parties}
    if strangers := [escaped(one.party, 200) for one in training if one.party not in names]:
        raise RunFolderError(
            f"{folder.path} has a file training-{strangers[0]}.json, of a party that wasn't in the session: remove it."
        )
    answer = answer_of(summary, predictions, training, titles or {})
    return Findings(summary, predictions, training, answer, folder=folder)
