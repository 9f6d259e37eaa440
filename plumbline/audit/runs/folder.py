"""Where an audit writes: one folder per run, with what the parties wrote of it inside."""

from dataclasses import dataclass
from pathlib import Path

from plumbline.audit.runs.run_status import RunStatus, read_status
from services.common.run_folder import RunFolder


@dataclass(frozen=True)
class AuditFolder:
    """The files of one audit.

    Attributes:
        path: ``<runs>/<time>-<name>``.
    """

    path: Path

    @property
    def status(self) -> RunStatus | None:
        """Whether it is running, finished, failed or stopped; None where that was never written."""
        return read_status(self.path)

    @property
    def parties(self) -> RunFolder:
        """What the services write; all parties of an audit share it."""
        return RunFolder(self.path / "parties")

    @property
    def logs(self) -> Path:
        """A log per party."""
        return self.path / "logs"

    @property
    def models(self) -> Path:
        """Parts of a model that was trained in the lab."""
        return self.path / "models"

    @property
    def auxiliary(self) -> Path:
        """Complete records that the adversary was given."""
        return self.path / "auxiliary.parquet"

    @property
    def prior_knowledge(self) -> Path:
        """Statistics of the passive columns that the adversary was given."""
        return self.path / "prior-knowledge.json"

    @property
    def config(self) -> Path:
        """The request, versions and duration."""
        return self.path / "config.json"

    @property
    def results(self) -> Path:
        """Every number of the report."""
        return self.path / "results.json"

    @property
    def report(self) -> Path:
        """The page."""
        return self.path / "report.html"
