"""Starting and stopping a service process: its log, its certificate, its server, its signals."""

import gc
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import grpc

from services.common.certificates import CertificateFiles
from services.common.identity import Identity, Role
from services.common.meters import TrafficMeter
from services.common.run_folder import RunFolder
from services.common.settings import Settings
from services.network.health import Held
from services.network.tracing import flush
from services.network.transport import Permissions, Transport
from services.watching.measures import Measure

_log = logging.getLogger(__name__)
_STOP_GRACE_SECONDS = 2.0
_SIGNAL_SECONDS = 0.25
# How long a thread may keep the interpreter from another that has a call to answer and waits for several such turns.
_SWITCH_SECONDS = 0.0002
# A party's jobs, epochs and sends wait for each other: fewer threads than those at once would be a deadlock.
MAX_THREADS = 64


def make_transport(settings: Settings, role: Role) -> Transport:
    """Make this process's identity and certificates, as the settings say."""
    identity = Identity(role, settings.name or str(role))
    certificates = CertificateFiles.of(settings.certs, identity.name) if settings.transport == "mtls" else None
    transport = Transport(identity, certificates, TrafficMeter())
    transport.tally.add(lambda: _measures(transport.meter))
    return transport


def _measures(meter: TrafficMeter) -> Iterator[Measure]:
    meaning = "Bytes of the calls that this party makes, both ways."
    yield Measure.by("peer", "bytes", meaning, meter.by_peer(), grows=True)


def serve_until_stopped(
    transport: Transport,
    settings: Settings,
    register: Iterable[Callable[[grpc.Server], None]],
    permissions: Permissions,
    service_names: Sequence[str],
    *,
    on_started: Callable[[], None] = lambda: None,
    held: Held | None = None,
) -> None:
    """Serve on the configured address until SIGTERM or SIGINT, then let running calls end.

    ``held`` tells of sessions and models, for who asks the health service.

    Raises:
        RunFolderError: when records are wanted and can't be written. Nobody has been answered then.
        OSError: for a taken address, also of metrics.
    """
    if settings.run_dir is not None:
        RunFolder(settings.run_dir).check(transport.identity.name)
    if settings.metrics:
        # Imported late: services start without it.
        from services.watching.exposition import serve_metrics

        serve_metrics(settings.metrics, transport.tally)
    _answer_promptly()
    _leave_no_core_dump()
    stopped = threading.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: stopped.set())
    server, port = transport.serve(
        settings.listen,
        register,
        permissions,
        service_names,
        held=held,
        step_timeout=settings.step_timeout,
        reflection=settings.reflection,
    )
    if settings.state_dir is None:
        _log.warning("No PLUMBLINE_STATE_DIR: what is trained here ends with this process.")
    _log.info("%s serves on port %d (%s).", transport.identity.name, port, settings.transport)
    on_started()
    # Found by CI: a signal that reaches another thread wakes no endless wait, and is handled when this one wakes.
    while not stopped.wait(_SIGNAL_SECONDS):
        pass
    server.stop(_STOP_GRACE_SECONDS).wait()
    transport.tally.close()
    flush()
    _log.info("%s has stopped.", transport.identity.name)


def _leave_no_core_dump() -> None:
    """Have a crash write no file: what is in memory may be a private key. Whoever must see one raises the limit again.

    A ``core_pattern`` that pipes dumps to a program doesn't ask for the limit.
    """
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _answer_promptly() -> None:
    """Have the interpreter's threads take turns in short time, and its collector pass over what stays for good."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    # Modules and tables are most of what there is, and a full look through them would hold up whoever asks then.
    gc.freeze()
    # It rests while a role starts.
    gc.enable()
