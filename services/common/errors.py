"""Errors that cross the wire: each says what is wrong and becomes one gRPC status."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NoReturn, TypeVar

import grpc

_log = logging.getLogger(__name__)

T = TypeVar("T")


class FederationError(Exception):
    """Base of everything that a party may tell another: the text must carry no secret."""

    status = grpc.StatusCode.INTERNAL


class InvalidMessage(FederationError):
    """The content of a message is wrong, whatever the moment: fix it and send it again."""

    status = grpc.StatusCode.INVALID_ARGUMENT


class OutOfOrder(FederationError):
    """The message may be right, but not now or not in this session."""

    status = grpc.StatusCode.FAILED_PRECONDITION


class NotIdentified(FederationError):
    """The caller shows no identity of this federation."""

    status = grpc.StatusCode.UNAUTHENTICATED


class NotAllowed(FederationError):
    """The caller is known and has no right to this."""

    status = grpc.StatusCode.PERMISSION_DENIED


class UnknownRecord(FederationError):
    """A record that is not among the aligned ones."""

    status = grpc.StatusCode.NOT_FOUND


class Diverged(FederationError):
    """Numbers have left the agreed fixed-point range; the session's terms don't fit its data."""

    status = grpc.StatusCode.FAILED_PRECONDITION


class PeerVanished(FederationError):
    """Another party did not answer within the deadline."""

    # Not UNAVAILABLE: whoever called this party would try again, and so would its own caller.
    status = grpc.StatusCode.FAILED_PRECONDITION


_NO_ANSWER = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}


@contextmanager
def naming(party: str) -> Iterator[None]:
    """Raise PeerVanished with the party's name where its call gets no answer."""
    try:
        yield
    except grpc.RpcError as error:
        if isinstance(error, grpc.Call) and error.code() in _NO_ANSWER:
            raise PeerVanished(f"{party} does not answer ({error.code().name}).") from error
        raise


def naming_the_party(link: type[T]) -> type[T]:
    """Make every public method of a link raise PeerVanished with ``self.name`` when its call gets no answer.

    A method that returns before its stream has ended reads the rest under ``naming``.
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


def abort_with(context: grpc.ServicerContext, error: Exception) -> NoReturn:
    """End the RPC with the status that belongs to ``error``.

    An error that isn't ours is logged here and told to the caller as nothing but its kind: its text may hold data.
    """
    if not context.is_active():
        # The caller has hung up or its deadline has passed; nobody reads the answer.
        _log.info("A call ended before it was answered.")
        context.abort(grpc.StatusCode.CANCELLED, "The caller has gone.")
    if isinstance(error, FederationError):
        _log.warning("Refused: %s", error)
        context.abort(error.status, str(error))
    if isinstance(error, grpc.RpcError) and isinstance(error, grpc.Call):
        context.abort(error.code(), error.details() or "")
    _log.error("Unexpected error", exc_info=error)
    context.abort(grpc.StatusCode.INTERNAL, f"Unexpected {type(error).__name__}; the service's log has the rest.")
