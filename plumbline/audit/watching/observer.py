"""The auditor of a federation in containers: it watches, and writes the report when a model is served. Once.

python -m plumbline.audit.watching.observer --address active:50051 --pages /pages /runs/active /runs/passive

It shows the operator's certificate of PLUMBLINE_CERTS, and reads what parties wrote into their run folders, features
included (PLUMBLINE_RECORD_FEATURES). No party may do that.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from plumbline.audit.folder import versions
from plumbline.charts.drawings import loss_curve
from plumbline.charts.marks import Chart
from plumbline.federation import Federation, FederationFailed
from plumbline.federation_status import FederationStatus, JobStatus, StatusNews, status_lines, trouble_lines
from plumbline.report.html import template
from services.adversary.load import load_attacks
from services.common.durable import make_folder, write_durably
from services.common.identity import Role, role_of
from services.common.run_files import MOST_SHORT_BYTES, RunFolderError, parsed, read_json
from services.common.run_folder import RunFolder
from services.common.settings import Settings, load_settings
from services.common.words import escaped

if TYPE_CHECKING:
    from plumbline.judge.findings import Findings

# Why a page of services has other numbers than an audit's.
LESS_THAN_AN_AUDIT = (
    "These numbers are of one session of running services, and of what is mounted there: `plumbline audit` of the same "
    "tables measures more, and may find more."
)
_INDEX, _STATUS, _RUN, _REPORT = "index.html", "status.json", "run.json", "report.html"


@dataclass(frozen=True)
class Standing:
    """What is shown of the federation at work.

    Attributes:
        lines: what it is at and what it holds, a fact a line.
        trouble: what failed, or is unprotected.
        is_over: whether nothing changes any more until the auditor starts again.
        reports: how many there are: another number makes an open page load again.
        job: how far the job at work is; None without one.
        losses: validation losses that were seen, by epoch from 1.
    """

    lines: tuple[str, ...]
    trouble: tuple[str, ...] = ()
    is_over: bool = False
    reports: int = 0
    job: JobStatus | None = None
    losses: Mapping[int, float] = field(default_factory=dict)

    @property
    def chart(self) -> Chart | None:
        """The losses as a curve; None before there are two."""
        epochs = sorted(self.losses)
        last = max(self.job.epochs_planned if self.job else 0, *epochs, 2)
        return loss_curve(epochs, [self.losses[epoch] for epoch in epochs], last)


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

    @property
    def day(self) -> str:
        """When its report was written, in words; as it stands where it is no time."""
        try:
            when = datetime.fromisoformat(self.written)
        except ValueError:
            return self.written
        return f"{when.day} {when:%B %Y, %H:%M}"


def _entry(file: Path) -> RunEntry | None:
    """Read a run's entry; None where there is none that can be read: its report is made again."""
    try:
        return parsed(RunEntry, read_json(file, most=MOST_SHORT_BYTES), file)
    except RunFolderError:
        return None


class WatchPages:
    """Writes the folder that a page server shows: a first page, its status, and a report per session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shown: Standing | None = None

    def run_folder(self, session_id: str) -> Path:
        """Find the folder of a session's report, which is made when it isn't there.

        Raises ValueError for an id that would lead elsewhere: the active party chose it.
        """
        if not session_id.isalnum():
            raise ValueError("The active party names a session that no coordinator has made: train again.")
        folder = self._folder / "runs" / session_id[:8]
        make_folder(folder)
        return folder

    def report_of(self, session_id: str) -> Path:
        """Tell where a session's report is, or will be."""
        return self.run_folder(session_id) / _REPORT

    def add(self, session_id: str, entry: RunEntry) -> None:
        """List a run whose report has been written."""
        write_durably(self.run_folder(session_id) / _RUN, json.dumps(asdict(entry)).encode())

    def runs(self) -> list[RunEntry]:
        """List every run with a report, the newest first."""
        entries = map(_entry, (self._folder / "runs").glob(f"*/{_RUN}"))
        return sorted((one for one in entries if one is not None), key=lambda one: one.written)[::-1]

    def show(
        self,
        lines: Sequence[str],
        trouble: Sequence[str] = (),
        *,
        is_over: bool = False,
        job: JobStatus | None = None,
        losses: Mapping[int, float] | None = None,
    ) -> None:
        """Show what the federation is at; the list of runs goes with it."""
        runs = self.runs()
        standing = Standing(tuple(lines), tuple(trouble), is_over, len(runs), job, dict(losses or {}))
        if standing == self._shown:
            return
        # The page first: who loads it again finds the list that the status counts.
        page = template("watch.html").render(standing=standing, runs=runs)
        write_durably(self._folder / _INDEX, page.encode())
        write_durably(self._folder / _STATUS, json.dumps(asdict(standing)).encode())
        self._shown = standing


_SECONDS_BETWEEN_LOOKS = 1.0
# A passive party's own attacks on training may take so long after the model is served.
_PATIENCE = 300.0


class ObservationFailed(RuntimeError):
    """The federation's job failed, or what its parties wrote can't be judged."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Watch until a model is served, and write its report; 0 when it is there, 1 when there will be none."""
    parser = argparse.ArgumentParser(prog="python -m plumbline.audit.watching.observer", description=__doc__)
    parser.add_argument("--address", required=True, help="the active party, HOST:PORT")
    parser.add_argument("--pages", required=True, type=Path, help="folder for the pages")
    parser.add_argument("runs", nargs="+", type=Path, help="every party's run folder")
    options = parser.parse_args(arguments)
    pages = WatchPages(options.pages)
    try:
        settings = load_settings()
        with Federation.connect(options.address, settings.certs) as federation:
            status, seconds = watched(federation, pages)
            report(status, seconds, pages, options.runs, settings)
    except (ObservationFailed, ValueError, OSError) as error:
        pages.show([escaped(str(error), 2_000)], is_over=True)
        typer.echo(f"plumbline: {escaped(str(error), 2_000)}", err=True)
        return 1
    return 0


def watched(
    federation: Federation, pages: WatchPages, clock: Callable[[], float] = time.monotonic
) -> tuple[FederationStatus, float]:
    """Show what the federation is at until it serves a model.

    Returns:
        Its status then, and for how many seconds a job was watched; 0 where the model was there before.

    Raises:
        ObservationFailed: when the job failed.
    """
    news, began, losses = StatusNews(clock), math.inf, dict[int, float]()
    for look in _looks(federation):
        if isinstance(look, str):
            pages.show([look])
            continue
        for line in news.of(look):
            typer.echo(line)
        if look.stage == "serving":
            return look, max(0.0, clock() - began)
        if look.stage == "failed":
            raise ObservationFailed(f"The job failed: {look.failure}")
        if look.job is not None:
            began = min(began, clock())
            if look.job.validation_loss is not None:
                losses[look.job.epochs_done] = look.job.validation_loss
        pages.show(status_lines(look), trouble_lines(look), job=look.job, losses=losses)
    raise AssertionError("looks never end")


def _looks(federation: Federation) -> Iterator[FederationStatus | str]:
    """Look again and again: the status, or why there is none at the moment."""
    while True:
        try:
            yield federation.status()
        except FederationFailed as error:
            yield escaped(str(error), 2_000)
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def report(
    status: FederationStatus, seconds: float, pages: WatchPages, runs: Sequence[Path], settings: Settings
) -> None:
    """Judge the served model's session and write its report, unless it is there already.

    Args:
        status: of the federation that serves it.
        seconds: for how many its job was watched.
        pages: where the report goes.
        runs: every party's run folder.
        settings: with the attacks that parties mount, and whether they disclose parameters, as the parties have them.

    Raises:
        ValueError: for attacks that there aren't.
        ObservationFailed: when the parties' folders are of other sessions.
        RunFolderError: when a file is missing or broken.
    """
    lines, trouble = status_lines(status), trouble_lines(status)
    awaits_passive = bool(load_attacks(settings.attacks, settings.attack_options, Role.PASSIVE)[1])
    # Its entry is written after the report is complete.
    if _entry(pages.run_folder(status.session_id) / _RUN) is None:
        pages.show([*lines, "The auditor is judging what leaked."], trouble)
        with tempfile.TemporaryDirectory(prefix="plumbline-") as scratch:
            try:
                folder = _complete(runs, Path(scratch), status.session_id, awaits_passive=awaits_passive)
                _judge(folder, status.session_id, seconds, pages, settings)
            except RunFolderError as error:
                # Nobody but the auditor knows its own folder.
                reason = str(error).replace(f"{scratch}/", "").replace(scratch, " with ".join(map(str, runs)))
                raise RunFolderError(reason) from error
    pages.show(lines, trouble, is_over=True)
    typer.echo(f"The report of session {status.session_id[:8]} is there.")


class _Joined(RunFolder):
    """All parties' folders as one; what is said of a file names the party's own."""

    def _at(self, place: str) -> Path:
        link = super()._at(place)
        return link.readlink() if link.is_symlink() else link


def joined(runs: Sequence[Path], into: Path) -> RunFolder:
    """Join all parties' folders to one, as the judge reads them; nothing is copied."""
    for run in runs:
        for place in ("", "attacks"):
            (into / place).mkdir(exist_ok=True)
            for file in (run / place).glob("[!.]*.*"):
                if file.is_symlink() or not file.is_file():
                    raise RunFolderError(f"{file} is no ordinary file: remove it, and train again.")
                link = into / place / file.name
                if link.is_symlink() and link.readlink() != file.absolute():
                    raise RunFolderError(f"{file} is in another party's folder as well: remove the wrong one.")
                link.unlink(missing_ok=True)
                link.symlink_to(file.absolute())
    return _Joined(into)


def _complete(runs: Sequence[Path], scratch: Path, session_id: str, *, awaits_passive: bool) -> RunFolder:
    """Join the parties' folders, once all that they will write of a session is there."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        folder = joined(runs, scratch)
        if not (lacking := _lacking(folder, session_id, awaits_passive=awaits_passive)):
            return folder
        if time.monotonic() > deadline:
            raise ObservationFailed(lacking)
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _lacking(folder: RunFolder, session_id: str, *, awaits_passive: bool) -> str:
    """Say what isn't there yet of a session; empty when all of it is."""
    records = folder.records()
    agreements = [one.agreement for one in records.values() if one.agreement and one.agreement.session_id == session_id]
    names = {party.name for one in agreements for party in one.parties}
    if not names or len(agreements) < len(names):
        return (
            "The parties' run folders don't hold the session of the model that is served: give the auditor every "
            "party's folder, or train again."
        )
    passive = {name for name in names if role_of(name) is Role.PASSIVE}
    reporters = {one.party for one in folder.training_outcomes()}
    if awaits_passive and not passive <= reporters:
        return f"{' and '.join(sorted(passive - reporters))} wrote nothing of its attacks on training: see its log."
    return ""


def _judge(folder: RunFolder, session_id: str, seconds: float, pages: WatchPages, settings: Settings) -> None:
    # Only who judges needs what they take to load.
    from plumbline.judge.findings import read_findings
    from plumbline.report.page import write_report

    agreement = folder.record(Role.ACTIVE).agreement
    assert agreement is not None  # noqa: S101 - all of the session is there
    findings = read_findings(folder, [party.name for party in agreement.parties[1:]], session_id[:8])
    lacking = tuple(unmounted(findings, settings))
    why = (LESS_THAN_AN_AUDIT,) if lacking else ()
    unsaid = (*findings.answer.not_measured, *why, *lacking)
    findings = replace(findings, answer=replace(findings.answer, not_measured=unsaid))
    facts = {"versions": versions(), "seconds": seconds or sum(one.seconds for one in findings.summary.epochs)}
    summary = findings.summary
    write_report(pages.report_of(session_id), findings, facts, folder)
    pages.add(
        session_id,
        RunEntry(
            session=session_id[:8],
            written=datetime.now(UTC).isoformat(timespec="seconds"),
            sentence=findings.answer.sentence,
            light=findings.answer.light,
            accuracy=None if math.isnan(summary.accuracy) else summary.accuracy,
        ),
    )


def unmounted(findings: "Findings", settings: Settings) -> Iterator[str]:
    """Say what ``plumbline audit`` would have measured of this session besides, in sentences.

    Args:
        findings: of the session.
        settings: as ``report`` takes them.
    """
    from plumbline.audit.plan import applicable, scenario_of

    agreement = findings.summary.agreement
    can_be, left_out = applicable(
        scenario_of(agreement, is_white_box=settings.disclose, is_encrypted=agreement.plan.is_encrypted)
    )
    if unnamed := [name for name in can_be if name not in settings.attacks]:
        yield f"Not mounted, though an audit would: {', '.join(unnamed)}. PLUMBLINE_ATTACKS doesn't name them."
    if lacking := [one for one in left_out if not one.is_safe and one.attack not in settings.attacks]:
        yield f"Not mounted here: {'; '.join(f'{one.attack} {one.reason}' for one in lacking)}."
    if all(one.level == "nothing" for one in findings.predictions.attacks):
        yield "What those tell who know the columns' means or covariances was not measured: plumbline audit does."
    if findings.predictions.limit is None and agreement.plan.family.spec.trains:
        yield "What several sessions about the same records tell together was not measured: plumbline audit does."


if __name__ == "__main__":
    sys.exit(main())
