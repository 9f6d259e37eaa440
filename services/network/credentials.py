"""What this party's TLS needs, checked before it is used, and read again when its files are renewed."""

import datetime
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes

from services.common.certificates import CertificateError, CertificateFiles, read_revocations
from services.common.identity import Identity

_log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 1.0
_EXPIRY_IS_NEAR = datetime.timedelta(days=14)
_SECONDS_BETWEEN_WARNINGS = 24 * 3600.0
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class Credentials:
    """The authority's certificates, this party's own and its private key, in PEM; they belong together.

    Attributes:
        authority: one certificate or, while an authority is replaced, several.
        certificate: this party's, and those between it and the authority, if any.
        key: of the certificate.
        expires: when this party's certificate does.
        revoked: the numbers of certificates that the authority has taken back.
    """

    authority: bytes
    certificate: bytes
    key: bytes
    expires: datetime.datetime
    revoked: frozenset[int] = frozenset()

    @property
    def expires_soon(self) -> bool:
        """Whether it is time for a new pair."""
        return self.expires - datetime.datetime.now(datetime.UTC) <= _EXPIRY_IS_NEAR


def read_credentials(files: CertificateFiles, identity: Identity) -> Credentials:
    """Read and check what TLS needs of ``identity``; raises CertificateError with what to do."""
    authority, certificate, key = (_content(path) for path in (files.authority, files.certificate, files.key))
    _check_private(files.key)
    authorities = _valid_certificates(files.authority, authority)
    chain = _valid_certificates(files.certificate, certificate)
    _check_identity(files.certificate, chain[0], identity)
    if _public_bytes(chain[0].public_key()) != _public_bytes(_private_key(files.key, key).public_key()):
        raise CertificateError(
            f"{files.key} is not the key of {files.certificate}: put back the pair that `plumbline certs` has made."
        )
    if not _leads_to(chain[0], chain[1:], authorities):
        raise CertificateError(
            f"{files.certificate} is not signed by {files.authority}: take both from the same run of `plumbline certs`."
        )
    revoked = frozenset(one.serial_number for one in read_revocations(files.revocations, authorities))
    if not revoked.isdisjoint(one.serial_number for one in chain):
        raise CertificateError(
            f"{files.certificate} is revoked by {files.revocations}: get a new pair from where the authority is "
            "(`plumbline certs --renew`)."
        )
    return Credentials(authority, certificate, key, chain[0].not_valid_after_utc, revoked)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(
            f"Cannot read {error.filename} ({error.strerror}): point PLUMBLINE_CERTS to this party's folder, which "
            "holds ca.crt and its own pair (`plumbline certs` makes them)."
        ) from error


def _check_private(key: Path) -> None:
    status = key.stat()
    # Kubernetes shows a secret to a service without privileges as a file of root's, to be read by the service's group.
    is_mounted = status.st_uid == 0 != os.geteuid()
    if stat.S_IMODE(status.st_mode) & (_OTHERS & ~stat.S_IRGRP if is_mounted else _OTHERS):
        raise CertificateError(f"Other accounts of this machine may read the private key {key}: chmod 600 {key}")


def _valid_certificates(path: Path, content: bytes) -> Sequence[x509.Certificate]:
    """Read the certificates of a file. One of them at least is valid now, and the first of a party's own."""
    try:
        certificates = x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise CertificateError(
            f"{path} holds no certificate: copy it again from where `plumbline certs` was run."
        ) from error
    now = datetime.datetime.now(datetime.UTC)
    current = [one for one in certificates if one.not_valid_after_utc >= now]
    if not current:
        raise CertificateError(
            f"The certificate in {path} has expired: run `plumbline certs --renew` where the authority is, and copy "
            "the new pair here."
        )
    if current[0].not_valid_before_utc > now:
        raise CertificateError(
            f"The certificate in {path} is valid from {current[0].not_valid_before_utc:%Y-%m-%d %H:%M} UTC on: "
            "check this machine's clock."
        )
    return current


def _private_key(path: Path, content: bytes) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(content, password=None)
    except (TypeError, ValueError) as error:
        raise CertificateError(
            f"{path} holds no private key, or one with a password: copy it again from where `plumbline certs` was run."
        ) from error


def _public_bytes(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _check_identity(path: Path, certificate: x509.Certificate, identity: Identity) -> None:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        uris: list[str] = []
    else:
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if identity.uri not in uris:
        whose = f"the certificate of {', '.join(uris)}" if uris else "no certificate of a party"
        raise CertificateError(
            f"{path} is {whose}, and this party is {identity.uri}: check PLUMBLINE_NAME and PLUMBLINE_CERTS."
        )


def _leads_to(
    certificate: x509.Certificate, between: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]
) -> bool:
    """Tell whether signatures lead from a certificate to one of the authorities, over those between."""
    if any(_is_issued_by(certificate, authority) for authority in authorities):
        return True
    return any(
        _is_issued_by(certificate, one) and _leads_to(one, [*between[:place], *between[place + 1 :]], authorities)
        for place, one in enumerate(between)
    )


def _is_issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


class RenewedCredentials:
    """This party's credentials as its files have them now. Thread-safe.

    New files that can't be used leave the ones before in place, so a pair may be replaced one file after the other.
    """

    def __init__(
        self, files: CertificateFiles, identity: Identity, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._files = files
        self._identity = identity
        self._clock = clock
        self._lock = threading.Lock()
        self._present: Credentials | None = None
        self._seen: object = None
        self._looked = self._warned = -float("inf")

    def present(self) -> Credentials:
        """Read what the files hold, the same object until they are renewed.

        Raises:
            CertificateError: when they could not be used from the start.
        """
        with self._lock:
            now = self._clock()
            if self._present is not None and now - self._looked < _SECONDS_BETWEEN_LOOKS:
                return self._present
            self._looked = now
            present = self._look(self._present)
            if present is not self._present:
                self._present, self._warned = present, -float("inf")
            self._warn_of_expiry(present, now)
            return present

    def _look(self, before: Credentials | None) -> Credentials:
        marks = _marks_of(self._files)
        if before is not None and marks == self._seen:
            return before
        try:
            credentials = read_credentials(self._files, self._identity)
        except CertificateError as error:
            if before is None:
                raise
            _log.warning("The certificate files have changed and can't be used, those before stay: %s", error)
            credentials = before
        else:
            if before is not None:
                # Nobody is taken off the list while this process runs: a file that was lost must let nobody in.
                credentials = replace(credentials, revoked=before.revoked | credentials.revoked)
                if fresh := credentials.revoked - before.revoked:
                    _log.info("Certificates that nobody may use any more: %d more, by ca.crl.", len(fresh))
            if before is not None and credentials.certificate != before.certificate:
                _log.info("The certificate is renewed, valid until %s UTC.", f"{credentials.expires:%Y-%m-%d %H:%M}")
        self._seen = marks
        return credentials

    def _warn_of_expiry(self, present: Credentials, now: float) -> None:
        if not present.expires_soon or now - self._warned < _SECONDS_BETWEEN_WARNINGS:
            return
        self._warned = now
        _log.warning(
            "%s expires on %s UTC, and no connection is made after that: put a new pair in its place. "
            "No restart is needed.",
            self._files.certificate,
            f"{present.expires:%Y-%m-%d %H:%M}",
        )


def _marks_of(files: CertificateFiles) -> object:
    """Find what changes with the files' content or mode."""
    marks: list[tuple[int, ...] | None] = []
    for path in (files.authority, files.certificate, files.key, files.revocations):
        try:
            status = path.stat()
        except OSError:
            marks.append(None)
        else:
            marks.append((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    return marks
