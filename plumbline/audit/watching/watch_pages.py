"""The pages of a federation that is watched: what it is doing, a list of its reports, and the reports."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from plumbline.html import template
from services.common.durable import make_folder, write_durably
from services.common.run_files import RunFolderError, parsed, read_json

_INDEX, _STATUS, _RUN, _REPORT = "index.html", "status.json", "run.json", "report.html"


@dataclass(frozen=True)
class Standing:
    """What is shown of the federation at work.

    Attributes:
        lines: what it is at and what it holds, a fact a line.
        trouble: what failed, or is unprotected.
        is_over: whether nothing changes any more until the auditor starts again.
        reports: how many there are: another number makes an open page load again.
    """

    lines: tuple[str, ...]
    trouble: tuple[str, ...] = ()
    is_over: bool = False
    reports: int = 0


@dataclass(frozen=True)
class RunEntry:
    """One run in the list.

    Attributes:
        session: the beginning of its session's id, and the name of its folder.
        written: when its report was, UTC, ISO 8601.
        sentence: the report's verdict.
        light: green, amber, red or grey.
        accuracy: of the model on the test records; None without any.
    """

    session: str
    written: str
    sentence: str
    light: str
    accuracy: float | None


def _entry(file: Path) -> RunEntry | None:
    """A run's entry; None where there is none that can be read: its report is made again."""
    try:
        entry: RunEntry = parsed(RunEntry, read_json(file), file)
    except RunFolderError:
        return None
    return entry


class WatchPages:
    """Writes the folder that a page server shows: a first page, its status, and a report per session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shown: Standing | None = None

    def run_folder(self, session_id: str) -> Path:
        """The folder of a session's report, which is made when it isn't there.

        Raises ValueError for an id that would lead elsewhere: the active party chose it.
        """
        if not session_id.isalnum():
            raise ValueError("The active party names a session that no coordinator has made: train again.")
        folder = self._folder / "runs" / session_id[:8]
        make_folder(folder)
        return folder

    def report_of(self, session_id: str) -> Path:
        """Where a session's report is, or will be."""
        return self.run_folder(session_id) / _REPORT

    def has_run(self, session_id: str) -> bool:
        """Whether a session's report is complete: its entry is written after it."""
        return _entry(self.run_folder(session_id) / _RUN) is not None

    def add(self, session_id: str, entry: RunEntry) -> None:
        """List a run whose report has been written."""
        write_durably(self.run_folder(session_id) / _RUN, json.dumps(asdict(entry)).encode())

    def runs(self) -> list[RunEntry]:
        """Every run with a report, the newest first."""
        entries = map(_entry, (self._folder / "runs").glob(f"*/{_RUN}"))
        return sorted((one for one in entries if one is not None), key=lambda one: one.written)[::-1]

    def show(self, lines: Sequence[str], trouble: Sequence[str] = (), *, is_over: bool = False) -> None:
        """Show what the federation is at; the list of runs goes with it."""
        runs = self.runs()
        standing = Standing(tuple(lines), tuple(trouble), is_over, len(runs))
        if standing == self._shown:
            return
        # The page first: who loads it again finds the list that the status counts.
        page = template("watch.html").render(standing=standing, runs=runs)
        write_durably(self._folder / _INDEX, page.encode())
        write_durably(self._folder / _STATUS, json.dumps(asdict(standing)).encode())
        self._shown = standing
