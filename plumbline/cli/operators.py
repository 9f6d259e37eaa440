"""``plumbline predict`` and ``plumbline status``: what an operator asks of a running federation."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from plumbline.cli.output import console_errors, console_out, plain_errors


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
        federation.predict(wanted).to_csv(sys.stdout)


def status(
    address: Annotated[str, typer.Option(help="The active party, HOST:PORT.")] = "127.0.0.1:50051",
    certs: Annotated[Path, typer.Option(help="Folder of ca.crt, operator.crt and operator.key.")] = Path("certs"),
) -> None:
    """Show what a running federation is doing, and what stands against a prediction, if anything.

    Example: plumbline status --address localhost:50051 --certs certs
    """
    from plumbline.federation import Federation

    with plain_errors(), Federation.connect(address, certs) as federation:
        reply = federation.status()
        console_out.print(reply.stage)
        for line in filter(None, (reply.failure, reply.obstacle, *reply.warnings)):
            console_errors.print(line)
