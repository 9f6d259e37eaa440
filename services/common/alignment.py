"""Private set intersection between services: which version a peer speaks, and refusals that cross the wire."""

from collections.abc import Iterator
from contextlib import contextmanager

from services.common.errors import InvalidMessage
from vfl.data import PsiError

# 1, whose messages said nothing of their version, was openmined's protocol on P-256.
ALIGNMENT_VERSION = 2


def check_alignment_version(party: str, version: int) -> None:
    """Raises InvalidMessage when ``party`` aligns otherwise than this one, before this one has sent any id."""
    if version != ALIGNMENT_VERSION:
        raise InvalidMessage(
            f"{party} aligns by version {version or 1} of the private set intersection, this party by version "
            f"{ALIGNMENT_VERSION}: install the same release of Plumbline at every party."
        )


@contextmanager
def alignment_refusals() -> Iterator[None]:
    """Raises InvalidMessage for what the private set intersection refuses."""
    try:
        yield
    except PsiError as error:
        raise InvalidMessage(str(error)) from error


def alignment_context(session_id: str, passive_party: str) -> str:
    """The name of one alignment: what one passive party has blinded means nothing to another, or in another session."""
    return f"{session_id}\0{passive_party}"
