"""Certificates that the authority has taken back: nobody who shows one is answered, or called.

gRPC for Python has no list of revoked certificates. At the server the certificate that a caller has shown is known with
each call. Whoever calls isn't told the server's, so it is looked at over a connection beside gRPC's own.
"""

from __future__ import annotations  # grpc's generics exist for the type checker only

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import cast

import grpc
from cryptography import x509

from services.common.errors import NotIdentified
from services.network.credentials import Credentials

Revoked = frozenset[int]
# How long a server's certificate counts as looked at, and how long a look may take.
_LOOKED_AT_SECONDS, _LOOK_SECONDS = 60.0, 2.0


def check_caller(context: grpc.ServicerContext, revoked: Revoked) -> None:
    """Raise NotIdentified for a caller whose certificate, or one between it and the authority, is revoked."""
    if not revoked:
        return
    shown = cast(Mapping[str, Iterable[bytes]], context.auth_context())
    chain = [*shown.get("x509_pem_cert", ()), *shown.get("x509_pem_cert_chain", ())]
    if any(not revoked.isdisjoint(_serials(pem)) for pem in chain):
        raise NotIdentified(
            "The caller's certificate is revoked by the federation's authority: its owner needs a new pair "
            "(`plumbline certs`)."
        )


@lru_cache(maxsize=256)
def _serials(pem: bytes) -> Revoked:
    return frozenset(one.serial_number for one in x509.load_pem_x509_certificates(pem))


class RevokedPeer(grpc.RpcError, grpc.Call):  # type: ignore[misc]  # gRPC's own are both
    """A call that isn't made: who would answer it shows a revoked certificate."""

    def code(self) -> grpc.StatusCode:
        """Give the code, as of a caller's."""
        return grpc.StatusCode.UNAUTHENTICATED

    def details(self) -> str:
        """Say what it is, to who called."""
        return (
            "The certificate shown at its address is revoked by the federation's authority: nothing is sent there. "
            "Its owner needs a new pair (`plumbline certs`)."
        )


class PeerLook:
    """Looks at the certificate of the server at HOST:PORT, where there are revoked ones. Thread-safe.

    It stops whoever serves with a stolen key in a party's place. Who could send this connection to the party and the
    next one to itself is not stopped by it.
    """

    def __init__(
        self, address: str, credentials: Callable[[], Credentials], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._address = address
        self._credentials = credentials
        self._clock = clock
        self._lock = threading.Lock()
        self._revoked: Revoked = frozenset()
        self._looked = -float("inf")
        self._is_revoked = False

    def check(self) -> None:
        """Raise RevokedPeer where the server's certificate is revoked. Without an answer gRPC will say why."""
        revoked = self._credentials().revoked
        if not revoked:
            return
        with self._lock:
            is_due = revoked is not self._revoked or self._clock() - self._looked > _LOOKED_AT_SECONDS
            # One that is back with a new pair is called at once.
            if is_due or self._is_revoked:
                self._is_revoked = _serial_at(self._address) in revoked
                self._revoked, self._looked = revoked, self._clock()
            if self._is_revoked:
                # Who reads an error asks for its code and its words, and for nothing else of a call.
                raise RevokedPeer  # type: ignore[abstract]


def _serial_at(address: str) -> int | None:
    """Find the number of the certificate that a server shows; None without an answer."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Only what is shown is read here, nothing is sent: gRPC checks who it is for each of its own connections.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    # Shows the certificate before it asks for the caller's.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), _LOOK_SECONDS) as connection,
            context.wrap_socket(connection) as wrapped,
        ):
            shown = wrapped.getpeercert(binary_form=True)
    except OSError:
        return None
    return x509.load_der_x509_certificate(shown).serial_number if shown else None
