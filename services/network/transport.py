"""The one place where connections are made: mTLS channels and servers."""

from __future__ import annotations  # grpc's generics exist for the type checker only

import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import grpc

from services.common.certificates import CertificateFiles
from services.common.identity import Identity, role_of
from services.common.meters import TrafficMeter
from services.network.callers import INSECURE_IDENTITY_KEY, INSTANCE_KEY, require_caller
from services.network.credentials import RenewedCredentials
from services.network.dialing import CHANNEL_OPTIONS, dial, intercepted
from services.network.gate import Permissions
from services.network.health import HealthServicer, Held, is_serving
from services.network.listening import (
    REFLECTION_PERMISSIONS,
    add_reflection,
    bound,
    make_server,
    renewed_server_credentials,
)
from services.network.occupancy import Occupancy
from services.network.renewing_channel import RenewingChannel

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
        if self._credentials is None:
            channel = grpc.insecure_channel(address, CHANNEL_OPTIONS)
        else:
            host_name = Identity(role_of(peer), peer).host_name
            channel = RenewingChannel(self._credentials.present, lambda present: dial(address, host_name, present))
        return intercepted(channel, self._said(), self.meter)

    @cached_property
    def _credentials(self) -> RenewedCredentials | None:
        return RenewedCredentials(self.certificates, self.identity) if self.certificates else None

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
        server = make_server({**permissions, **(REFLECTION_PERMISSIONS if reflection else {})}, step_timeout, occupancy)
        for add in register:
            add(server)
        HealthServicer(service_names, held, occupancy).add_to(server)
        if reflection:
            add_reflection(server, service_names)
        port = bound(server, address, self._server_credentials())
        server.start()
        return server, port

    def _server_credentials(self) -> grpc.ServerCredentials | None:
        if self._credentials is None:
            _log.warning("INSECURE: no TLS, callers say who they are and nobody checks it. For tests only.")
            return None
        return renewed_server_credentials(self._credentials.present)
