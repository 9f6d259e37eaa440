"""``plumbline doctor``: what could stop a party's first session, each in a sentence with what to do."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from plumbline.cli.output import UNEXPECTED, AsJson, console_out, plain_errors, print_json

if TYPE_CHECKING:
    from plumbline.party_checks import Finding


def doctor(
    role: Annotated[Literal["coordinator", "active", "passive"], typer.Argument(help="What is to run here.")],
    as_json: AsJson = False,
) -> None:
    """Look at what a service needs before its first session, with the settings that `plumbline serve` would have.

    Certificates, disk, its own address, and each peer: whether it is reached, its version and its clock. Ends with 1
    where something is wrong.

    Example: PLUMBLINE_CERTS=certs PLUMBLINE_STATE_DIR=state plumbline doctor coordinator
    """
    from plumbline.party_checks import check_party
    from services.common.identity import Role
    from services.common.settings import load_settings
    from services.roles import check_role

    with plain_errors():
        settings = load_settings()
        check_role(settings, Role(role))
        checks = check_party(settings, Role(role))
        if as_json:
            findings = [*checks]
            print_json({"ok": not _are_wrong(findings), "findings": [asdict(one) for one in findings]})
        else:
            findings = []
            for finding in checks:
                console_out.print(f"{finding.level:5}  {finding.words}")
                findings.append(finding)
    if _are_wrong(findings):
        raise typer.Exit(UNEXPECTED)


def _are_wrong(findings: Iterable["Finding"]) -> bool:
    return any(one.level == "wrong" for one in findings)
