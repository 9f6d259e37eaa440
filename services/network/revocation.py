"""Certificates that the authority has taken back: nobody who shows one is answered, or called.

gRPC for Python has no list of revoked certificates. At the server the certificate that a caller has shown is known with
each call. Whoever calls isn't told the server's, so it is looked at over a connection beside gRPC's own, and gRPC then
connects to nobody but the holder of that very certificate: a server that shows each of the two another is refused.
"""

from __future__ import annotations  # grpc's generics exist for the type checker only

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NoReturn, cast

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from services.common.certificates import CertificateFiles
from services.common.errors import NotIdentified
from services.network.credentials import Credentials

Revoked = frozenset[int]
# How long a server's certificate counts as looked at, and how long connecting and the handshake may each take.
_LOOKED_AT_SECONDS, _LOOK_SECONDS = 60.0, 2.0
_SECONDS_BETWEEN_LOOKS = 0.1


def check_caller(context: grpc.ServicerContext, revoked: Revoked) -> None:
    """Raise NotIdentified for a caller whose certificate, or one between it and the authority, is revoked."""
    if not revoked:
        return
    properties = cast(Mapping[str, Iterable[bytes]], context.auth_context())
    chain = [*properties.get("x509_pem_cert", ()), *properties.get("x509_pem_cert_chain", ())]
    if any(not revoked.isdisjoint(_serials(pem)) for pem in chain):
        raise NotIdentified(
            "The caller's certificate is revoked by the federation's authority: its owner needs a new pair "
            "(`plumbline certs`)."
        )


@lru_cache(maxsize=256)
def _serials(pem: bytes) -> Revoked:
    return frozenset(certificate.serial_number for certificate in x509.load_pem_x509_certificates(pem))


class CallNotMade(grpc.RpcError, grpc.Call):  # type: ignore[misc]  # gRPC's own are both
    """A call that isn't made, for its server's certificate. It has what is asked of gRPC's failed calls."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self._code = code
        self._details = details

    def code(self) -> grpc.StatusCode:
        """Give the status, as of a call that was answered."""
        return self._code

    def details(self) -> str:
        """Say why, to who called."""
        return self._details

    def result(self, timeout: float | None = None) -> NoReturn:
        """Raise it."""
        raise self

    def exception(self, timeout: float | None = None) -> CallNotMade:
        """Give it."""
        return self

    def cancelled(self) -> bool:
        """Tell that nobody has cancelled it."""
        return False

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call back at once."""
        callback(self)


class PeerLook:
    """Looks at the certificate of the server at HOST:PORT, where there are revoked ones. Thread-safe.

    Guarantee: while the list has an entry, the channel's credentials trust the certificate that was looked at, which is
    of the authority and of the party's name and not on the list, and no other. Before a look has succeeded they trust
    nobody. So it doesn't matter whether a server can tell a look from a call: who shows the look another certificate
    than its own, or none, isn't connected to.
    """

    def __init__(
        self,
        address: str,
        host_name: str,
        files: CertificateFiles,
        credentials: Callable[[], Credentials],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Get ready to look.

        Args:
            address: HOST:PORT, as gRPC is given it.
            host_name: of the party that should be there, as its certificate has it.
            files: this party's own pair, which a look shows as a call does.
            credentials: the present ones.
            clock: seconds.
        """
        self._address = address
        self._host_name = host_name
        self._files = files
        self._credentials = credentials
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_with: Credentials | None = None
        self._looked = -float("inf")
        self._trusted: bytes | None = None
        self._refusal: tuple[grpc.StatusCode, str] | None = None
        self._has_failed = False

    def credentials(self) -> Credentials:
        """Give what to dial with: this party's credentials, narrowed to the one server certificate that is trusted."""
        present = self._credentials()
        return replace(present, authority=self._trusted or _own(present)) if present.revoked else present

    def check(self, patience: float = 0.0) -> None:
        """Raise CallNotMade where the server shows a revoked certificate, or none that can be checked.

        Args:
            patience: seconds for which the call would wait until the server is there, as the look then does. gRPC
                would wait in vain for a server that comes back with a new pair, so it is looked in any case.
        """
        deadline = self._clock() + patience
        while True:
            try:
                return self._check(self._clock(), patience > 0)
            except CallNotMade as refusal:
                if refusal.code() is not grpc.StatusCode.UNAVAILABLE or self._clock() >= deadline:
                    raise
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def ended(self, code: grpc.StatusCode | None) -> None:
        """Note how a call ended. One without a connection may mean that the server has a new pair."""
        self._has_failed = self._has_failed or code is grpc.StatusCode.UNAVAILABLE

    def _check(self, moment: float, must_look: bool) -> None:
        present = self._credentials()
        if not present.revoked:
            return
        with self._lock:
            is_new = present is not self._looked_with
            must_look = must_look or is_new or self._has_failed or self._refusal is not None
            # Who has waited for another thread's look takes what that has seen.
            if is_new or (self._looked < moment and (must_look or moment - self._looked > _LOOKED_AT_SECONDS)):
                self._look(present, must_look)
            if self._refusal is not None:
                raise CallNotMade(*self._refusal)  # type: ignore[abstract]  # nothing else of a call is asked for

    def _look(self, present: Credentials, must_look: bool) -> None:
        self._looked_with, self._looked = present, self._clock()
        try:
            chain = _chain_at(self._address, self._host_name, self._files, present.authority)
        except (OSError, ValueError) as error:
            # The certificate that is trusted stays good: only whether the server has a newer one isn't known.
            if must_look:
                self._refuse(
                    grpc.StatusCode.UNAVAILABLE, f"Failed to connect for a look at the server's certificate: {error}"
                )
            return
        self._has_failed = False
        if present.revoked.isdisjoint(certificate.serial_number for certificate in chain):
            self._trusted, self._refusal = chain[0].public_bytes(Encoding.PEM), None
        else:
            self._refuse(
                grpc.StatusCode.UNAUTHENTICATED,
                "The certificate shown at its address is revoked by the federation's authority: nothing is sent "
                "there. Its owner needs a new pair (`plumbline certs`).",
            )

    def _refuse(self, code: grpc.StatusCode, details: str) -> None:
        self._trusted, self._refusal = None, (code, details)


def _own(credentials: Credentials) -> bytes:
    """Give this party's own certificate: no other party has its key."""
    return x509.load_pem_x509_certificate(credentials.certificate).public_bytes(Encoding.PEM)


def _chain_at(address: str, host_name: str, files: CertificateFiles, authority: bytes) -> list[x509.Certificate]:
    """Find the certificates that a server shows, from its own to the authority's, asked as gRPC asks.

    Raises:
        OSError: without an answer, and for a certificate that isn't of the authority and of that name.
        ValueError: for an address that is none.
    """
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols(["h2"])
    roots = x509.load_pem_x509_certificates(authority)
    context.load_verify_locations(cadata=b"".join(root.public_bytes(Encoding.DER) for root in roots))
    # A password is asked for at the terminal otherwise.
    context.load_cert_chain(files.certificate, files.key, password="")
    with (
        socket.create_connection((host.strip("[]"), int(port)), _LOOK_SECONDS) as connection,
        context.wrap_socket(connection, server_hostname=host_name) as wrapped,
    ):
        # Public from Python 3.13 on.
        chain = wrapped._sslobj.get_verified_chain()  # type: ignore[attr-defined]
    return [x509.load_pem_x509_certificate(certificate.public_bytes().encode()) for certificate in chain]
