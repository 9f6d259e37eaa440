"""The one place where connections are made: mTLS channels and servers."""

from __future__ import annotations  # grpc's generics exist for the type checker only

import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import grpc
from grpc_reflection.v1alpha import reflection

from services.common.callers import INSECURE_IDENTITY_KEY, INSTANCE_KEY, require_caller
from services.common.certificates import CertificateFiles
from services.common.dialing import CHANNEL_OPTIONS, KEEPALIVE, intercepted
from services.common.gate import Permissions, gatekeeper
from services.common.health import SERVICE_NAME as HEALTH
from services.common.health import HealthServicer, HoldsSession, holds_none, is_serving
from services.common.identity import Identity, role_of
from services.common.meters import TrafficMeter

# What servicers and callers need, from one place.
__all__ = ["Permissions", "Transport", "is_serving", "require_caller"]

_log = logging.getLogger(__name__)

_SERVER_OPTIONS = [
    *KEEPALIVE,
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.so_reuseport", 0),
]
# Long calls (an epoch, a job) hold a thread each; the rest are short.
_SERVER_THREADS = 32


@dataclass(frozen=True)
class Transport:
    """Makes this party's connections and servers, with its certificate or, for tests only, INSECURE.

    Attributes:
        identity: who this party is.
        certificates: what mTLS needs; None is INSECURE.
        meter: counts the bytes of the calls that this party makes.
        instance: which process of this party it is, as every call tells.
    """

    identity: Identity
    certificates: CertificateFiles | None
    meter: TrafficMeter
    instance: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def is_insecure(self) -> bool:
        """Whether nothing is encrypted and no identity is checked."""
        return self.certificates is None

    def dial(self, address: str, peer: str) -> grpc.Channel:
        """A channel to party ``peer`` at ``address`` (host:port).

        It refuses who can't show that party's certificate.
        """
        if self.certificates is None:
            channel = grpc.insecure_channel(address, CHANNEL_OPTIONS)
        else:
            authority, certificate, key = self.certificates.read()
            channel = grpc.secure_channel(
                address,
                grpc.ssl_channel_credentials(authority, key, certificate),
                [
                    *CHANNEL_OPTIONS,
                    ("grpc.ssl_target_name_override", Identity(role_of(peer), peer).host_name),
                ],
            )
        return intercepted(channel, self._said(), self.meter)

    def _said(self) -> list[tuple[str, str]]:
        """What this party says of itself with every call."""
        return [
            (INSTANCE_KEY, self.instance),
            *([(INSECURE_IDENTITY_KEY, self.identity.uri)] if self.is_insecure else []),
        ]

    def serve(
        self,
        address: str,
        register: Iterable[Callable[[grpc.Server], None]],
        permissions: Permissions,
        service_names: Sequence[str],
        *,
        holds_session: HoldsSession = holds_none,
    ) -> tuple[grpc.Server, int]:
        """Start a server with health and reflection.

        Returns:
            The server and its port.

        Raises:
            OSError: for a taken address.
        """
        server = grpc.server(
            ThreadPoolExecutor(_SERVER_THREADS, thread_name_prefix="rpc"),
            options=_SERVER_OPTIONS,
            interceptors=[gatekeeper(permissions)],
        )
        for add in register:
            add(server)
        HealthServicer(service_names, holds_session).add_to(server)
        reflection.enable_server_reflection([*service_names, HEALTH, reflection.SERVICE_NAME], server)
        try:
            port = self._bind(server, address)
        except RuntimeError as error:
            raise OSError(
                f"Cannot listen on {address}. Is another process there? Choose a free address with PLUMBLINE_LISTEN."
            ) from error
        server.start()
        return server, port

    def _bind(self, server: grpc.Server, address: str) -> int:
        if self.certificates is None:
            _log.warning("INSECURE: no TLS, callers say who they are and nobody checks it. For tests only.")
            return server.add_insecure_port(address)
        authority, certificate, key = self.certificates.read()
        credentials = grpc.ssl_server_credentials(
            [(key, certificate)], root_certificates=authority, require_client_auth=True
        )
        return server.add_secure_port(address, credentials)
