"""What a worker process does before its first task, and how it runs them. Nothing here holds a secret at rest."""

import ctypes
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

_PR_SET_DUMPABLE = 4  # linux/prctl.h
_LENGTH_BYTES = 8

Outcome = tuple[Any, Exception | None]


def work(party: socket.socket) -> None:
    """Run the packed tasks of this worker's party, one after the other, until it closes its end."""
    try:
        _prepare()
        while True:
            function, task = pickle.loads(receive(party))  # noqa: S301 - from this worker's own parent
            send(party, pickle.dumps(tried(function, task)))
    except Exception:  # the party has gone, or what came out can't be pickled: it runs the task itself
        os._exit(1)


def tried(function: Callable[[Any], Any], task: object) -> Outcome:
    """Run a function over a task: its result, or what it raised."""
    try:
        return function(task), None
    except Exception as error:
        return None, error


def send(stream: socket.socket, data: bytes) -> None:
    """Send a message; raises OSError when the other end has gone, or reads nothing within the socket's timeout."""
    stream.sendall(len(data).to_bytes(_LENGTH_BYTES, "big") + data)


def receive(stream: socket.socket) -> bytes:
    """Receive a message; raises EOFError when the other end has gone, OSError after the socket's timeout in between."""
    return _read(stream, int.from_bytes(_read(stream, _LENGTH_BYTES), "big"))


def _read(stream: socket.socket, count: int) -> bytes:
    data = bytearray(count)
    rest = memoryview(data)
    while rest:
        if not (received := stream.recv_into(rest)):
            raise EOFError
        rest = rest[received:]
    return bytes(data)


def _prepare() -> None:
    """Make this process a worker: it outlives its party by nothing, and leaves no picture of its memory behind."""
    # Ctrl-C reaches a whole terminal. The party decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _leave_no_core_dump()
    threading.Thread(target=_end_with_the_party, name="party watch", daemon=True).start()


def _leave_no_core_dump() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        # A core_pattern that pipes dumps to a program doesn't ask for the limit.
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _end_with_the_party() -> None:
    """End this process when its party's has, however that ended."""
    party = multiprocessing.parent_process()
    if party is not None:
        wait([party.sentinel])
        os._exit(1)
