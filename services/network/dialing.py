"""The calling half of a connection: a channel's options and renewal, what is tried again, what calls carry."""

from __future__ import annotations  # grpc's generics exist for the type checker only

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import Message

from protos.v1 import active_pb2, coordinator_pb2, messages_pb2, passive_pb2
from services.common.meters import PeerMeter
from services.network.credentials import Credentials
from services.network.deadlines import inner_timeout
from services.network.proxies import is_loopback
from services.network.revocation import CallNotMade, PeerLook

# Of unary calls only: a retried stream whose peer has died can outlive its deadline (grpcio 1.85). The end of a session
# is told once: who can't be reached notices by itself, and who tells it must not wait for that.
_RETRIED = [
    {"service": service.full_name, "method": method.name}
    for module in (active_pb2, coordinator_pb2, messages_pb2, passive_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if not (method.client_streaming or method.server_streaming or method.name == "EndSession")
]
_RETRY_POLICY = json.dumps(
    {
        "methodConfig": [
            {
                "name": _RETRIED,
                "retryPolicy": {
                    "maxAttempts": 4,
                    "initialBackoff": "0.2s",
                    "maxBackoff": "2s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ]
    }
)
KEEPALIVE = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
]
CHANNEL_OPTIONS = [
    *KEEPALIVE,
    ("grpc.service_config", _RETRY_POLICY),
    # Shorter than the rounds of a watch: a peer that is back is not taken for dead, and its first call comes through.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    # Of one attempt to connect, TLS included, where nothing comes back.
    ("grpc.min_reconnect_backoff_ms", 5_000),
]
# Counted is what a run needs; how often peers ask for each other's health depends on the time it takes.
_UNCOUNTED = "/grpc.health."


def dial(address: str, host_name: str, credentials: Credentials) -> grpc.Channel:
    """Open a channel to HOST:PORT that shows these credentials, and refuses who has no certificate of that name."""
    return grpc.secure_channel(
        address,
        grpc.ssl_channel_credentials(credentials.authority, credentials.key, credentials.certificate),
        [*channel_options(address), ("grpc.ssl_target_name_override", host_name)],
    )


def channel_options(address: str) -> list[tuple[str, Any]]:
    """List the options of a channel to HOST:PORT. On this machine no proxy is on the way, whatever variables say."""
    return [*CHANNEL_OPTIONS, *([("grpc.enable_http_proxy", 0)] if is_loopback(address) else [])]


def intercepted(
    channel: grpc.Channel,
    metadata: Sequence[tuple[str, str]],
    meter: PeerMeter,
    look: PeerLook | None = None,
) -> grpc.Channel:
    """``channel`` with what this party says of itself in each call's metadata, and its bytes counted by ``meter``.

    Each call begins with ``look``, which raises CallNotMade where it must not be made.
    """
    return grpc.intercept_channel(channel, _ClientInterceptor(metadata, meter, look))


class _Received(Iterator[Any]):
    """The messages that a call answers with, as they arrive.

    Whoever stops reading cancels it, or it holds a thread at each end until the deadline. Left to the garbage
    collector, it ends its call as well.
    """

    def __init__(self, call: Any, count: Callable[[Message], None], failed: Callable[[grpc.Call], None]) -> None:
        self._call = call
        self._count = count
        self._failed = failed

    def __next__(self) -> Any:
        try:
            message = next(self._call)
        except grpc.RpcError as error:
            if isinstance(error, grpc.Call):
                self._failed(error)
            raise
        self._count(message)
        return message

    def cancel(self) -> bool:
        """End the call, whether all of it, a part or nothing was read."""
        return bool(self._call.cancel())


class _ClientInterceptor(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Counts the bytes that this party sends and receives as a client, and adds what it says of itself to each call."""

    def __init__(self, metadata: Sequence[tuple[str, str]], meter: PeerMeter, look: PeerLook | None) -> None:
        self._said = tuple(metadata)
        self._meter = meter
        self._look = look

    def _details(self, details: grpc.ClientCallDetails) -> grpc.ClientCallDetails:
        if self._look is not None:
            self._look.check((details.timeout or 0.0) if details.wait_for_ready else 0.0)
        metadata = (*(details.metadata or ()), *self._said)
        timeout = inner_timeout(details.timeout)
        return _CallDetails(details.method, timeout, metadata, details.credentials, details.wait_for_ready)

    def _ended(self, call: grpc.Call) -> None:
        if self._look is not None:
            self._look.ended(call.code())

    def _count(self, method: str | bytes, message: Message) -> None:
        name = method.decode() if isinstance(method, bytes) else method
        if name.startswith(_UNCOUNTED):
            return
        self._meter(f"{name.rsplit('/', 1)[1]}: {type(message).__name__}", message.ByteSize())

    def _counted(self, details: grpc.ClientCallDetails, messages: Iterable[Message]) -> Iterator[Message]:
        for message in messages:
            self._count(details.method, message)
            yield message

    def _received(self, details: grpc.ClientCallDetails, call: Any) -> _Received:
        return _Received(call, lambda message: self._count(details.method, message), self._ended)

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        self._count(client_call_details.method, request)
        try:
            details = self._details(client_call_details)
        except CallNotMade as refusal:
            # Raised, it would be an answer of some kind to who asks without waiting.
            return refusal
        call = continuation(details, request)
        call.add_done_callback(lambda done: self._count_result(client_call_details, done))
        return call

    def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        requests = self._counted(client_call_details, request_iterator)
        call = continuation(self._details(client_call_details), requests)
        call.add_done_callback(lambda done: self._count_result(client_call_details, done))
        return call

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        self._count(client_call_details.method, request)
        return self._received(client_call_details, continuation(self._details(client_call_details), request))

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        requests = self._counted(client_call_details, request_iterator)
        return self._received(client_call_details, continuation(self._details(client_call_details), requests))

    def _count_result(self, details: grpc.ClientCallDetails, call: Any) -> None:
        self._ended(call)
        if not call.cancelled() and call.exception() is None:
            self._count(details.method, call.result())


@dataclass(frozen=True)
class _CallDetails(grpc.ClientCallDetails):
    method: Any
    timeout: Any
    metadata: Any
    credentials: Any
    wait_for_ready: Any


class RenewingChannel(grpc.Channel):
    """A channel that dials again, at its next call, when this party's credentials have been renewed.

    Stubs made of it stay as they are. Calls at work go on over the connection that they have, which is never closed
    under them: gRPC drops it by itself when it has been idle for half an hour.
    """

    def __init__(self, credentials: Callable[[], Credentials], dial: Callable[[Credentials], grpc.Channel]) -> None:
        """Dial for the first time, which opens no connection yet.

        Args:
            credentials: the present ones, equal until they are renewed.
            dial: makes a channel with these.
        """
        self._credentials = credentials
        self._dial = dial
        self._lock = threading.Lock()
        self._dialled_with = credentials()
        self._channel = dial(self._dialled_with)
        self._subscribers: list[tuple[Callable[[grpc.ChannelConnectivity], None], bool]] = []

    def present(self) -> grpc.Channel:
        """Give the channel with the present credentials."""
        credentials = self._credentials()
        with self._lock:
            if credentials != self._dialled_with:
                before, self._channel = self._channel, self._dial(credentials)
                self._dialled_with = credentials
                for callback, try_to_connect in self._subscribers:
                    before.unsubscribe(callback)
                    self._channel.subscribe(callback, try_to_connect)
            return self._channel

    def subscribe(self, callback: Callable[[grpc.ChannelConnectivity], None], try_to_connect: bool = False) -> None:
        """Tell ``callback`` of each change of the connection's state, of the next connections too."""
        channel = self.present()
        with self._lock:
            self._subscribers.append((callback, try_to_connect))
        channel.subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Callable[[grpc.ChannelConnectivity], None]) -> None:
        """Tell ``callback`` no more."""
        with self._lock:
            self._subscribers = [entry for entry in self._subscribers if entry[0] != callback]
            self._channel.unsubscribe(callback)

    def unary_unary(self, *arguments: Any, **options: Any) -> Any:
        """Call as grpc.Channel does."""
        return _PresentCall(self, lambda channel: channel.unary_unary(*arguments, **options))

    def unary_stream(self, *arguments: Any, **options: Any) -> Any:
        """Call as grpc.Channel does."""
        return _PresentCall(self, lambda channel: channel.unary_stream(*arguments, **options))

    def stream_unary(self, *arguments: Any, **options: Any) -> Any:
        """Call as grpc.Channel does."""
        return _PresentCall(self, lambda channel: channel.stream_unary(*arguments, **options))

    def stream_stream(self, *arguments: Any, **options: Any) -> Any:
        """Call as grpc.Channel does."""
        return _PresentCall(self, lambda channel: channel.stream_stream(*arguments, **options))

    def close(self) -> None:
        """End all calls at work over the present connection, and drop it."""
        with self._lock:
            self._channel.close()

    def __enter__(self) -> RenewingChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _PresentCall:
    """A method of whichever channel is the present one when it is called."""

    def __init__(self, channel: RenewingChannel, method_of: Callable[[grpc.Channel], Any]) -> None:
        self._channel = channel
        self._method_of = method_of
        present = channel.present()
        self._made = present, method_of(present)

    def _method(self) -> Any:
        present = self._channel.present()
        channel, method = self._made
        if channel is not present:
            method = self._method_of(present)
            # Together: another thread must not see the new channel with the old method.
            self._made = present, method
        return method

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._method()(*arguments, **options)

    def with_call(self, *arguments: Any, **options: Any) -> Any:
        return self._method().with_call(*arguments, **options)

    def future(self, *arguments: Any, **options: Any) -> Any:
        return self._method().future(*arguments, **options)
