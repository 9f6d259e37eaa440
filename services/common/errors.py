"""Errors that a party may tell another, and what of any error leaves its process.

``statuses`` has their place on the wire.
"""

import logging
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from services.common.words import escaped

_log = logging.getLogger(__name__)

# Whose errors have texts that were made for a person.
_OWN_PACKAGES = frozenset({"attacks", "defences", "services", "vfl"})
# Of another party's words, and of what we tell another: it travels in a header, which has 8 kB.
_MOST_HEARD, _MOST_TOLD = 500, 1_000


class FederationError(Exception):
    """Base of everything that a party may tell another: the text must carry no secret."""


class InvalidMessage(FederationError):
    """The content of a message is wrong, whatever the moment: fix it and send it again."""


class OutOfOrder(FederationError):
    """The message may be right, but not now or not in this session."""


class Cancelled(OutOfOrder):
    """The operator has cancelled the job."""


class NotIdentified(FederationError):
    """The caller shows no identity of this federation."""


class NotAllowed(FederationError):
    """The caller is known and has no right to this."""


class HoldsTooMuch(FederationError):
    """The caller has too many calls at work here, keeps one waiting for too long, or comes when too many wait."""


class UnknownRecord(FederationError):
    """A record that is not among the aligned ones."""


class UnknownService(FederationError):
    """A name that is none of this process's services."""


class Diverged(FederationError):
    """Numbers have left the agreed fixed-point range: the session's terms don't fit its data."""


class PeerVanished(FederationError):
    """Another party did not answer within the deadline."""


class Suspended(FederationError):
    """The training was interrupted, here or at another party, and goes on when all are back."""


class PeerRefused(FederationError):
    """Another party answered with a refusal, in its own words, cut to one line.

    Attributes:
        party: who refused.
        words: why, as that party said it.
        kind: the error that it is at that party; FederationError where this release knows none.
    """

    def __init__(self, party: str, message: str, kind: type[FederationError] = FederationError) -> None:
        self.party = party
        self.words = one_line(message)
        super().__init__(f"{party}: {self.words}")
        self.kind = kind


@contextmanager
def refusals_of(*kinds: type[Exception]) -> Iterator[None]:
    """Tell what a library of ours refuses, errors of these kinds, in its own words: raises InvalidMessage."""
    try:
        yield
    except kinds as error:
        raise InvalidMessage(str(error)) from error


def is_interruption(error: BaseException) -> bool:
    """Tell whether a training that can wait may go on after it: a party is away, or another says so."""
    kind = error.kind if isinstance(error, PeerRefused) else type(error)
    return issubclass(kind, PeerVanished | Suspended)


def one_line(message: str) -> str:
    """Cut another party's words to one printable line, fit for a log, a terminal and a further party's error."""
    return escaped(message, _MOST_HEARD)


def told(error: BaseException) -> str:
    """Give what others may read of an error: the text of a FederationError, of another its type's name only.

    The text may quote what they, or a third party, have sent: it is one printable line, of bounded length.
    """
    return escaped(str(error), _MOST_TOLD) if isinstance(error, FederationError) else type(error).__name__


def described(error: BaseException) -> str:
    """Give what this party's own log may say of an error: its text, and its type's name unless it was expected."""
    return str(error) if is_expected(error) else f"{type(error).__name__}: {error}"


def is_expected(error: BaseException) -> bool:
    """Tell whether the error's text was made for a person: then no traceback is needed to understand it.

    A plain ValueError was not: numpy raises it for shapes that don't fit.
    """
    is_own = type(error).__module__.partition(".")[0] in _OWN_PACKAGES
    return isinstance(error, FederationError) or (is_own and isinstance(error, ValueError))


def log_unexpected(error: BaseException) -> None:
    """Write an error with its traceback to this party's own log."""
    _log.error("Unexpected error", exc_info=error)


def log_failure(done: Future[Any]) -> None:
    """Log what went wrong on a thread that nobody waits for; a callback of its future."""
    if done.cancelled() or (error := done.exception()) is None:
        return
    if is_expected(error):
        _log.error("%s", error)
    else:
        log_unexpected(error)
