"""The one place where connections are made: mTLS channels and servers."""

from __future__ import annotations  # grpc's generics exist for the type checker only

import errno
import logging
import secrets
import socket
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

import grpc
from grpc_reflection.v1alpha.reflection import SERVICE_NAME as REFLECTION
from grpc_reflection.v1alpha.reflection import enable_server_reflection

from services.common.certificates import CertificateError, CertificateFiles
from services.common.identity import Identity, Role, role_of
from services.common.meters import TrafficMeter
from services.network.call_limits import CALLS_PER_CALLER
from services.network.call_meter import CallMeterInterceptor
from services.network.callers import INSECURE_IDENTITY_KEY, INSTANCE_KEY, require_caller
from services.network.credentials import Credentials, RenewedCredentials
from services.network.dialing import KEEPALIVE, RenewingChannel, channel_options, dial, intercepted
from services.network.gate import Gatekeeper, House, Permissions
from services.network.health import CHECK, HealthServicer, Held, is_serving
from services.network.health import SERVICE_NAME as HEALTH
from services.network.occupancy import Occupancy
from services.network.revocation import PeerLook, Revoked
from services.network.tracing import tracers
from services.network.versions import WIRE_KEY, WIRE_VERSION
from services.watching.tally import Tally

_SERVER_OPTIONS = [
    *KEEPALIVE,
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.so_reuseport", 0),
    # gRPC's default, said aloud: this bounds what one message takes, compressed ones once they are unpacked.
    ("grpc.max_receive_message_length", 4 << 20),
    # Further calls of a connection wait at the caller's end.
    ("grpc.max_concurrent_streams", CALLS_PER_CALLER),
    # Who opens a connection and doesn't say hello.
    ("grpc.server_handshake_timeout_ms", 20_000),
]

_LAST_PORT = 65_535
_ADVICE = "Choose a free address with PLUMBLINE_LISTEN."

# Which calls there are is no secret, but only an operator's tool has a use for it.
REFLECTION_PERMISSIONS: Permissions = {f"/{REFLECTION}/ServerReflectionInfo": frozenset({Role.OPERATOR, Role.ACTIVE})}


def renewed_server_credentials(present: Callable[[], Credentials]) -> grpc.ServerCredentials:
    """Server credentials that each new connection asks ``present`` for; who calls must show a certificate."""
    latest = present()

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        """None while nothing has changed."""
        nonlocal latest
        credentials = present()
        if credentials is latest:
            return None
        latest = credentials
        return _configuration(credentials)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(latest),
        renewed,  # type: ignore[arg-type]  # the stubs know no None
        require_client_authentication=True,
    )


def _configuration(credentials: Credentials) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(credentials.key, credentials.certificate)], root_certificates=credentials.authority
    )


def bound(server: grpc.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    """Bind the server to ``address``, and return its port. Without credentials it is INSECURE.

    Raises:
        OSError: where the address is none, is taken, or is none of this machine.
        CertificateError: where gRPC can't use the certificates or the key.
    """
    _check_form(address)
    try:
        if credentials is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, credentials)
    except RuntimeError as error:
        # gRPC has the same words for an address and for a key that it can't use.
        _check_address(address)
        raise CertificateError(
            f"TLS can't be set up with this party's certificate and key, though {address} is free. "
            "Run `plumbline certs` again."
        ) from error


def check_listen(address: str) -> None:
    """Raise OSError with what to do where no server could be bound to ``address`` now."""
    _check_form(address)
    _check_address(address)


def _check_form(address: str) -> None:
    """Raise OSError for what is no HOST:PORT. gRPC takes some of it, and listens on a port that nobody named."""
    host, _, port = address.rpartition(":")
    if not (host and port.isascii() and port.isdecimal() and int(port) <= _LAST_PORT):
        raise OSError(
            f"Cannot listen on {address}: it is no HOST:PORT, such as 127.0.0.1:50051, with a port up to {_LAST_PORT}. "
            f"{_ADVICE}"
        )


def _check_address(address: str) -> None:
    """Raise OSError with what to do where this machine can't listen on HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # As gRPC does: what is left of a stopped process's connections is no reason.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
            probe.listen()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise OSError(f"Cannot listen on {address}: another process is there. {_ADVICE}") from error
        raise OSError(f"Cannot listen on {address} ({error.strerror or error}). {_ADVICE}") from error


# What servicers and callers need, from one place.
__all__ = ["Permissions", "Transport", "is_serving", "require_caller"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Transport:
    """Makes this party's connections and servers, with its certificate or, for tests only, INSECURE.

    Attributes:
        identity: who this party is.
        certificates: what mTLS needs; None is INSECURE.
        meter: counts the bytes of the calls that this party makes.
        instance: which process of this party it is, as every call tells.
        tally: counts what this party answers and refuses.
    """

    identity: Identity
    certificates: CertificateFiles | None
    meter: TrafficMeter
    instance: str = field(default_factory=lambda: secrets.token_hex(16))
    tally: Tally = field(default_factory=Tally)

    @property
    def is_insecure(self) -> bool:
        """Whether nothing is encrypted and no identity is checked."""
        return self.certificates is None

    def dial(self, address: str, peer: str) -> grpc.Channel:
        """Open a channel to party ``peer`` at ``address`` (host:port).

        It refuses who can't show that party's certificate.
        """
        if self._credentials is None or self.certificates is None:
            channel = grpc.insecure_channel(address, channel_options(address))
            return intercepted(channel, self._said(), self.meter.of_peer(peer))
        host_name = Identity(role_of(peer), peer).host_name
        look = PeerLook(address, host_name, self.certificates, self._credentials.present)
        channel = RenewingChannel(look.credentials, lambda present: dial(address, host_name, present))
        return intercepted(channel, self._said(), self.meter.of_peer(peer), look)

    @cached_property
    def _credentials(self) -> RenewedCredentials | None:
        return RenewedCredentials(self.certificates, self.identity) if self.certificates else None

    def _revoked(self) -> Revoked:
        return frozenset() if self._credentials is None else self._credentials.present().revoked

    def _said(self) -> list[tuple[str, str]]:
        """Write what this party says of itself with every call."""
        return [
            (INSTANCE_KEY, self.instance),
            (WIRE_KEY, str(WIRE_VERSION)),
            *([(INSECURE_IDENTITY_KEY, self.identity.uri)] if self.is_insecure else []),
        ]

    def serve(
        self,
        address: str,
        register: Iterable[Callable[[grpc.Server], None]],
        permissions: Permissions,
        service_names: Sequence[str],
        *,
        held: Held | None = None,
        step_timeout: float = 60.0,
        reflection: bool = False,
    ) -> tuple[grpc.Server, int]:
        """Start a server with health and, for operators' tools where ``reflection`` says so, a list of its calls.

        Args:
            address: host:port; port 0 is any free one.
            register: each adds a servicer.
            permissions: the roles that may call, by method.
            service_names: of the servicers.
            held: what health tells of sessions and models; nothing by default.
            step_timeout: seconds that this party waits for a message of another.
            reflection: whether operators may list the calls.

        Returns:
            The server and its port.

        Raises:
            OSError: where this address can't be listened on.
            CertificateError: for certificates or a key that can't be used.
        """
        occupancy = Occupancy(self.identity.name)
        allowed = {**permissions, **(REFLECTION_PERMISSIONS if reflection else {})}
        meters = [CallMeterInterceptor(self.tally.calls)] if self.tally.calls is not None else []
        house = House(occupancy, self._revoked, self.tally)
        server = grpc.server(
            # The gate's pools have the threads.
            ThreadPoolExecutor(1, thread_name_prefix="rpc"),
            options=_SERVER_OPTIONS,
            interceptors=[
                *meters,
                Gatekeeper(allowed, frozenset({CHECK}), step_timeout, house),
                *tracers(self.identity.name),
            ],
        )
        for add in register:
            add(server)
        HealthServicer(service_names, held, occupancy).add_to(server)
        if reflection:
            enable_server_reflection([*service_names, HEALTH, REFLECTION], server)
        if self._credentials is None:
            _log.warning("INSECURE: no TLS, callers say who they are and nobody checks it. For tests only.")
        credentials = renewed_server_credentials(self._credentials.present) if self._credentials else None
        port = bound(server, address, credentials)
        server.start()
        return server, port
