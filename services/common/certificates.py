"""A private certificate authority and one certificate per party, its role in the subject alternative name."""

import datetime
import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from services.common.durable import make_folder
from services.common.identity import Identity, role_of

AUTHORITY = "ca"


# The first label of a host name, up to what a certificate's common name holds.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class CertificateError(ValueError):
    """A certificate or key that is missing or unusable, with what to do about it."""


@dataclass(frozen=True)
class CertificateFiles:
    """Where one party finds what mTLS needs: the authority's certificate, its own certificate, its own private key.

    Beside the authority's certificate may stand its list of revoked ones.
    """

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def of(cls, folder: Path, name: str) -> "CertificateFiles":
        """Find the files of party ``name`` in a folder that `plumbline certs` has made."""
        return cls(folder / f"{AUTHORITY}.crt", folder / f"{name}.crt", folder / f"{name}.key")

    @property
    def revocations(self) -> Path:
        """The authority's list of revoked certificates, which need not be there."""
        return self.authority.with_suffix(".crl")


def _replace(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Put a whole new file in the place of an old one: a service may be reading it."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    fresh.replace(path)


def _make_private(folder: Path) -> None:
    """Make a folder that this user alone may enter, whatever the umask, or close the one that is there.

    Raises:
        CertificateError: for a folder with other files that others may enter, and where it can't be closed.
    """
    if folder.is_dir() and not stat.S_IMODE(folder.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        return
    if folder.is_dir() and any(folder.iterdir()) and not (folder / f"{AUTHORITY}.key").exists():
        raise CertificateError(
            f"Other accounts of this machine may enter {folder}, which holds other files: give a folder for "
            f"certificates alone with --out, or close it with `chmod 700 {folder}`."
        )
    make_folder(folder)
    try:
        folder.chmod(stat.S_IRWXU)
    except OSError as error:
        raise CertificateError(
            f"{folder} can't be closed to other accounts ({error.strerror}): have its owner run `chmod 700 {folder}`."
        ) from error


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(common_name: str, issuer: x509.Name, days: float) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _key_usage(**used: bool) -> x509.KeyUsage:
    """Say what a key is for, and nothing else: strict readers, as Python from 3.13 on, ask an authority for it."""
    uses = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{use: used.get(use, False) for use in uses})


def create_authority(folder: Path, *, days: float = 365) -> None:
    """Make an authority in ``folder`` (ca.crt, ca.key), which this user alone may enter.

    Raises:
        CertificateError: when one is there already, and for a folder with other files that others may enter.
    """
    if (folder / f"{AUTHORITY}.key").exists():
        raise CertificateError(
            f"{folder} holds an authority already. Delete the folder for a new one, or choose another with --out."
        )
    _make_private(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Plumbline federation authority")])
    certificate = (
        _builder("Plumbline federation authority", name, days)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _replace(folder / f"{AUTHORITY}.key", _key_pem(key), 0o600)
    _replace(folder / f"{AUTHORITY}.crt", certificate.public_bytes(serialization.Encoding.PEM))


def issue_certificate(folder: Path, identity: Identity, *, days: float = 365) -> CertificateFiles:
    """Sign a certificate for ``identity`` with the authority in ``folder``, and write both it and its key there."""
    files = CertificateFiles.of(folder, identity.name)
    authority, signer = _authority(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(identity.name, authority.subject, days)
        .public_key(key.public_key())
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName(identity.host_name), x509.UniformResourceIdentifier(identity.uri)]
            ),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(digital_signature=True), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    _replace(files.key, _key_pem(key), 0o600)
    _replace(files.certificate, certificate.public_bytes(serialization.Encoding.PEM))
    return files


def _authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Read the authority in a folder and its key; raises CertificateError where they aren't there."""
    try:
        authority = x509.load_pem_x509_certificate((folder / f"{AUTHORITY}.crt").read_bytes())
        signer = serialization.load_pem_private_key((folder / f"{AUTHORITY}.key").read_bytes(), password=None)
    except OSError as error:
        raise CertificateError(f"No authority in {folder}: {error}. Run `plumbline certs` first.") from error
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{folder / 'ca.key'} is not an elliptic curve key. Make a new authority.")
    return authority, signer


def create_federation_certificates(folder: Path, identities: Iterable[Identity], *, days: float = 365) -> None:
    """Create an authority and a certificate per identity, in one folder (a party needs ca.crt and its own pair only).

    Raises:
        CertificateError: for names that can't be used, before anything is written, and for a folder with an authority.
    """
    identities = list(identities)
    _check_names([identity.name for identity in identities])
    create_authority(folder, days=days)
    for identity in identities:
        issue_certificate(folder, identity, days=days)


def _check_names(names: Sequence[str]) -> None:
    """Raise CertificateError for names that two have, or that can't stand in a certificate and a file's name."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise CertificateError(f"Expected names of letters, digits, '-', '_' and '.', got {name!r}.")
        if names.count(name) > 1:
            raise CertificateError(f"Two parties are called {name!r}: every party needs a name of its own.")


def renew_certificates(folder: Path, *, days: float = 365) -> list[str]:
    """Sign a new pair for everybody who has one in ``folder``, with the authority that is there.

    Returns:
        Whose, sorted.

    Raises:
        CertificateError: without an authority, when nobody has a pair, and for a folder that can't be closed to others.
    """
    names = sorted(path.stem for path in folder.glob("*.key") if path.stem != AUTHORITY)
    if not names:
        raise CertificateError(f"Nobody has a key in {folder}: there is nothing to renew. Run `plumbline certs` first.")
    _make_private(folder)
    for name in names:
        issue_certificate(folder, Identity(role_of(name), name), days=days)
    return names


def revoke_certificates(folder: Path, names: Sequence[str]) -> Path:
    """Put certificates on the list of revoked ones of the authority in ``folder``, beside those that are there.

    Args:
        folder: of the authority.
        names: parties, whose present certificates in the folder are meant, or paths of .crt files.

    Returns:
        The list, ``ca.crl``, which every party needs.

    Raises:
        CertificateError: without an authority, for what is no certificate of its, and for a folder that can't be closed
            to others.
    """
    authority, signer = _authority(folder)
    _make_private(folder)
    path = CertificateFiles.of(folder, AUTHORITY).revocations
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(now)
        # A party that gets no newer one goes on with this.
        .next_update(max(authority.not_valid_after_utc, now + datetime.timedelta(days=1)))
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    before = {one.serial_number: one for one in read_revocations(path, [authority])}
    fresh = [
        _issued(authority, folder / f"{name}.crt" if Path(name).suffix != ".crt" else Path(name)) for name in names
    ]
    for entry in before.values():
        builder = builder.add_revoked_certificate(entry)
    for serial in {one.serial_number for one in fresh} - before.keys():
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
        builder = builder.add_revoked_certificate(entry)
    _replace(path, builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return path


def _issued(authority: x509.Certificate, path: Path) -> x509.Certificate:
    """Read the certificate in a file, if this authority has signed it; raises CertificateError."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        certificate.verify_directly_issued_by(authority)
    except (OSError, ValueError, TypeError, InvalidSignature) as error:
        raise CertificateError(
            f"{path} is no certificate of this authority: name a party that has one there, or give the path of a .crt."
        ) from error
    if certificate.subject == authority.subject:
        raise CertificateError("An authority can't revoke itself: replace it (docs/how-to/certificates.md).")
    return certificate


def read_revocations(path: Path, authorities: Iterable[x509.Certificate]) -> list[x509.RevokedCertificate]:
    """Read the certificates on a list of revoked ones; none where there is no list.

    Raises:
        CertificateError: for a list that can't be read, or that none of these authorities has signed.
    """
    try:
        revocations = x509.load_pem_x509_crl(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise CertificateError(
            f"{path} can't be read as a list of revoked certificates: copy it again from where the authority is."
        ) from error
    if not any(_has_signed(one, revocations) for one in authorities):
        raise CertificateError(
            f"{path} isn't signed by the authority in ca.crt: copy both from where the authority is, or remove the "
            "list of an authority that was replaced."
        )
    return [*revocations]


def _has_signed(authority: x509.Certificate, revocations: x509.CertificateRevocationList) -> bool:
    try:
        return revocations.is_signature_valid(authority.public_key())  # type: ignore[arg-type]  # others are a TypeError
    except TypeError:
        return False
