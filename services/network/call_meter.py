"""Tells a meter of every call that a server has answered: which method, with which status, after how many seconds."""

from __future__ import annotations  # grpc's generics exist for the type checker only

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from services.watching.tally import CallMeter


class WrappingInterceptor(grpc.ServerInterceptor):
    """Puts something before every handler of a server, once for each method."""

    def __init__(self) -> None:
        self._wrapped: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[Any, Any] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Wrap the method's handler; None for a method that this server doesn't have."""
        method = handler_call_details.method
        wrapped = self._wrapped.get(method)
        if wrapped is None and (handler := continuation(handler_call_details)) is not None:
            wrapped = self._wrapped[method] = self.before(method, handler)
        return wrapped

    def before(self, method: str, handler: grpc.RpcMethodHandler[Any, Any]) -> grpc.RpcMethodHandler[Any, Any]:
        """Put something before a method's handler."""
        raise NotImplementedError


class CallMeterInterceptor(WrappingInterceptor):
    """Stands before the gate, so that what it refuses is counted as well."""

    def __init__(self, meter: CallMeter) -> None:
        super().__init__()
        self._meter = meter

    def before(self, method: str, handler: grpc.RpcMethodHandler[Any, Any]) -> grpc.RpcMethodHandler[Any, Any]:
        """Meter a handler. Behind the gate every request is a stream."""
        behaviour: Any = handler.stream_stream or handler.stream_unary

        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            with self._timed(method, context):
                return behaviour(request, context)

        def answers(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            with self._timed(method, context):
                yield from behaviour(request, context)

        metered: Any = answers if handler.response_streaming else answer
        metered.experimental_thread_pool = behaviour.experimental_thread_pool
        return streaming(handler, metered, handler.request_deserializer)

    @contextmanager
    def _timed(self, method: str, context: grpc.ServicerContext) -> Iterator[None]:
        start, code = time.perf_counter(), grpc.StatusCode.OK
        try:
            yield
        except GeneratorExit:
            # Nobody reads the rest.
            code = grpc.StatusCode.CANCELLED
            raise
        except BaseException:
            code = context.code() or grpc.StatusCode.UNKNOWN  # type: ignore[attr-defined]
            raise
        finally:
            self._meter.ended(method, _camel(code), time.perf_counter() - start)


def _camel(code: grpc.StatusCode) -> str:
    """Write a status as Prometheus' metrics of gRPC have it: FailedPrecondition."""
    return "OK" if code is grpc.StatusCode.OK else code.name.title().replace("_", "")


def streaming(
    handler: grpc.RpcMethodHandler[Any, Any], behaviour: Any, deserializer: Any
) -> grpc.RpcMethodHandler[Any, Any]:
    """Make a handler like another, with this behaviour, to which every request is a stream."""
    factory: Any = (
        grpc.stream_stream_rpc_method_handler if handler.response_streaming else grpc.stream_unary_rpc_method_handler
    )
    made: grpc.RpcMethodHandler[Any, Any] = factory(behaviour, deserializer, handler.response_serializer)
    return made
