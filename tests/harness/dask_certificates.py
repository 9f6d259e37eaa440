"""Certificates of a Dask cluster for tests: an authority of its own, as a party's cluster should have."""

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ROLES = ("scheduler", "worker", "client")


def make_dask_certificates(folder: Path, *, days: float = 1, roles: tuple[str, ...] = ROLES) -> Path:
    """An authority and a pair for each role, valid for so many days from an hour ago on."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = ec.generate_private_key(ec.SECP256R1())
    _write(folder, "ca", authority, _certificate("ca", authority, authority, days))
    for role in roles:
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder, role, key, _certificate(role, key, authority, days))
    return folder


def settings_of_client(folder: Path) -> dict[str, str]:
    """Dask's variables for a client with these certificates."""
    prefix = "DASK_DISTRIBUTED__COMM__TLS__"
    return {
        f"{prefix}CA_FILE": str(folder / "ca.crt"),
        f"{prefix}CLIENT__CERT": str(folder / "client.crt"),
        f"{prefix}CLIENT__KEY": str(folder / "client.key"),
    }


def configuration_of_client(folder: Path) -> dict[str, str]:
    """The same in Dask's configuration."""
    files = {"ca-file": "ca.crt", "client.cert": "client.crt", "client.key": "client.key"}
    return {f"distributed.comm.tls.{name}": str(folder / file) for name, file in files.items()}


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey, days: float
) -> x509.Certificate:
    begin = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    is_authority = key is signer
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")]))
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=days))
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .sign(signer, hashes.SHA256())
    )


def _write(folder: Path, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    (folder / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    )
