"""How a service stops: when it is asked to, whichever thread the signal reaches."""

import os
import signal
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from services.common.bootstrap import serve_until_stopped
from services.common.transport import Transport
from tests.harness.parties import small_settings


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_reaches_another_thread_stops_the_service(number: signal.Signals) -> None:
    """gRPC has threads of its own, and the kernel may choose any of a process."""
    graces: list[float] = []

    def stop(grace: float) -> threading.Event:
        graces.append(grace)
        ended = threading.Event()
        ended.set()
        return ended

    transport: Any = SimpleNamespace(
        identity=SimpleNamespace(name="active"), serve=lambda *_, **__: (SimpleNamespace(stop=stop), 1)
    )

    def strike() -> None:
        signal.pthread_kill(threading.get_ident(), number)

    hung = threading.Timer(20, lambda: os._exit(70))  # instead of a test run that never ends
    hung.start()
    serve_until_stopped(
        cast(Transport, transport),
        small_settings(),
        [],
        {},
        [],
        on_started=threading.Timer(0.3, strike).start,
    )
    hung.cancel()
    assert graces == [2.0]
