"""Who calls: the identity that a certificate shows, and the instance that its process names."""

from __future__ import annotations  # grpc's generics exist for the type checker only

import re
from collections.abc import Iterable, Mapping
from typing import cast

import grpc

from services.common.identity import Caller, Identity
from services.network.versions import WIRE_KEY, check_wire_version, said_by

# Used by INSECURE servers only, where callers say who they are and nobody can check it.
INSECURE_IDENTITY_KEY = "plumbline-identity"
# Which process of the caller it is.
INSTANCE_KEY = "plumbline-instance"
_INSTANCE = re.compile(r"[0-9a-f]{1,64}")


def caller_of(context: grpc.ServicerContext) -> Caller | None:
    """Find the caller of an RPC, None when it shows no identity of this federation."""
    # grpc's stubs type the values as bytes; they are tuples of bytes.
    certificate = cast(Mapping[str, Iterable[bytes]], context.auth_context())
    metadata = said_by(context.invocation_metadata())
    names = [value.decode(errors="replace") for value in certificate.get("x509_subject_alternative_name", ())]
    # Without TLS older gRPC says nothing of security, newer "insecure".
    if {*certificate.get("transport_security_type", ())} <= {b"insecure"}:
        names = [metadata.get(INSECURE_IDENTITY_KEY, "")]
    instance = metadata.get(INSTANCE_KEY, "")
    for name in names:
        try:
            identity = Identity.parse(name)
        except ValueError:
            continue
        return Caller(identity.role, identity.name, instance if _INSTANCE.fullmatch(instance) else "")
    return None


def check_release(context: grpc.ServicerContext, caller: Caller) -> None:
    """Raise OutOfOrder for a process of Plumbline that speaks another version of the wire.

    Operators' tools, such as grpcurl, name no instance and no version: they have to know the messages.
    """
    metadata = said_by(context.invocation_metadata())
    if caller.instance or WIRE_KEY in metadata:
        check_wire_version(caller.name, metadata.get(WIRE_KEY))


def require_caller(context: grpc.ServicerContext) -> Caller:
    """Find the caller of an RPC that the server's authorisation let through."""
    caller = caller_of(context)
    if caller is None:
        raise PermissionError("a caller without identity reached a handler")
    return caller
