"""The gate before every handler: who may call what, and which status an error becomes."""

from __future__ import annotations  # grpc's generics exist for the type checker only

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc

from services.common.callers import caller_of
from services.common.errors import NotAllowed, NotIdentified
from services.common.identity import Role
from services.common.statuses import abort_with

# Their handlers check for themselves.
_PUBLIC_SERVICES = ("/grpc.health.", "/grpc.reflection.")

Permissions = Mapping[str, frozenset[Role]]


def gatekeeper(permissions: Permissions) -> grpc.ServerInterceptor:
    """Guards every handler of a server but health and reflection."""
    return _Gatekeeper(permissions)


class _Gatekeeper(grpc.ServerInterceptor):
    """Checks the caller's role before any handler runs, and turns what a handler raises into a gRPC status."""

    def __init__(self, permissions: Permissions) -> None:
        self._permissions = permissions

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[Any, Any] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith(_PUBLIC_SERVICES):
            return handler
        allowed = self._permissions.get(method, frozenset())
        streams = handler.response_streaming

        def guarded(behaviour: Callable[[Any, grpc.ServicerContext], Any]) -> Callable[..., Any]:
            def answer(request: Any, context: grpc.ServicerContext) -> Any:
                try:
                    _check_caller(context, method, allowed)
                    return behaviour(request, context)
                except Exception as error:
                    abort_with(context, error)

            def answers(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
                try:
                    _check_caller(context, method, allowed)
                    yield from behaviour(request, context)
                except Exception as error:
                    abort_with(context, error)

            return answers if streams else answer

        return _rebuilt(handler, guarded)


def _check_caller(context: grpc.ServicerContext, method: str, allowed: frozenset[Role]) -> None:
    caller = caller_of(context)
    if caller is None:
        raise NotIdentified("No identity of this federation. Call with a certificate made by `plumbline certs`.")
    if caller.role not in allowed:
        raise NotAllowed(f"{method} is not for role {caller.role}; allowed: {', '.join(sorted(allowed)) or 'none'}.")


def _rebuilt(
    handler: grpc.RpcMethodHandler[Any, Any], wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> grpc.RpcMethodHandler[Any, Any]:
    """The same handler with its behaviour wrapped, whichever of the four kinds of RPC it is."""
    factories: dict[tuple[bool, bool], tuple[Callable[..., Any], Any]] = {
        (False, False): (grpc.unary_unary_rpc_method_handler, handler.unary_unary),
        (False, True): (grpc.unary_stream_rpc_method_handler, handler.unary_stream),
        (True, False): (grpc.stream_unary_rpc_method_handler, handler.stream_unary),
        (True, True): (grpc.stream_stream_rpc_method_handler, handler.stream_stream),
    }
    factory, behaviour = factories[bool(handler.request_streaming), bool(handler.response_streaming)]
    rebuilt: grpc.RpcMethodHandler[Any, Any] = factory(
        wrap(behaviour), handler.request_deserializer, handler.response_serializer
    )
    return rebuilt
