"""Private set intersection between services: which version a peer speaks, and refusals that cross the wire."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from services.common.errors import InvalidMessage
from vfl.crypto.curve25519 import COORDINATE_BYTES
from vfl.data import PsiError

_log = logging.getLogger(__name__)

# 1, whose messages said nothing of their version, was openmined's protocol on P-256.
ALIGNMENT_VERSION = 2
# Ids whose alignment takes long enough for somebody to look into the log meanwhile.
_MANY_IDS = 50_000


def check_alignment_version(party: str, version: int) -> None:
    """Raise InvalidMessage when ``party`` aligns otherwise than this one, before this one has sent any id."""
    if version != ALIGNMENT_VERSION:
        raise InvalidMessage(
            f"{party} aligns by version {version or 1} of the private set intersection, this party by version "
            f"{ALIGNMENT_VERSION}: install the same release of Plumbline at every party."
        )


@contextmanager
def alignment_refusals() -> Iterator[None]:
    """Raise InvalidMessage for what the private set intersection refuses."""
    try:
        yield
    except PsiError as error:
        raise InvalidMessage(str(error)) from error


def alignment_context(session_id: str, passive_party: str) -> str:
    """Name one alignment: what a passive party has blinded means nothing to another, or in another session."""
    return f"{session_id}\0{passive_party}"


class LoggedProgress:
    """Logs how far an alignment of many ids is, at every tenth of it."""

    def __init__(self, sentence: str) -> None:
        """Log ``sentence``, which has places for what is done and for what is planned."""
        self._sentence = sentence
        self._tenths = 0

    def note(self, done: int, planned: int) -> None:
        """``done`` of ``planned`` ids are over."""
        tenths = 10 * done // planned
        if tenths > self._tenths and planned >= _MANY_IDS:
            _log.info(self._sentence, f"{done:,}", f"{planned:,}")
        self._tenths = max(tenths, self._tenths)

    def over(self, chunks: Iterable[bytes], planned: int) -> Iterator[bytes]:
        """Pass chunks of blinded ids on, each noted as it is given on."""
        done = 0
        for chunk in chunks:
            done += len(chunk) // COORDINATE_BYTES
            self.note(done, planned)
            yield chunk
