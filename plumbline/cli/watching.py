"""``plumbline status``: where a running federation is, once or for as long as somebody watches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.text import Text

from plumbline.cli.operators import ADDRESS, CERTS, Address, Certs
from plumbline.cli.output import INTERRUPTED, console_errors, console_out, plain_errors
from plumbline.terminal import shown

if TYPE_CHECKING:
    from plumbline.federation import Federation
    from plumbline.federation_status import FederationStatus

_SECONDS_BETWEEN_LOOKS = 1.0


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Go on telling, until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, on standard output.")] = False,
    address: Address = ADDRESS,
    certs: Certs = CERTS,
) -> None:
    """Show what a running federation is doing, its parties and its model, and what stands against a prediction.

    Example: plumbline status --watch --address localhost:50051 --certs certs
    """
    from plumbline.federation import Federation

    with plain_errors(), Federation.connect(address, certs) as federation:
        if not watch:
            _show(federation.status(), as_json=as_json)
            return
        try:
            _watch(federation, as_json=as_json)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


def _show(status: FederationStatus, *, as_json: bool) -> None:
    """Show what is, on standard output; what is wrong, on standard error."""
    from plumbline.federation_status import status_lines, trouble_lines

    if as_json:
        console_out.print(json.dumps(status.content()))
        return
    for line in status_lines(status):
        console_out.print(line)
    for line in trouble_lines(status):
        console_errors.print(line)


def _watch(federation: Federation, *, as_json: bool) -> None:
    """Look again and again. A party that hasn't begun, or is gone for a while, is said to be, and waited for."""
    from plumbline.federation import FederationFailed, NobodyListens

    drawing, tell = _teller(as_json=as_json)
    # Until somebody has answered, a wrong address and others' certificates end it.
    borne: type[FederationFailed] = NobodyListens
    with drawing:
        while True:
            try:
                tell(federation.status())
                borne = FederationFailed
            except borne as error:
                waits = " It is waited for, until Ctrl-C." if isinstance(error, NobodyListens) else ""
                tell(shown(str(error)) + waits)
            time.sleep(_SECONDS_BETWEEN_LOOKS)


def _teller(*, as_json: bool) -> tuple[AbstractContextManager[object], Callable[[FederationStatus | str], None]]:
    """Choose how to tell what was found: redrawn on a terminal, what is new elsewhere."""
    from plumbline.federation_status import StatusNews, status_lines, trouble_lines

    if console_out.is_terminal and not as_json:
        live = Live(console=console_out, auto_refresh=False)

        def redraw(look: FederationStatus | str) -> None:
            lines = [look] if isinstance(look, str) else [*status_lines(look), *trouble_lines(look)]
            live.update(Text("\n".join(lines)), refresh=True)

        return live, redraw
    news, last = StatusNews(), ""

    def tell(look: FederationStatus | str) -> None:
        nonlocal last
        if isinstance(look, str):
            lines = [] if look == last else [json.dumps({"failure": look}) if as_json else look]
            last = look
        else:
            last = ""
            lines = ([json.dumps(look.content())] if news.is_due(look) else []) if as_json else news.of(look)
        for line in lines:
            console_out.print(line)

    return nullcontext(), tell
