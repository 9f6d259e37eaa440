"""How a service stops: when it is asked to, whichever thread the signal reaches."""

import gc
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from services.common.run_files import RunFolderError
from services.network.bootstrap import serve_until_stopped
from services.network.transport import Transport
from services.watching.tally import Tally
from tests.harness.parties import small_settings


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    limit = resource.getrlimit(resource.RLIMIT_CORE)
    yield
    resource.setrlimit(resource.RLIMIT_CORE, limit)
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
        identity=SimpleNamespace(name="active"), tally=Tally(), serve=lambda *_, **__: (SimpleNamespace(stop=stop), 1)
    )

    def strike() -> None:
        signal.pthread_kill(threading.get_ident(), number)

    hung = threading.Timer(20, lambda: os._exit(70))  # instead of a test run that never ends
    hung.start()
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))
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
    assert resource.getrlimit(resource.RLIMIT_CORE) == (0, most)  # keys stay in memory


def test_a_service_whose_records_cant_be_written_says_so_before_it_listens(tmp_path: Path) -> None:
    """Once an unusable folder showed after the last epoch, as INTERNAL, and the model was lost."""
    (tmp_path / "runs").write_text("a file in its place")

    def serve(*_: object) -> None:
        pytest.fail("it listens")

    transport: Any = SimpleNamespace(identity=SimpleNamespace(name="active"), tally=Tally(), serve=serve)
    settings = small_settings(run_dir=tmp_path / "runs")
    with pytest.raises(RunFolderError, match=rf"^This party's records can't be written to {tmp_path}/runs \(Not a dir"):
        serve_until_stopped(cast(Transport, transport), settings, [], {}, [])


def test_a_service_answers_while_it_computes() -> None:
    """A handler beside a busy thread once waited 5 ms for each turn; what is loaded for good isn't looked through."""
    before, frozen = sys.getswitchinterval(), gc.get_freeze_count()
    stop = threading.Event()
    stop.set()
    transport: Any = SimpleNamespace(
        identity=SimpleNamespace(name="active"),
        tally=Tally(),
        serve=lambda *_, **__: (SimpleNamespace(stop=lambda _: stop), 1),
    )
    found: list[tuple[float, int, bool]] = []

    def started() -> None:
        found.append((sys.getswitchinterval(), gc.get_freeze_count(), gc.isenabled()))
        signal.raise_signal(signal.SIGTERM)

    gc.disable()  # as a role that starts does
    try:
        serve_until_stopped(cast(Transport, transport), small_settings(), [], {}, [], on_started=started)
    finally:
        sys.setswitchinterval(before)
        gc.unfreeze()
        gc.enable()
    [(interval, kept, collects)] = found
    assert collects
    assert interval < 0.001
    assert kept > frozen
