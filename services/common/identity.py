"""Who is calling: a role and a party name, read from the caller's certificate."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

import grpc

# The party name that certificates carry and dialling checks, so that an identity is never tied to an address.
DOMAIN = "plumbline.internal"
_URI_SCHEME = "plumbline"
# Used by INSECURE servers only, where callers say who they are and nobody can check it.
INSECURE_IDENTITY_KEY = "plumbline-identity"


class Role(StrEnum):
    """The parts that a process can play in a federation."""

    COORDINATOR = "coordinator"
    ACTIVE = "active"
    PASSIVE = "passive"
    OPERATOR = "operator"


@dataclass(frozen=True)
class Identity:
    """A party of the federation: its role, and its name, which is unique."""

    role: Role
    name: str

    @property
    def uri(self) -> str:
        """The subject alternative name that carries this identity, ``plumbline://ROLE/NAME``."""
        return f"{_URI_SCHEME}://{self.role}/{self.name}"

    @property
    def host_name(self) -> str:
        return f"{self.name}.{DOMAIN}"

    @classmethod
    def parse(cls, uri: str) -> "Identity":
        """Read ``plumbline://ROLE/NAME``; raises ValueError for anything else."""
        scheme, separator, rest = uri.partition("://")
        role, slash, name = rest.partition("/")
        if scheme != _URI_SCHEME or not separator or not slash or not name:
            raise ValueError(f"Expected {_URI_SCHEME}://ROLE/NAME, got {uri!r}.")
        return cls(Role(role), name)


def role_of(name: str) -> Role:
    """The role behind a party name: ``coordinator``, ``active`` and ``operator`` are themselves, the rest passive."""
    return Role(name) if name in (Role.COORDINATOR, Role.ACTIVE, Role.OPERATOR) else Role.PASSIVE


def caller_identity(context: grpc.ServicerContext) -> Identity | None:
    """The caller of an RPC, None when it shows no identity of this federation."""
    # grpc's stubs type the values as bytes; they are tuples of bytes.
    certificate = cast(Mapping[str, Iterable[bytes]], context.auth_context())
    names = [value.decode() for value in certificate.get("x509_subject_alternative_name", ())]
    # Without TLS older gRPC says nothing of security, newer "insecure".
    if {*certificate.get("transport_security_type", ())} <= {b"insecure"}:
        names = [str(value) for key, value in context.invocation_metadata() if key == INSECURE_IDENTITY_KEY]
    for name in names:
        try:
            return Identity.parse(name)
        except ValueError:
            continue
    return None


def require_caller(context: grpc.ServicerContext) -> Identity:
    """The caller of an RPC that the server's authorisation let through."""
    identity = caller_identity(context)
    if identity is None:
        raise PermissionError("a caller without identity reached a handler")
    return identity
