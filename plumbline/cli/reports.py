"""``plumbline runs`` and ``plumbline report``: what past audits found, beside each other and once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from plumbline.cli.completion import run_names
from plumbline.cli.output import INTERRUPTED, AsJson, console_out, plain_errors, print_json
from plumbline.terminal import folded_table, shown

if TYPE_CHECKING:
    from plumbline.audit.past_runs import Fact

app = typer.Typer(no_args_is_help=False, invoke_without_command=True, help="List past audits, or compare two.")

_Runs = Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Folder of all runs.")]
_RUNS = Path("runs")
_A_RUN = "A run's folder, its name or how that begins, or latest."
_STYLES = {"finished": "green", "running": "yellow"}


@app.callback()
def list_runs(context: typer.Context, runs: _Runs = _RUNS, as_json: AsJson = False) -> None:
    """List the runs of a folder, newest first: what each asked, how it ended, and what it found.

    Example: plumbline runs
    Example: plumbline runs --runs audits --json
    Example: plumbline runs compare latest 20260101-120000-bank
    """
    if context.invoked_subcommand is not None:
        return
    from plumbline.audit.past_runs import past_runs

    with plain_errors():
        listed_runs = past_runs(runs)
        if as_json:
            print_json([asdict(run) for run in listed_runs])
            return
        if not listed_runs:
            console_out.print(f"There is no run in {runs}: `plumbline audit` makes one.")
            return
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(overflow="fold")
        for run in listed_runs:
            head = Text(run.folder.name, style="bold").append(f"  {run.status}", style=_STYLES.get(run.status, "red"))
            table.add_row(head)
            area = run.area_words and f"Test AUC {run.area_words}."
            for line in filter(None, (run.what, run.headline, area)):
                table.add_row(Padding(Text(shown(line)), (0, 0, 0, 2)))
        Console().print(table)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(help=_A_RUN, autocompletion=run_names)],
    second: Annotated[str, typer.Argument(help="The other one.", autocompletion=run_names)],
    runs: _Runs = _RUNS,
    as_json: AsJson = False,
) -> None:
    """Show two runs side by side: settings that differ, what leaked of columns and in training, costs, quality.

    Example: plumbline runs compare 20260101-120000-bank latest
    """
    from plumbline.audit.past_runs import compare_runs, find_run

    with plain_errors():
        folders = [find_run(name, runs).path for name in (first, second)]
        comparison = compare_runs(*folders)
        if as_json:
            shown_lists = ("settings", "leaks", "columns", "training", "quality", "costs")
            lists: dict[str, Sequence[Fact]] = {name: getattr(comparison, name) for name in shown_lists}
            pairs = {name: list(map(_pair, facts)) for name, facts in lists.items()}
            print_json({"runs": [str(folder) for folder in folders], **pairs, "verdicts": _pair(comparison.verdicts)})
            return
        names = [folder.resolve().name for folder in folders]
        for title, rows in comparison.sections:
            if rows:
                Console().print(folded_table(title, ("", *names), rows))
        for name, sentence in zip(names, comparison.verdicts.values, strict=True):
            console_out.print(f"{name}: {shown(sentence) or 'no verdict'}")


def report(
    run: Annotated[str, typer.Argument(help=_A_RUN, autocompletion=run_names)] = "latest",
    runs: _Runs = _RUNS,
    of_party: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Instead: one party's own folder (its PLUMBLINE_RUN_DIR)."),
    ] = None,
    annex: Annotated[
        bool, typer.Option("--annex", help="Also two pages for an impact assessment (GDPR): annex.pdf, annex.docx.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Judge a run once more, and write its report again from its folder; or tell what one party may know of a session.

    Example: plumbline report latest
    Example: plumbline report runs/20260101-120000-bank --annex
    Example: plumbline report --from federation/laboratory/run
    """
    if of_party is not None:
        with plain_errors():
            if annex:
                raise typer.BadParameter("An annex is of a whole run, which no party has: leave out --from or --annex.")
            _report_of_party(of_party, as_json=as_json)
        return
    from plumbline.audit.past_runs import find_run, results_in
    from plumbline.audit.run import report_again, write_annex
    from plumbline.received.judging import is_judged, judged_again
    from plumbline.received.received_annex import annex_of_received
    from plumbline.report.annex import Annex, RunPapers, annex_of
    from plumbline.report.annex_files import check_installed

    with plain_errors():
        if annex:
            check_installed()
        folder = find_run(run, runs)
        make: Callable[[RunPapers, int], Annex]
        if is_judged(folder):
            received = judged_again(folder)
            answer, make = received.answer, partial(annex_of_received, received)
        else:
            findings = report_again(folder)
            answer, make = findings.answer, partial(annex_of, findings)
        written = [str(one) for one in write_annex(folder, make)] if annex else []
        if as_json:
            more = {"annex": written} if annex else {}
            print_json({"run": str(folder.path), "report": str(folder.report), **more, **results_in(folder.path)})
            return
        console_out.print(shown(answer.sentence))
        console_out.print(f"Report: {folder.report}")
        if annex:
            console_out.print(f"Annex: {' and '.join(written)}")


def ui(
    runs: _Runs = _RUNS,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Of 127.0.0.1; 0: any that is free.")] = 8090,
) -> None:
    """Show the runs of a folder in a browser of this machine until Ctrl-C: list, filter, compare, open reports.

    Example: plumbline ui
    Example: plumbline ui --runs audits --port 0
    """
    from plumbline.audit.watching.page_server import page_server
    from plumbline.audit.watching.run_pages import RunPagesHandler

    with plain_errors():
        if runs.exists() and not runs.is_dir():
            raise ValueError(f"{runs} is no folder: give the folder of all runs with --runs.")
        try:
            server = page_server(runs.absolute(), ("127.0.0.1", port), RunPagesHandler)
        except OSError as error:
            raise ValueError(f"Port {port} can't be had ({error.strerror}): give another with --port.") from error
        with server:
            console_out.print(f"Runs in {runs}: http://127.0.0.1:{server.server_address[1]}/ (Ctrl-C ends this)")
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                raise typer.Exit(INTERRUPTED) from None


def _report_of_party(folder: Path, *, as_json: bool) -> None:
    from plumbline.report.party_report import read_party, write_party_report
    from services.common.run_folder import RunFolder

    view, page = read_party(RunFolder(folder)), folder / "report.html"
    write_party_report(page, view)
    if as_json:
        print_json({**view.content(), "report": str(page)})
        return
    console_out.print(shown(view.sentence))
    console_out.print(f"Report: {page}")


def _pair(fact: Fact) -> dict[str, Any]:
    return {"what": fact.what, "first": fact.values[0], "second": fact.values[1]}
