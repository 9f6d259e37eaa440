"""``plumbline predict`` and ``plumbline status``: what an operator asks of a running federation."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.output import console_errors, console_out, plain_errors, shown


def predict(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Record ids; none: from standard input, one per line.")
    ] = None,
    address: Annotated[str, typer.Option(help="The active party, HOST:PORT.")] = "127.0.0.1:50051",
    certs: Annotated[Path, typer.Option(help="Folder of ca.crt, operator.crt and operator.key.")] = Path("certs"),
) -> None:
    """Ask a running federation for confidence scores, as CSV.

    Example: plumbline predict r000001 r000005 --address localhost:50051 --certs certs
    """
    from plumbline.federation import Federation

    with plain_errors(), Federation.connect(address, certs) as federation:
        wanted = ids or [line.strip() for line in sys.stdin if line.strip()]
        scores = federation.predict(wanted)
        scores.columns = scores.columns.map(shown)
        scores.index = scores.index.map(shown)
        scores["error"] = scores["error"].map(shown)
        scores.to_csv(sys.stdout)


def status(
    address: Annotated[str, typer.Option(help="The active party, HOST:PORT.")] = "127.0.0.1:50051",
    certs: Annotated[Path, typer.Option(help="Folder of ca.crt, operator.crt and operator.key.")] = Path("certs"),
) -> None:
    """Show what a running federation is doing.

    Example: plumbline status --address localhost:50051 --certs certs
    """
    from plumbline.federation import Federation

    with plain_errors(), Federation.connect(address, certs) as federation:
        reply = federation.status()
        console_out.print(shown(reply.stage))
        for line in (*([reply.failure] if reply.failure else []), *reply.warnings):
            console_errors.print(shown(line))
