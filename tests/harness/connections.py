"""Certificates and channels of a small federation in one process."""

from pathlib import Path

import grpc

from services.common.certificates import CertificateFiles, create_federation_certificates, issue_certificate
from services.common.identity import Identity, Role, role_of
from services.common.meters import TrafficMeter
from services.network.transport import Transport

PARTIES = ("coordinator", "active", "passive", "operator")
# Signed by the right authority, but its name is no plumbline:// URI.
NAMELESS = "nameless"


class _Nameless(Identity):
    @property
    def uri(self) -> str:
        return "https://example.org/"


def make_certificates(folder: Path) -> Path:
    """A certificate for each of PARTIES and a nameless one."""
    create_federation_certificates(folder, [Identity(role_of(name), name) for name in PARTIES])
    issue_nameless(folder)
    return folder


def issue_nameless(folder: Path) -> None:
    issue_certificate(folder, _Nameless(Role.PASSIVE, NAMELESS))


def transport_of(certificates: Path, name: str) -> Transport:
    return Transport(Identity(role_of(name), name), CertificateFiles.of(certificates, name), TrafficMeter())


def raw_channel(certificates: Path, caller: str, address: str, peer: str) -> grpc.Channel:
    """A connection of its own with a caller's certificate, unchecked and without what this project's transport adds."""
    authority, certificate, key = (
        (certificates / name).read_bytes() for name in ("ca.crt", f"{caller}.crt", f"{caller}.key")
    )
    options = [
        ("grpc.ssl_target_name_override", Identity(role_of(peer), peer).host_name),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_send_message_length", -1),
    ]
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(authority, key, certificate), options)
