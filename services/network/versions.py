"""Which version of the wire each end of a call speaks: parties of different ones refuse each other in words."""

import time
from collections.abc import Iterable
from importlib.metadata import version

from services.common.errors import OutOfOrder

# Grows when a message changes its meaning, or a party needs an answer that an older release doesn't give: the table
# is in docs/how-to/versions.md. 1 was that of all before, which didn't say it.
WIRE_VERSION = 7
# Said with every call, and by the health service.
WIRE_KEY = "plumbline-wire"
# Said by the health service alone, to identities of this federation.
RELEASE_KEY, CLOCK_KEY = "plumbline-release", "plumbline-clock"


def own_facts() -> tuple[tuple[str, str], ...]:
    """Write what the health service tells a party of this one: its versions, and its clock to a tenth of a second."""
    return (
        (WIRE_KEY, str(WIRE_VERSION)),
        (RELEASE_KEY, version("plumbline")),
        (CLOCK_KEY, f"{time.time():.1f}"),
    )


def said_by(metadata: Iterable[tuple[str, str | bytes]] | None) -> dict[str, str]:
    """Read what a call or an answer says, by key."""
    return {key: str(value) for key, value in metadata or ()}


def check_wire_version(party: str, announced: str | None) -> None:
    """Raise OutOfOrder where ``party`` speaks another version of the wire than this one; None is a silent party's."""
    spoken = announced or "1"
    if spoken != str(WIRE_VERSION):
        spoken_version = (
            f"version {spoken}" if spoken.isascii() and spoken.isdigit() and len(spoken) < 10 else "no known version"
        )
        raise OutOfOrder(
            f"{party} speaks {spoken_version} of Plumbline's wire, its peer version {WIRE_VERSION}: install the same "
            "release of Plumbline at every party."
        )
