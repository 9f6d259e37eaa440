"""A TCP proxy between two processes: it cuts, delays, truncates, flips bits or swallows everything, when told to."""

import itertools
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from plumbline.processes import LocalProcesses

_CHUNK = 1 << 14
_POLL = 0.2


class Fault(StrEnum):
    """What a proxy does to what passes."""

    NONE = "none"
    # Every connection ends, and none is taken.
    CUT = "cut"
    # Each piece waits; nothing is lost.
    DELAY = "delay"
    # The next piece is forwarded in half, then the connection ends, again and again.
    TRUNCATE = "truncate"
    # One bit of every piece is another.
    FLIP = "flip"
    # Connections stand, and are taken, and nothing passes.
    BLACK_HOLE = "black hole"


class Proxy:
    """Forwards connections to ``target`` (HOST:PORT) from an address of its own, with a fault that can be changed.

    Its first connection it ends or forwards elsewhere, where ``first`` says so: "" or HOST:PORT.
    """

    def __init__(self, target: str, delay: float = 0.1, *, listens: bool = False, first: str | None = None) -> None:
        self._targets = itertools.chain([] if first is None else [first], itertools.repeat(target))
        self._delay = delay
        self._fault = Fault.NONE
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_POLL)
        self.bytes_forwarded = 0
        # What has passed in either direction, where it listens.
        self.heard: dict[tuple[int, int], bytearray] | None = {} if listens else None
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """Where it listens, HOST:PORT."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def fault(self) -> Fault:
        """What it does now to what passes."""
        return self._fault

    def strike(self, fault: Fault) -> None:
        """Begin with a fault, on connections that stand as well."""
        self._fault = fault
        if fault is Fault.CUT:
            self._end_all()

    def heal(self) -> None:
        """Forward as if nothing had been. Connections that lost something end: their streams are broken."""
        if self._fault not in (Fault.NONE, Fault.DELAY):
            self._end_all()
        self._fault = Fault.NONE

    def close(self) -> None:
        """End every connection, and take no more."""
        self._closed = True
        self._listener.close()
        self._end_all()

    def _end_all(self) -> None:
        with self._lock:
            ending, self._open = self._open, set()
        for one in ending:
            _end(one)

    def _accept(self) -> None:
        while not self._closed:
            try:
                caller, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            if self._fault is Fault.CUT:
                _end(caller)
                continue
            host, _, port = next(self._targets).rpartition(":")
            if not port:
                _end(caller)
                continue
            try:
                callee = socket.create_connection((host, int(port)), timeout=5)
            except OSError:
                _end(caller)
                continue
            callee.settimeout(None)
            with self._lock:
                self._open |= {caller, callee}
            for source, sink in ((caller, callee), (callee, caller)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(_CHUNK):
                if self._fault is Fault.BLACK_HOLE:
                    continue
                if self._fault is Fault.DELAY:
                    time.sleep(self._delay)
                if self._fault is Fault.FLIP:
                    middle = len(piece) // 2
                    piece = piece[:middle] + bytes([piece[middle] ^ 1]) + piece[middle + 1 :]
                if self._fault is Fault.TRUNCATE:
                    sink.sendall(piece[: len(piece) // 2])
                    break
                sink.sendall(piece)
                if self.heard is not None:
                    self.heard.setdefault((id(source), id(sink)), bytearray()).extend(piece)
                self.bytes_forwarded += len(piece)
        for one in (source, sink):
            _end(one)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@dataclass
class ProxiedProcesses(LocalProcesses):
    """Local processes whose ways to each other lead through proxies, one per caller and callee."""

    proxies: dict[tuple[str, str], Proxy] = field(default_factory=dict)

    def peers_of(self, name: str) -> Mapping[str, str]:
        """The addresses of the others' proxies for this caller."""
        for callee, address in self.addresses.items():
            if callee != name and (name, callee) not in self.proxies:
                self.proxies[name, callee] = Proxy(address)
        return {
            callee: self.proxies[name, callee].address if callee != name else address
            for callee, address in self.addresses.items()
        }

    def stop(self) -> None:
        """Stop the processes, then their proxies."""
        super().stop()
        for proxy in self.proxies.values():
            proxy.close()
