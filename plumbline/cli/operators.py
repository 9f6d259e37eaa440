"""``plumbline train``, ``cancel`` and ``predict``: what an operator asks of a running federation."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plumbline.cli.output import INTERRUPTED, AsJson, console_errors, console_out, plain_errors, print_json
from plumbline.options import TERMS, settings_of, with_options
from plumbline.terminal import shown

if TYPE_CHECKING:
    from pandas import DataFrame

    from plumbline.federation import Federation, TrainingOutcome

Address = Annotated[str, typer.Option(help="The active party, HOST:PORT.")]
Certs = Annotated[Path, typer.Option(envvar="PLUMBLINE_CERTS", help="Folder of ca.crt, operator.crt and operator.key.")]
ADDRESS = "127.0.0.1:50051"
CERTS = Path("certs")


@with_options(*settings_of(TERMS, "{} Default: the active party's setting."))
def train(address: Address = ADDRESS, certs: Certs = CERTS, as_json: AsJson = False, **terms: Any) -> None:
    """Have a running federation align, agree and train, and watch it. The job goes on without its watcher.

    Example: plumbline train --epochs 10 --address localhost:50051 --certs certs
    """
    from plumbline.federation import Federation

    changes = {name: value for name, value in terms.items() if value is not None}
    with plain_errors(), Federation.connect(address, certs) as federation:
        try:
            outcome = _watched(federation, changes)
        except KeyboardInterrupt:
            where = f"--address {address} --certs {certs}"
            console_errors.print(
                "plumbline: The job goes on; nobody watches it now. See where it is with "
                f"`plumbline status {where}`, or end it with `plumbline cancel {where}`."
            )
            raise typer.Exit(INTERRUPTED) from None
        if as_json:
            print_json(asdict(outcome))
            return
        console_out.print(
            f"Trained {outcome.epochs_run} epochs on {outcome.aligned_rows} aligned records; "
            f"epoch {outcome.kept_epoch + 1} is kept and served."
        )


def _watched(federation: Federation, changes: dict[str, Any]) -> TrainingOutcome:
    """Train, and show how it goes on standard error."""
    from plumbline.job_progress import JobWatcher, shown_progress

    with shown_progress(console_errors) as progress:
        return federation.train(watch=JobWatcher(progress), **changes)


def cancel(address: Address = ADDRESS, certs: Certs = CERTS) -> None:
    """End the job that a running federation is at, at every party. The model that it serves stays.

    Example: plumbline cancel --address localhost:50051 --certs certs
    """
    from plumbline.federation import Federation

    with plain_errors(), Federation.connect(address, certs) as federation:
        federation.cancel()
        console_out.print("The job is cancelled.")


def predict(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Record ids; none: from standard input, one per line.")
    ] = None,
    address: Address = ADDRESS,
    certs: Certs = CERTS,
    as_json: AsJson = False,
) -> None:
    """Ask a running federation for confidence scores, as CSV or JSON.

    Example: plumbline predict r000001 r000005 --address localhost:50051 --certs certs
    """
    from plumbline.federation import Federation
    from plumbline.spreadsheets import write_csv

    with plain_errors(), Federation.connect(address, certs) as federation:
        wanted = ids or [line.strip() for line in sys.stdin if line.strip()]
        scores = federation.predict(wanted)
        if as_json:
            print_json(_scores_of(scores))
            return
        scores.columns = scores.columns.map(shown)
        scores.index = scores.index.map(shown)
        scores["error"] = scores["error"].map(shown)
        write_csv(scores.reset_index(allow_duplicates=True), sys.stdout)


def _scores_of(scores: DataFrame) -> list[dict[str, Any]]:
    """Write a line for each record of the table: its id, its score of every class, or why it has none."""
    classes = [name for name in scores.columns if name != "error"]
    return [
        {
            "id": str(name),
            "error": row["error"],
            "scores": None if row["error"] else {one: float(row[one]) for one in classes},
        }
        for name, row in scores.iterrows()
    ]
