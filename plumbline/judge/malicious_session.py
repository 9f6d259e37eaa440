"""The session of an audit in which attacks sent other messages than the protocol's: its model, and what it cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.judge.answer import together
from plumbline.judge.summary import RunSummary, read_summary
from plumbline.judge.training import TrainingFinding
from services.common.run_folder import RunFolder
from vfl.learning.score_quality import area_figure


@dataclass(frozen=True)
class MaliciousSession:
    """A session beside the audited one, over the same records, that nothing else is judged of.

    Attributes:
        attacks: names of the attacks that were mounted in it, each with its party's.
        accuracy: of the test records; NaN without any.
        auc: area under the ROC curve over test records; NaN where a class is absent.
        steps: of training.
        seconds: of all epochs.
        bytes: of all messages.
    """

    attacks: tuple[str, ...]
    accuracy: float
    auc: float
    steps: int
    seconds: float
    bytes: int

    def words(self, audited: RunSummary) -> str:
        """Say which attacks had the session, what their messages did to its model, and what it cost beside its own."""
        area, audited_area = (area_figure(auc, audited.tested_by_class) for auc in (self.auc, audited.auc))
        return (
            "In a session of its own, over the same records, other messages than the protocol's were sent by "
            f"{together(self.attacks)}: the AUC of its model is {area}, where that of the audited one is "
            f"{audited_area}. It took {self.seconds:.1f} s of training and {self.bytes / 1e6:.1f} MB more."
        )


def read_malicious_session(folder: RunFolder, training: Sequence[TrainingFinding]) -> MaliciousSession | None:
    """Read the session in which a run's attacks sent other messages; None where there was none.

    Args:
        folder: what parties wrote of the audited session.
        training: what attacks on training found.

    Raises:
        RunFolderError: when a file of it is missing or broken.
    """
    attacks = tuple(f"{one.attack} by {one.party}" for one in training if one.has_own_session)
    if not attacks:
        return None
    summary = read_summary(folder.malicious, "")
    seconds = sum(epoch.seconds for epoch in summary.epochs)
    return MaliciousSession(attacks, summary.accuracy, summary.auc, summary.steps, seconds, summary.total_bytes)
