"""The auditor of a federation in containers: it watches, and writes the report when a model is served. Once.

python -m plumbline.audit.watching.observer --address active:50051 --pages /pages /runs/active /runs/passive

It shows the operator's certificate of PLUMBLINE_CERTS, and reads what parties wrote into their run folders, features
included (PLUMBLINE_RECORD_FEATURES). No party may do that.
"""

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import typer

from plumbline.audit.runs.run_facts import versions
from plumbline.audit.watching.watch_pages import RunEntry, WatchPages
from plumbline.federation import Federation, FederationFailed
from plumbline.federation_status import FederationStatus
from plumbline.status_words import StatusNews, status_lines, trouble_lines
from services.adversary.load import load_attacks
from services.common.identity import Role, role_of
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.settings import load_settings
from services.common.words import escaped

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
    given = parser.parse_args(arguments)
    pages = WatchPages(given.pages)
    try:
        settings = load_settings()
        mounted = load_attacks(settings.attacks, settings.attack_options, Role.PASSIVE)[1]
        with Federation.connect(given.address, settings.certs) as federation:
            status, seconds = watched(federation, pages)
            report(status, seconds, pages, given.runs, awaits_passive=bool(mounted))
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
    news, began = StatusNews(clock), math.inf
    for found in _looks(federation):
        if isinstance(found, str):
            pages.show([found])
            continue
        for line in news.of(found):
            typer.echo(line)
        if found.stage == "serving":
            return found, max(0.0, clock() - began)
        if found.stage == "failed":
            raise ObservationFailed(f"The job failed: {found.failure}")
        if found.job is not None:
            began = min(began, clock())
        pages.show(status_lines(found), trouble_lines(found))
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
    status: FederationStatus, seconds: float, pages: WatchPages, runs: Sequence[Path], *, awaits_passive: bool
) -> None:
    """Judge the served model's session and write its report, unless it is there already.

    Raises:
        ObservationFailed: when the parties' folders are of other sessions.
        RunFolderError: when a file is missing or broken.
    """
    lines, trouble = status_lines(status), trouble_lines(status)
    if not pages.has_run(status.session_id):
        pages.show([*lines, "The auditor is judging what leaked."], trouble)
        with tempfile.TemporaryDirectory(prefix="plumbline-") as scratch:
            try:
                folder = _complete(runs, Path(scratch), status.session_id, awaits_passive=awaits_passive)
                _judge(folder, status.session_id, seconds, pages)
            except RunFolderError as error:
                # Nobody but the auditor knows its own folder.
                said = str(error).replace(f"{scratch}/", "").replace(scratch, " with ".join(map(str, runs)))
                raise RunFolderError(said) from error
    pages.show(lines, trouble, is_over=True)
    typer.echo(f"The report of session {status.session_id[:8]} is there.")


class _Joined(RunFolder):
    """All parties' folders as one; what is said of a file names the party's own."""

    def _at(self, place: str) -> Path:
        link = super()._at(place)
        return link.readlink() if link.is_symlink() else link


def joined(runs: Sequence[Path], into: Path) -> RunFolder:
    """All parties' folders as one, as the judge reads them; nothing is copied."""
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
    """The parties' folders, joined, once all that they will write of a session is there."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        folder = joined(runs, scratch)
        if not (lacking := _lacking(folder, session_id, awaits_passive=awaits_passive)):
            return folder
        if time.monotonic() > deadline:
            raise ObservationFailed(lacking)
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _lacking(folder: RunFolder, session_id: str, *, awaits_passive: bool) -> str:
    """What isn't there yet of a session, in a sentence; empty when all of it is."""
    records = folder.records()
    agreements = [one.agreement for one in records.values() if one.agreement and one.agreement.session_id == session_id]
    names = {party.name for one in agreements for party in one.parties}
    if not names or len(agreements) < len(names):
        return (
            "The parties' run folders don't hold the session of the model that is served: give the auditor every "
            "party's folder, or train again."
        )
    passive = {name for name in names if role_of(name) is Role.PASSIVE}
    told = {one.party for one in folder.training_outcomes()}
    if awaits_passive and not passive <= told:
        return f"{' and '.join(sorted(passive - told))} wrote nothing of its attacks on training: see its log."
    return ""


def _judge(folder: RunFolder, session_id: str, seconds: float, pages: WatchPages) -> None:
    # Only who judges needs what they take to load.
    from plumbline.audit.report.page import write_report
    from plumbline.judge.findings import read_findings

    agreement = folder.record(Role.ACTIVE).agreement
    assert agreement is not None  # noqa: S101 - all of the session is there
    findings = read_findings(folder, [party.name for party in agreement.parties[1:]], session_id[:8])
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


if __name__ == "__main__":
    sys.exit(main())
