"""``plumbline whatif``: what an audited federation would give away with fewer or coarser columns."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from plumbline.cli.completion import run_names
from plumbline.cli.output import AsJson, console_out, plain_errors, print_json
from plumbline.terminal import folded_table, shown_text
from services.common.setting_texts import listed
from vfl.data.columns import COARSENINGS

if TYPE_CHECKING:
    from plumbline.judge.column_sets import WhatIf


def whatif(
    run: Annotated[
        str, typer.Argument(help="A run's folder, how its name begins, or latest.", autocompletion=run_names)
    ] = "latest",
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME,NAME=bins4",
            help=f"Only: passive columns to leave out, or to make coarser ({', '.join(COARSENINGS)}); of boosted trees "
            "settings too (own_trees=30, or a defence); repeat for sets side by side.",
        ),
    ] = None,
    confirm: Annotated[bool, typer.Option(help="Run the federation of what is chosen, or of each named set.")] = True,
    workers: Annotated[int | None, typer.Option(metavar="N", min=1, help="Processes; default: all cores.")] = None,
    runs: Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Folder of all runs.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Say which columns of an audited federation could go or be coarser, and what that costs in AUC.

    Of boosted trees it says besides what other settings leave, of columns and of labels.

    Each set of columns is SIMULATED: trained and attacked in one place, over the tables that the run was made from. A
    real federation confirms what is chosen. The run's report is written anew, with a section on it.

    Example: plumbline whatif latest
    Example: plumbline whatif runs/20260101-120000-bank --set nr.employed --set "age,euribor3m=bins4"
    """
    with plain_errors():
        from plumbline.audit.past_runs import find_run
        from plumbline.job_progress import shown_progress
        from plumbline.what_if.asking import Question, ask

        folder = find_run(run, runs)
        column_sets = tuple(tuple(listed(text)) for text in sets or ())
        with shown_progress(Console(stderr=as_json)) as progress:
            results = ask(folder, Question(column_sets, confirm, workers), progress)
        if as_json:
            print_json({"run": str(folder.path), "report": str(folder.report), **asdict(results)})
            return
        _print(results)
        console_out.print(f"Report: {folder.report}")


def _print(results: WhatIf) -> None:
    from plumbline.judge.column_sets import HEADINGS, sentences

    for title, rows in results.groups:
        Console().print(folded_table(f"{title} (SIMULATED)", HEADINGS, rows))
    for sentence in sentences(results):
        console_out.print(shown_text(sentence))
