"""Errors on the wire: which gRPC status each becomes, and which error a refused or unanswered call becomes."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NoReturn, TypeVar

import grpc

from services.common.errors import (
    Diverged,
    FederationError,
    HoldsTooMuch,
    InvalidMessage,
    NotAllowed,
    NotIdentified,
    OutOfOrder,
    PeerRefused,
    PeerVanished,
    Suspended,
    UnknownRecord,
    UnknownService,
    log_unexpected,
    one_line,
    told,
)
from services.network.proxies import proxy_in
from services.network.unanswered import is_cut, why_unreachable

_log = logging.getLogger(__name__)

T = TypeVar("T")

_STATUSES: dict[type[FederationError], grpc.StatusCode] = {
    FederationError: grpc.StatusCode.INTERNAL,
    InvalidMessage: grpc.StatusCode.INVALID_ARGUMENT,
    OutOfOrder: grpc.StatusCode.FAILED_PRECONDITION,
    NotIdentified: grpc.StatusCode.UNAUTHENTICATED,
    NotAllowed: grpc.StatusCode.PERMISSION_DENIED,
    HoldsTooMuch: grpc.StatusCode.RESOURCE_EXHAUSTED,
    UnknownRecord: grpc.StatusCode.NOT_FOUND,
    UnknownService: grpc.StatusCode.NOT_FOUND,
    Diverged: grpc.StatusCode.FAILED_PRECONDITION,
    Suspended: grpc.StatusCode.ABORTED,
    # Not UNAVAILABLE: whoever called this party would try again, and so would its own caller.
    PeerVanished: grpc.StatusCode.FAILED_PRECONDITION,
}
# The first of those that share a status: a caller can't tell them apart.
_KINDS = {status: kind for kind, status in reversed(_STATUSES.items())}
_TIME_IS_UP = "its time is up. Check that it runs, or raise PLUMBLINE_STEP_TIMEOUT."
_CUT_OFF = "the call was cut off. Check that it runs."
# Which the transport uses for connections that end, and parties for what they refuse.
_AMBIGUOUS = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL}


def status_of(error: FederationError) -> grpc.StatusCode:
    """Find the status that tells a caller of ``error``. What a peer refused is passed on as that peer's own refusal."""
    kind = error.kind if isinstance(error, PeerRefused) else type(error)
    return next(_STATUSES[base] for base in kind.__mro__ if base in _STATUSES)


def error_of(party: str, call: grpc.Call) -> FederationError:
    """Make the error that a failed call to ``party`` is to its caller."""
    status, details = call.code(), call.details() or ""
    if silence := _silence(status, details):
        proxy = proxy_in(details)
        return PeerVanished(f"{party} does not answer: {silence}" + (f" {proxy.words(party)}" if proxy else ""))
    reason = details or "It gives no reason, and its log may have one."
    return PeerRefused(party, reason, _KINDS.get(status, FederationError))


def _silence(status: grpc.StatusCode, details: str) -> str:
    """Say why there was no answer at all; empty where there was one."""
    if status is grpc.StatusCode.UNAVAILABLE or (status in _AMBIGUOUS and is_cut(details)):
        return why_unreachable(details)
    if status is grpc.StatusCode.DEADLINE_EXCEEDED:
        return _TIME_IS_UP
    return _CUT_OFF if status is grpc.StatusCode.CANCELLED else ""


@contextmanager
def naming(party: str) -> Iterator[None]:
    """Raise PeerVanished where a call to ``party`` gets no answer, and PeerRefused where it gets a refusal."""
    try:
        yield
    except grpc.RpcError as error:
        if not isinstance(error, grpc.Call):
            raise
        _log.debug("A call to %s failed: %s, %s", party, error.code().name, one_line(error.details() or ""))
        raise error_of(party, error) from error


def naming_the_party(link: type[T]) -> type[T]:
    """Put every public method of a link under ``naming`` with ``self.name``.

    A method that returns before its stream has ended reads the rest under ``naming`` itself.
    """

    def named(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(self: Any, *arguments: Any) -> Any:
            with naming(self.name):
                return method(self, *arguments)

        return call

    for name, attribute in list(vars(link).items()):
        if callable(attribute) and not name.startswith("_"):
            setattr(link, name, named(attribute))
    return link


def abort_with(
    context: grpc.ServicerContext, error: Exception | SystemExit, call: str = "a call", *, is_logged: bool = True
) -> NoReturn:
    """End the RPC with the status that belongs to ``error``.

    The log has the traceback of an error that isn't ours. The caller is told its type's name only.

    Args:
        context: of the RPC.
        error: why it ends.
        call: which one it is, for the log.
        is_logged: False where the log has enough of its kind.
    """
    level = logging.WARNING if is_logged else logging.DEBUG
    if not context.is_active():
        # The caller has hung up or its deadline has passed.
        _log.log(min(level, logging.INFO), "The caller of %s has gone before it was answered.", call)
        context.abort(grpc.StatusCode.CANCELLED, "The caller has gone.")
    if isinstance(error, FederationError):
        _log.log(level, "Refused %s: %s", call, one_line(str(error)))
        context.abort(status_of(error), told(error))
    if is_logged:
        log_unexpected(error)
    context.abort(grpc.StatusCode.INTERNAL, f"Unexpected {told(error)}: the service's log has the rest.")
