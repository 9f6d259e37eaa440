"""``plumbline log``: a party's audit log. Works on its files; no service needs to run."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.output import AsJson, console_out, plain_errors, print_json

app = typer.Typer(no_args_is_help=True, help="Look whether a party's audit log is what was written.")


# A group, though it has one command.
@app.callback()
def log() -> None:
    """Look whether a party's audit log is what was written."""


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="The party's state folder, or the audit-log in it.")],
    noted: Annotated[str, typer.Option(help="SHA-256 of a line, noted earlier: it must be there still.")] = "",
    as_json: AsJson = False,
) -> None:
    """Follow the chain of an audit log; a line that was changed or taken out is named, with status 2.

    What is cut off at the end is found by --noted alone: note the hash that this prints, or keep the service's log.

    Example: plumbline log verify /var/lib/plumbline
    """
    from services.watching.audit_log import verify as verified

    with plain_errors():
        log_facts = verified(folder, noted)
        if as_json:
            print_json({"folder": str(folder), **asdict(log_facts)})
            return
        console_out.print(f"Lines {log_facts.first:,} to {log_facts.last:,} are as they were written.")
        if log_facts.first > 1:
            console_out.print("Older files aren't here: put them back to look at them, too.")
        if log_facts.mended or log_facts.unwritten:
            console_out.print(f"Torn lines cut off: {log_facts.mended}. Answers without a line: {log_facts.unwritten}.")
        console_out.print(f"SHA-256 of the last: {log_facts.head}")
