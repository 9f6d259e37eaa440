"""``plumbline judge``: what columns that were received tell of secret ones, whoever made them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from plumbline.cli.audits import check_place, check_threshold, encodings
from plumbline.cli.output import AsJson, plain_errors, print_json
from vfl.data.cell_forms import ID_FORMS

_tables = partial(typer.Option, rich_help_panel="What to judge")
_output = partial(typer.Option, rich_help_panel="Output")


def judge(
    secret: Annotated[
        str, _tables(metavar="TABLE", help="What the receiver must not learn: a file or a database URL.")
    ],
    own: Annotated[str, _tables(metavar="TABLE", help="What it has of its own of the same records.")] = "",
    receiver_has: Annotated[
        str, _tables(metavar="NAME,NAME", help="Or: columns of --secret that a made-up receiver has.")
    ] = "",
    received: Annotated[str, _tables(metavar="TABLE", help="What it was handed: scores, leaves, embeddings ...")] = "",
    model: Annotated[
        str, _tables(metavar="FILE", help="Or: the model whose scores it gets, linear or XGBoost's, as JSON.")
    ] = "",
    sends: Annotated[str, _tables(metavar="NAME,NAME", help="What --model sends: scores, leaves.")] = "",
    id_column: Annotated[str, _tables("--id", metavar="COLUMN", help="Column of the ids in all tables.")] = "id",
    known: Annotated[
        int, _tables(metavar="N", min=0, help="Complete records that the receiver has beforehand; none is judged.")
    ] = 0,
    known_from: Annotated[
        str, _tables(metavar="TABLE", help="Or: a table of other records that it has, with the columns of all three.")
    ] = "",
    label: Annotated[str, _tables(metavar="COLUMN", help="Column of labels in --own, if any.")] = "",
    secret_label: Annotated[str, _tables(metavar="COLUMN", help="The sender's label, in --secret.")] = "",
    kinds: Annotated[
        list[str] | None,
        _tables("--kind", metavar="COLUMN=KIND", help="What a received column is, where it is guessed wrong; repeat."),
    ] = None,
    columns: Annotated[str, _tables(metavar="NAME,NAME", help="Use these columns only; secret:c* of one table.")] = "",
    drop: Annotated[str, _tables(metavar="NAME,NAME", help="Leave these columns out.")] = "",
    public: Annotated[str, _tables(metavar="NAME,NAME", help="Secret columns that are published.")] = "",
    sensitive: Annotated[str, _tables(metavar="NAME,NAME", help="Columns to protect first.")] = "",
    encode: Annotated[list[str] | None, _tables(metavar="COLUMN=KIND", help="What a column becomes; repeat.")] = None,
    missing: Annotated[str, _tables(metavar="VALUE,VALUE", help="What stands for no value: --missing=-9999.")] = "",
    ignore_in_ids: Annotated[
        str, _tables(metavar="NAME,NAME", help=f"Ids that differ by this alone are one: {', '.join(ID_FORMS)}.")
    ] = "",
    before: Annotated[
        bool, _output("--before", help="Judge fewer and coarser columns too, before any is sent.")
    ] = False,
    seed: Annotated[int, _output(metavar="N", min=0, help="Draws who is known, and the control.")] = 0,
    name: Annotated[str, _output(metavar="NAME", help="Name of the run; else the received table's.")] = "",
    runs: Annotated[Path, _output(metavar="FOLDER", help="Folder of all runs.")] = Path("runs"),
    dry_run: Annotated[bool, _output("--dry-run", help="Say what would be done, and how long it takes.")] = False,
    fail_above: Annotated[
        float | None,
        _output(metavar="PART", min=0, max=1, help="Exit with 3 where a column is told beyond this part."),
    ] = None,
    quiet: Annotated[bool, _output("--quiet", help="The verdict and the report's path only.")] = False,
    as_json: AsJson = False,
) -> None:
    """Judge what was received, or will be: what its receiver, who also knows some records, learns of secret columns.

    Nothing is sent. The same models guess without what was received, with it, and with a shuffled copy of it.

    Example: plumbline judge --own bank.csv --received scores.csv --secret vendor.csv --id client --known 1000
    Example: plumbline judge --own bank.csv --label default --received leaves.parquet --secret vendor.csv --known 200
    Example: plumbline judge --before --received scores.csv --secret vendor.csv --receiver-has age,zip --known 1000
    Example: plumbline judge --own bank.csv --model model.json --sends leaves --secret vendor.csv --known 200
    """
    # Every option by its name, before this function has names of its own.
    given = {option: value for option, value in locals().items() if option not in ("quiet", "as_json")}
    with plain_errors():
        from plumbline.received.judge_request import JudgeRequest
        from plumbline.received.judging import judge as judge_received
        from plumbline.received.judging import prepare

        given |= {"kinds": kinds or (), "encode": encodings(encode or [])}
        request = JudgeRequest.of(**given, verbosity="quiet" if quiet else "normal")
        console = Console(stderr=as_json)
        if dry_run:
            facts, _ = prepare(request, console)
            if as_json:
                print_json(facts.content())
            return
        check_place(runs)
        run, _ = judge_received(request, console)
        results = json.loads(run.results.read_text())
        if as_json:
            print_json({"run": str(run.path), "report": str(run.report), **results})
        check_threshold(fail_above, results, "What was received")
