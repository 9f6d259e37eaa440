"""Which clusters a party may use: its own, behind TLS with client certificates, or one that the network can't reach.

Dask's messages are code. Who reaches a scheduler runs what he likes on its workers, and who answers in its place runs
it where the cluster is used.
"""

import datetime
import re
import ssl
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509

from vfl.source_words import without_password

_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+):(\d{1,5})")
_TLS = "distributed.comm.tls"
_CERTIFICATES = ("ca-file", "client.cert", "client.key")


class ClusterRefused(ValueError):
    """A cluster that a party can't or shouldn't use; the text says what to do."""


def check_cluster(address: str) -> None:
    """Refuse a cluster that can't be reached safely from here. Nobody is connected to.

    Raises:
        ClusterRefused: for what is no address, for tcp:// beyond loopback, for tls:// without certificates that work,
            and where the extra `dask` isn't installed.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[3]) < 1 << 16:
        raise ClusterRefused(
            f"{without_password(address)!r} is no address of a Dask scheduler: give it as tls://HOST:PORT."
        )
    if not is_safe(address):
        raise ClusterRefused(
            f"{address} is reached without TLS, and Dask's messages are code: whoever is on the way would run theirs. "
            "Use tls://HOST:PORT with certificates, or a scheduler on this machine's loopback, tcp://127.0.0.1:PORT."
        )
    if find_spec("distributed") is None:
        raise ClusterRefused("a Dask cluster needs the extra `dask`: pip install 'plumbline[dask]'.")
    if address.startswith("tls://"):
        _check_certificates(address)


def is_safe(address: str) -> bool:
    """Tell whether nobody on the network can speak with who listens at this address, or only with a certificate."""
    found = _ADDRESS.fullmatch(address)
    return found is not None and (found[1] == "tls" or _is_loopback(found[2].strip("[]")))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _check_certificates(address: str) -> None:
    from dask import config  # the extra

    settings = {name: config.get(f"{_TLS}.{name}", default=None) for name in _CERTIFICATES}
    if not settings["ca-file"] or not settings["client.cert"]:
        names = ", ".join(_variable(name) for name in _CERTIFICATES)
        raise ClusterRefused(
            f"{address} needs a certificate of this party's, by which the cluster knows it. Set {names} to files, or "
            f"{_TLS} in Dask's own configuration."
        )
    for name, file in settings.items():
        if file:
            _check_readable(name, str(file))
    authority, certificate, key = (settings[name] for name in _CERTIFICATES)
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(authority)
        # Without a password of its own it would ask for one on the terminal.
        context.load_cert_chain(certificate, key or None, password="")
    except ssl.SSLError as error:
        raise ClusterRefused(
            f"{address}: {authority}, {certificate} and its key can't be used together: each must be a PEM file, the "
            "key unencrypted and the certificate's own."
        ) from error
    for file in (authority, certificate):
        _check_dates(Path(str(file)))


def _check_readable(name: str, file: str) -> None:
    if "\n" in file:
        raise ClusterRefused(f"{_variable(name)} holds a PEM text: name a file that has it.")
    try:
        with Path(file).open("rb"):
            pass
    except OSError as error:
        raise ClusterRefused(f"{_variable(name)} names {file}, which can't be read: {error.strerror}.") from error


def _check_dates(file: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    for certificate in x509.load_pem_x509_certificates(file.read_bytes()):
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if now > end:
            raise ClusterRefused(f"the certificate in {file} expired on {end:%Y-%m-%d}: make a new one.")
        if now < begin:
            raise ClusterRefused(f"the certificate in {file} is valid from {begin:%Y-%m-%d} on: check this clock.")


def _variable(name: str) -> str:
    return f"DASK_{_TLS}.{name}".upper().replace(".", "__").replace("-", "_")
