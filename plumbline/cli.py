"""The command's verbs. Each imports what it needs when it runs, so that a service starts without the auditor's tools."""

import sys
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich")


@app.command()
def serve(role: Annotated[str, typer.Argument()]) -> None:
    """Run one service of a federation until it is stopped."""
    from services.common.bootstrap import configure_log
    from services.common.identity import Role
    from services.common.settings import check_role, load_settings

    settings = load_settings()
    role_ = Role(role)
    check_role(settings, role_)
    configure_log(settings, settings.name or role)
    if role_ is Role.COORDINATOR:
        from services.coordinator.server import run
    elif role_ is Role.ACTIVE:
        from services.active.server import run
    else:
        from services.passive.server import run
    run(settings)


@app.callback()
def plumbline() -> None:
    """Run a vertical federation, attack it, defend it, report what leaked."""
