"""``plumbline serve`` and ``plumbline certs``: the services of a federation and their certificates."""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from rich.markup import escape

from plumbline.cli.output import AsJson, console_out, plain_errors, print_json
from services.common.identity import Role
from services.common.settings import Settings

_log = logging.getLogger(__name__)


def serve(role: Annotated[Literal["coordinator", "active", "passive"], typer.Argument(help="What to run.")]) -> None:
    """Run one service of a federation until it is stopped.

    Example: PLUMBLINE_DATA=clients.csv PLUMBLINE_ID_COLUMN=client PLUMBLINE_CERTS=certs
    PLUMBLINE_PEERS=coordinator=10.0.0.1:50051,active=10.0.0.2:50051 plumbline serve passive
    """
    from services.common.logs import configure_log
    from services.common.settings import load_settings
    from services.roles import check_role

    with plain_errors(), _resting_collector():
        settings = load_settings()
        configure_log(settings, settings.name or role)
        # Where the log is JSON, its last line is as well.
        with plain_errors(_log.critical if settings.log_format == "json" else None):
            check_role(settings, Role(role))
            # Only now, so that a coordinator doesn't load a party's libraries.
            import_module(f"services.{role}.server").run(settings)


@contextmanager
def _resting_collector() -> Iterator[None]:
    """Look for no garbage while a role starts, which leaves none: a tenth of its start. A service that is up does."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def certs(
    out: Annotated[Path, typer.Option(help="Folder for the authority, certificates and keys.")] = Path("certs"),
    passive: Annotated[list[str] | None, typer.Option(help="Name of a passive party; repeat for more.")] = None,
    days: Annotated[int, typer.Option(min=1, max=36_500, help="Validity.")] = 365,
    if_missing: Annotated[bool, typer.Option("--if-missing", help="Keep those that are there.")] = False,
    renew: Annotated[
        bool, typer.Option("--renew", help="Sign new pairs for all who have one, by the same authority.")
    ] = False,
    revoke: Annotated[
        list[str] | None,
        typer.Option(help="Take back a party's certificate, by its name or its .crt file; repeat for more."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a certificate authority and one certificate per role: coordinator, active, passive parties, operator.

    Example: plumbline certs --out certs --passive clinic-a --passive clinic-b
    """
    from services.common.certificates import (
        AUTHORITY,
        create_federation_certificates,
        renew_certificates,
        revoke_certificates,
    )
    from services.common.identity import Identity, role_of

    names = [str(name) for name in (Role.COORDINATOR, Role.ACTIVE, *(passive or [Role.PASSIVE]), Role.OPERATOR)]
    with plain_errors():
        if renew and revoke:
            raise typer.BadParameter("Revoke first, then renew: two commands.")
        if revoke:
            names, done, path = list(revoke), "revoked", revoke_certificates(out, revoke)
            lines = [
                f"{path} takes back the certificate of {', '.join(names)}.",
                f"Copy it into every party's folder, beside {AUTHORITY}.crt: calls are refused a second later.",
            ]
        elif renew:
            names, done = renew_certificates(out, days=days), "renewed"
            lines = [f"Renewed the certificates of {', '.join(names)} in {out}, valid for {days} days."]
        elif if_missing and (out / f"{AUTHORITY}.crt").exists():
            names, done, lines = [], "kept", [f"{out} has certificates already."]
        else:
            create_federation_certificates(out, [Identity(role_of(name), name) for name in names], days=days)
            done = "made"
            lines = [
                f"Made an authority and certificates for {', '.join(names)} in {out}, valid for {days} days.",
                f"Give each party {AUTHORITY}.crt and its own .crt and .key; keep {AUTHORITY}.key offline.",
            ]
        if as_json:
            print_json({"folder": str(out), "done": done, "names": list(names), "days": days})
            return
        for line in lines:
            console_out.print(line)


def settings_help() -> str:
    """List every setting with its choices, default and meaning, as rich markup."""
    lines = ["Settings are environment variables:"]
    for name, field in Settings.model_fields.items():
        facts = ["|".join(get_args(field.annotation))] if get_origin(field.annotation) is Literal else []
        if "default:" not in str(field.description):
            facts.append(f"default: {_default_words(field)}")
        parenthesis = f" [{'; '.join(facts)}]" if facts else ""
        lines.append(f"PLUMBLINE_{name.upper()}{parenthesis}: {field.description}")
    # A blank line between paragraphs keeps each setting on a line of its own; what isn't escaped is taken for markup.
    return escape("\n\n".join(lines))


def _default_words(field: FieldInfo) -> str:
    """Write a setting's default as one would write it into the environment."""
    default = field.get_default(call_default_factory=True)
    if isinstance(default, bool):
        return str(default).lower()
    return str(default) if default or default == 0 else "unset"


serving = typer.Typer(add_completion=False)
serving.command(epilog=settings_help())(serve)
