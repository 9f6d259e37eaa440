"""The tally and the calls of a process as Prometheus reads them, over HTTP at an address of the owner's choice.

The only file that imports ``prometheus_client``: it is imported where PLUMBLINE_METRICS is set, and nowhere else.
"""

import ipaddress
import logging
import socket
import threading
from collections.abc import Iterator

import prometheus_client
from google.protobuf import descriptor_pool
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from services.watching.http_server import BoundedHandler, BoundedServer
from services.watching.tally import Tally

_log = logging.getLogger(__name__)

_PREFIX = "plumbline_"
_GRPC_LABELS = ("grpc_type", "grpc_service", "grpc_method")


class Metrics(Collector):
    """What is exposed: calls, by the names that gRPC's metrics usually have, and all that a tally tells."""

    def __init__(self, tally: Tally) -> None:
        """Expose this tally, which tells of calls from now on."""
        # Its own: nothing that a library may register elsewhere is exposed.
        self.registry = prometheus_client.CollectorRegistry()
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        prometheus_client.ProcessCollector(registry=self.registry)
        self._handled = prometheus_client.Counter(
            "grpc_server_handled", "Calls answered, by status.", (*_GRPC_LABELS, "grpc_code"), registry=self.registry
        )
        self._seconds = prometheus_client.Histogram(
            "grpc_server_handling_seconds", "Seconds until a call was answered.", _GRPC_LABELS, registry=self.registry
        )
        # To look them up by their labels takes longer than to count.
        self._of_call: dict[tuple[str, str], tuple[prometheus_client.Counter, prometheus_client.Histogram]] = {}
        self._tally = tally
        tally.calls = self
        self.registry.register(self)

    def ended(self, method: str, code: str, seconds: float) -> None:
        """Count a call of /package.Service/Method, one that this server has."""
        series = self._of_call.get((method, code))
        if series is None:
            service, _, name = method.lstrip("/").partition("/")
            labels = _type_of(method), service, name
            series = self._handled.labels(*labels, code), self._seconds.labels(*labels)
            self._of_call[method, code] = series
        handled, took = series
        handled.inc()
        took.observe(seconds)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Collect all that the tally tells, as it stands now."""
        for measure in self._tally.measures():
            family = CounterMetricFamily if measure.grows else GaugeMetricFamily
            metric = family(_PREFIX + measure.name, measure.meaning, labels=measure.labels)
            for labels, value in sorted(measure.values.items()):
                metric.add_metric(labels, value)
            yield metric


def serve_metrics(address: str, tally: Tally) -> None:
    """Serve the metrics of this process at HOST:PORT for as long as it lives, on a thread of their own.

    Raises:
        OSError: where that can't be listened on; with what to do.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        server = BoundedServer((host, int(port)), _handler(Metrics(tally).registry, host))
    except OSError as error:
        raise OSError(
            f"Cannot serve metrics on {address} ({error.strerror or error}): choose a free address of this machine "
            "with PLUMBLINE_METRICS, or unset it."
        ) from error
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    _log.info("Metrics are served on port %d.", server.server_port)
    if not (ipaddress.ip_address(host).is_loopback if _is_address(host) else host == "localhost"):
        _log.warning("Metrics are served beyond this machine, without TLS or a login: let your own tools alone read.")


def _handler(registry: prometheus_client.CollectorRegistry, host: str) -> type[BoundedHandler]:
    """Make what answers scrapes of ``registry`` at ``host``, by whichever name cannot have been made to lead here."""
    host_names = frozenset({host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()})

    class Handler(BoundedHandler, prometheus_client.MetricsHandler):
        def is_own_name(self, name: str) -> bool:
            # A page elsewhere has a name with a dot, and no address in numbers.
            return bool(name) and ("." not in name or name in host_names or _is_address(name.strip("[]")))

        def advice(self) -> str:
            return "Ask by IP address, by a name without a dot, or by the name in PLUMBLINE_METRICS"

    Handler.registry = registry
    return Handler


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _type_of(method: str) -> str:
    """Tell which of the four kinds of RPC a method is, as gRPC's metrics have it."""
    try:
        descriptor = descriptor_pool.Default().FindMethodByName(method.lstrip("/").replace("/", "."))
    except KeyError:
        # Of another package's service. Metrics must not end a call.
        return "unknown"
    if descriptor.client_streaming:
        return "bidi_stream" if descriptor.server_streaming else "client_stream"
    return "server_stream" if descriptor.server_streaming else "unary"
