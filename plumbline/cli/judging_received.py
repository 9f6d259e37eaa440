"""``plumbline judge``: what columns that were received tell of secret ones, whoever made them."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from plumbline.cli.audits import check_place, check_threshold
from plumbline.cli.output import AsJson, plain_errors, print_json
from plumbline.options import with_options
from plumbline.received.judge_request import OPTIONS, JudgeRequest

_PANEL = "What to judge"
_tables = partial(typer.Option, metavar="TABLE", rich_help_panel=_PANEL)


@with_options(*(one.parameter(panel=_PANEL) for one in OPTIONS.values()), first=False)
def judge(
    secret: Annotated[str, _tables(help="What the receiver must not learn: a file or a database URL.")],
    own: Annotated[str, _tables(help="What it has of its own of the same records.")] = "",
    received: Annotated[str, _tables(help="What it was handed: scores, leaves, embeddings ...")] = "",
    quiet: Annotated[
        bool, typer.Option("--quiet", help="The verdict and the report's path only.", rich_help_panel="Output")
    ] = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Judge what was received, or will be: what its receiver, who also knows some records, learns of secret columns.

    Nothing is sent. The same models guess without what was received, with it, and with a shuffled copy of it.

    Example: plumbline judge --own bank.csv --received scores.csv --secret vendor.csv --id client --known 1000
    Example: plumbline judge --own bank.csv --label default --received leaves.parquet --secret vendor.csv --known 200
    Example: plumbline judge --before --received scores.csv --secret vendor.csv --receiver-has age,zip --known 1000
    Example: plumbline judge --own bank.csv --model model.json --sends leaves --secret vendor.csv --known 200
    """
    with plain_errors():
        from plumbline.received.judging import judge as judge_received
        from plumbline.received.judging import prepare

        given_options = {name: value for name, value in options.items() if value is not None}
        request = JudgeRequest.of(own, received, secret, **given_options, verbosity="quiet" if quiet else "normal")
        console = Console(stderr=as_json)
        if request.output.dry_run:
            records = prepare(request, console)
            if as_json:
                print_json(asdict(records.facts))
            return
        check_place(request.output.runs)
        run, _ = judge_received(request, console)
        results = json.loads(run.results.read_text())
        if as_json:
            print_json({"run": str(run.path), "report": str(run.report), **results})
        check_threshold(request.output.fail_above, results, "What was received")
