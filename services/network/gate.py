"""The gate before every handler: who may call what and how much of it, and which status an error becomes.

    bytes arrive -> who calls? -> may it call this? -> has it room here? -> message by message: in time? readable?
                 -> handler -> answer by answer: read in time?

Nothing of a request's body is read before its caller is known, allowed and within its limits. To gRPC, therefore, every
request is a stream of bytes here, those of one message too.
"""

from __future__ import annotations  # grpc's generics exist for the type checker only

import logging
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from services.common.errors import HoldsTooMuch, InvalidMessage, NotAllowed, NotIdentified, one_line
from services.common.identity import Caller, Role
from services.common.logs import log_context
from services.network.admission import Admission, CallCut, HeldCall, call_regularly
from services.network.call_limits import NEWCOMERS_AT_ONCE, POOL_THREADS, CallLimits, limits_of
from services.network.call_meter import WrappingInterceptor, streaming
from services.network.callers import caller_of, check_release
from services.network.deadlines import answering_within
from services.network.log_quota import LogQuota
from services.network.occupancy import Occupancy
from services.network.revocation import Revoked, check_caller
from services.network.statuses import abort_with
from services.watching.tally import Tally

_log = logging.getLogger(__name__)

Permissions = Mapping[str, frozenset[Role]]
_Behaviour = Callable[[Any, grpc.ServicerContext], Any]


@dataclass(frozen=True)
class House:
    """What all gates of a server share.

    Attributes:
        occupancy: which process of each party may act here.
        revoked: the certificates that nobody may use now.
        tally: counts what is refused.
        admission: who is inside.
        log_quota: how much of refusals the log has.
    """

    occupancy: Occupancy
    revoked: Callable[[], Revoked]
    tally: Tally
    admission: Admission = field(default_factory=Admission)
    log_quota: LogQuota = field(default_factory=LogQuota)


class Gatekeeper(WrappingInterceptor):
    """Guards every handler of one server."""

    def __init__(
        self, permissions: Permissions, open_methods: frozenset[str], step_timeout: float, house: House
    ) -> None:
        """Put a gate before every method.

        Args:
            permissions: the roles that may call, by method; a method that isn't there is nobody's.
            open_methods: methods that anybody with a certificate of the authority may call, without an identity too.
            step_timeout: seconds that this party waits for a message.
            house: what the gates share.
        """
        super().__init__()
        self._permissions, self._open_methods, self._step_timeout = permissions, open_methods, step_timeout
        self._house = house
        self._pools = {
            pool: ThreadPoolExecutor(threads, thread_name_prefix=f"rpc-{pool.name.lower()}")
            for pool, threads in POOL_THREADS.items()
        }
        call_regularly(self._look_around)

    def _look_around(self) -> None:
        self._house.admission.cut_the_slow()
        self._house.log_quota.tell_the_rest()
        self._house.occupancy.tell_the_rest()

    def before(self, method: str, handler: grpc.RpcMethodHandler[Any, Any]) -> grpc.RpcMethodHandler[Any, Any]:
        """Put its gate before a method's handler."""
        limits = limits_of(method, self._step_timeout)
        allowed = None if method in self._open_methods else self._permissions.get(method, frozenset())
        return _MethodGate(method, allowed, limits, self._house).before(handler, self._pools[limits.pool])


@dataclass(frozen=True)
class _MethodGate:
    """The gate before one method.

    Attributes:
        method: its full name.
        allowed: the roles that may call; None for anybody with a certificate of the authority.
        limits: how much of it a caller may hold.
        house: what all gates share.
    """

    method: str
    allowed: frozenset[Role] | None
    limits: CallLimits
    house: House

    def before(
        self, handler: grpc.RpcMethodHandler[Any, Any], pool: ThreadPoolExecutor
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """Put the same handler behind this gate, on threads of ``pool``, whichever of the four kinds of RPC it is."""
        behaviour: _Behaviour = next(
            one
            for one in (handler.unary_unary, handler.unary_stream, handler.stream_unary, handler.stream_stream)
            if one is not None
        )

        def request(parts: Iterator[bytes], call: HeldCall) -> Any:
            messages = _Messages(parts, handler.request_deserializer, call)
            return messages if handler.request_streaming else _only_message(messages)

        def answer(parts: Iterator[bytes], context: grpc.ServicerContext) -> Any:
            with self._passing(context) as call, answering_within(context.time_remaining()):
                return behaviour(request(parts, call), context)

        def answers(parts: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[Any]:
            with self._passing(context) as call:
                for reply in behaviour(request(parts, call), context):
                    with call.answering():
                        yield reply

        guarded: Any = answers if handler.response_streaming else answer
        guarded.experimental_thread_pool = pool
        return streaming(handler, guarded, None)

    @contextmanager
    def _passing(self, context: grpc.ServicerContext) -> Iterator[HeldCall]:
        """Let a call through while this context lasts, and end it with a status where it is refused or fails."""
        caller = caller_of(context)
        try:
            check_caller(context, self.house.revoked())
            self._check(caller)
            if self.allowed is not None and caller is not None:
                check_release(context, caller)
            with log_context(caller=_name_of(caller)), self._counted(context, caller) as call:
                yield call
        except CallCut as cut:
            # Said and logged when it was done.
            self.house.tally.refused(caller, HoldsTooMuch())
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(cut))
        except (Exception, SystemExit) as error:  # another package's code may ask to exit
            is_logged = self._admits_line(caller, type(error).__name__)
            if context.is_active():
                self.house.tally.refused(caller, error)
            abort_with(context, error, self._described(caller), is_logged=is_logged)

    @contextmanager
    def _counted(self, context: grpc.ServicerContext, caller: Caller | None) -> Iterator[HeldCall]:
        """Let a call take a place: one of its party's if its process acts here, else one of the few of newcomers."""

        def end(why: str) -> None:
            self._cut(context, caller, why)

        places: Hashable = caller
        limits = self.limits
        few = replace(limits, at_once=min(limits.at_once, NEWCOMERS_AT_ONCE))
        if caller is not None and self.allowed is not None:
            # The wait of all newcomers is one method: whatever they call, so few wait.
            waiting = self.house.admission.held(_OtherProcess(caller), "wait", few, end)
            self.house.occupancy.admit(caller, context.peer(), waiting)
        elif caller is not None and not self.house.occupancy.is_let_in(caller):
            places, limits = _OtherProcess(caller), few
        try:
            with self.house.admission.held(places, self.method, limits, end) as call:
                yield call
        except HoldsTooMuch:
            if caller is not None:
                # Who asks too often lives, and must not lose its place as one that is silent.
                self.house.occupancy.heard(caller)
            raise

    def _cut(self, context: grpc.ServicerContext, caller: Caller | None, why: str) -> None:
        if self._admits_line(caller, "cut off"):
            _log.warning("Cut off %s: %s", self._described(caller), why)
        _end(context, why)

    def _described(self, caller: Caller | None) -> str:
        return f"{self.method.rpartition('/')[2]} of {_name_of(caller)}"

    def _admits_line(self, caller: Caller | None, kind: str) -> bool:
        return self.house.log_quota.admits(self._described(caller), kind)

    def _check(self, caller: Caller | None) -> None:
        if self.allowed is None:
            return
        if caller is None:
            raise NotIdentified("No identity of this federation. Call with a certificate made by `plumbline certs`.")
        if caller.role not in self.allowed:
            roles = ", ".join(sorted(self.allowed)) or "none"
            raise NotAllowed(f"{self.method} is not for role {caller.role}; allowed: {roles}.")


def _name_of(caller: Caller | None) -> str:
    return one_line(caller.name) if caller else "a caller without identity"


@dataclass(frozen=True)
class _OtherProcess:
    """Those processes of a party that aren't the one which acts here. Whoever they are, they take no place of it."""

    party: Caller


class _Messages(Iterator[Any]):
    """A request's messages as they arrive, each in time and readable, or the call ends."""

    def __init__(self, parts: Iterator[bytes], parse: Callable[[bytes], Any] | None, call: HeldCall) -> None:
        self._parts = parts
        self._parse = parse or bytes
        self._call = call

    def __next__(self) -> Any:
        part = self._call.next_of(self._parts)
        try:
            return self._parse(part)
        except DecodeError as error:
            kind = getattr(getattr(self._parse, "__self__", None), "__name__", "a message of this method")
            raise InvalidMessage(
                f"The message can't be read as {kind}: its bytes are damaged, or of another release."
            ) from error


def _only_message(messages: _Messages) -> Any:
    """Take the message of a method that takes one."""
    for message in messages:
        return message
    raise InvalidMessage("The call came without its message.")


def _end(context: grpc.ServicerContext, why: str) -> None:
    """End an RPC from another thread than its own, with a sentence for its caller.

    gRPC's public way, ``context.cancel()``, tells the caller nothing. It takes the place of this one should a release
    of gRPC move what this needs.
    """
    status, _ = grpc.StatusCode.RESOURCE_EXHAUSTED.value
    try:
        context._rpc_event.call.cancel(status, why)  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        context.cancel()
