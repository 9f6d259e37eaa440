"""Training on shared weights on the wire: reads messages, hands them to the session's exchange."""

from collections.abc import Callable, Iterator
from functools import partialmethod
from typing import Any, TypeAlias

import grpc

from protos.v1 import common_pb2, exchange_pb2, shared_weights_pb2, shared_weights_pb2_grpc
from services.common.identity import Role
from services.exchange.vectors import PublicKeyShown
from services.network.transport import Permissions, require_caller
from services.protocol1.servicer import read_header, read_values
from services.shared_weights.share_mailbox import ShareMailbox
from services.shared_weights.share_messages import Kind

_SERVICE = shared_weights_pb2.DESCRIPTOR.services_by_name["SharedWeights"]
SERVICE_NAME = _SERVICE.full_name
_PARTIES = frozenset({Role.ACTIVE, Role.PASSIVE})
PERMISSIONS: Permissions = {f"/{SERVICE_NAME}/{method.name}": _PARTIES for method in _SERVICE.methods}

_Parts: TypeAlias = Iterator[common_pb2.CipherVectorPart]


class SharedWeightsServicer:
    """Serves the exchange to peers. ``exchange_of`` finds a session's exchange by its id, or raises OutOfOrder."""

    def __init__(self, exchange_of: Callable[[str], ShareMailbox]) -> None:
        self._exchange_of = exchange_of

    def SendPublicKey(
        self, request: exchange_pb2.PublicKeyMessage, context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Take a peer's public key of a session."""
        key = PublicKeyShown(request.key_id, request.key, request.mask_key)
        self._exchange_of(request.session_id).receive_public_key(require_caller(context).name, key)
        return common_pb2.Acknowledgement()

    def SendServingKey(
        self, request: exchange_pb2.PublicKeyMessage, context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Take the key under which a peer freezes its share of this party's weights."""
        key = PublicKeyShown(request.key_id, request.key)
        self._exchange_of(request.session_id).receive_serving_key(require_caller(context).name, key)
        return common_pb2.Acknowledgement()

    def SendValidationKey(
        self, request: exchange_pb2.PublicKeyMessage, context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Take the key that a peer's pads are under."""
        key = PublicKeyShown(request.key_id, request.key)
        self._exchange_of(request.session_id).receive_validation_key(require_caller(context).name, key)
        return common_pb2.Acknowledgement()

    def _received(self, kind: Kind, parts: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        peer = require_caller(context).name
        session_id, step, header = read_header(parts)
        exchange = self._exchange_of(session_id)
        exchange.expects(peer, kind, step, header)
        exchange.receive(peer, kind, step, read_values(header, parts))
        return common_pb2.Acknowledgement()


# Each kind of values has a call of its own, and all are taken alike.
for _kind in Kind:
    setattr(SharedWeightsServicer, _kind.call, partialmethod(SharedWeightsServicer._received, _kind))


def add_to(server: grpc.Server, exchange_of: Callable[[str, type[ShareMailbox]], ShareMailbox]) -> None:
    """Serve exchanges at a server."""
    servicer: Any = SharedWeightsServicer(lambda session_id: exchange_of(session_id, ShareMailbox))
    shared_weights_pb2_grpc.add_SharedWeightsServicer_to_server(servicer, server)
