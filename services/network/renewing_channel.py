"""A channel whose certificate can be renewed: gRPC's own keeps the one that it was made with."""

from __future__ import annotations  # grpc's generics exist for the type checker only

import threading
from collections.abc import Callable
from typing import Any

import grpc

from services.network.credentials import Credentials


class RenewingChannel(grpc.Channel):
    """A channel that dials again, at its next call, when this party's credentials have been renewed.

    Stubs made of it stay as they are. Calls at work go on over the connection that they have, which is never closed
    under them: gRPC drops it by itself when it has been idle for half an hour.
    """

    def __init__(self, credentials: Callable[[], Credentials], dial: Callable[[Credentials], grpc.Channel]) -> None:
        """Dial for the first time, which opens no connection yet.

        Args:
            credentials: the present ones, the same object until they are renewed.
            dial: makes a channel with these.
        """
        self._credentials = credentials
        self._dial = dial
        self._lock = threading.Lock()
        self._dialled_with = credentials()
        self._channel = dial(self._dialled_with)
        self._subscribers: list[tuple[Callable[[grpc.ChannelConnectivity], None], bool]] = []

    def present(self) -> grpc.Channel:
        """The channel with the present credentials."""
        credentials = self._credentials()
        with self._lock:
            if credentials is not self._dialled_with:
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
        """As grpc.Channel's."""
        return _PresentCall(self, lambda channel: channel.unary_unary(*arguments, **options))

    def unary_stream(self, *arguments: Any, **options: Any) -> Any:
        """As grpc.Channel's."""
        return _PresentCall(self, lambda channel: channel.unary_stream(*arguments, **options))

    def stream_unary(self, *arguments: Any, **options: Any) -> Any:
        """As grpc.Channel's."""
        return _PresentCall(self, lambda channel: channel.stream_unary(*arguments, **options))

    def stream_stream(self, *arguments: Any, **options: Any) -> Any:
        """As grpc.Channel's."""
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
