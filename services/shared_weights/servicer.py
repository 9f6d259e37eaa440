"""Training on shared weights on the wire: reads messages, hands them to the session's exchange."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import grpc

from protos.v1 import common_pb2, exchange_pb2, shared_weights_pb2, shared_weights_pb2_grpc
from services.common.identity import Role
from services.network.transport import Permissions, require_caller
from services.protocol1.servicer import read_header, read_values
from services.protocol1.vectors import PublicKeyShown
from services.shared_weights.share_mailbox import ShareMailbox
from services.shared_weights.share_messages import Kind

_SERVICE = shared_weights_pb2.DESCRIPTOR.services_by_name["SharedWeights"]
SERVICE_NAME = _SERVICE.full_name
_PARTIES = frozenset({Role.ACTIVE, Role.PASSIVE})
PERMISSIONS: Permissions = {f"/{SERVICE_NAME}/{method.name}": _PARTIES for method in _SERVICE.methods}

_Parts: TypeAlias = Iterator[common_pb2.CipherVectorPart]


class SharedWeightsServicer(shared_weights_pb2_grpc.SharedWeightsServicer):
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

    def SendRows(self, request_iterator: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """Take a part of a peer's encrypted rows."""
        return self._received(Kind.ROWS, request_iterator, context)

    def SendBlocks(self, request_iterator: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """Take a part of a peer's encrypted blocks."""
        return self._received(Kind.BLOCKS, request_iterator, context)

    def SendForward(self, request_iterator: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """Take masked products of this party's blocks."""
        return self._received(Kind.FORWARD, request_iterator, context)

    def SendBackward(self, request_iterator: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """Take masked products of this party's rows."""
        return self._received(Kind.BACKWARD, request_iterator, context)

    def HandOn(self, request_iterator: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """Take what a peer's products of others' rows have left it with."""
        return self._received(Kind.HANDED, request_iterator, context)

    def Open(self, request_iterator: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """Take the other share of this party's weights."""
        return self._received(Kind.OPENED, request_iterator, context)

    def Freeze(self, request_iterator: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """Take the other share of this party's weights, encrypted."""
        return self._received(Kind.FROZEN, request_iterator, context)

    def SendValidationKey(
        self, request: exchange_pb2.PublicKeyMessage, context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Take the key that a peer's pads are under."""
        key = PublicKeyShown(request.key_id, request.key)
        self._exchange_of(request.session_id).receive_validation_key(require_caller(context).name, key)
        return common_pb2.Acknowledgement()

    def SendValidation(self, request_iterator: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """Take masked products of this party's blocks of validation rows."""
        return self._received(Kind.VALIDATION, request_iterator, context)

    def SendPads(self, request_iterator: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """Take a peer's encrypted pads."""
        return self._received(Kind.PADS, request_iterator, context)

    def SendDifferences(self, request_iterator: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """Take a peer's shares minus its pads."""
        return self._received(Kind.DIFFERENCES, request_iterator, context)

    def SendCrossed(self, request_iterator: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """Take the masked product of this party's pads."""
        return self._received(Kind.CROSSED, request_iterator, context)

    def ShowWord(self, request_iterator: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """Take a peer's word of a validation."""
        return self._received(Kind.WORD, request_iterator, context)

    def SendWeightPads(self, request_iterator: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """Take encrypted pads of the label party's shares of this party's weights."""
        return self._received(Kind.WEIGHT_PADS, request_iterator, context)

    def SendWeightDifferences(
        self, request_iterator: _Parts, context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Take these shares minus their pads."""
        return self._received(Kind.WEIGHT_DIFFERENCES, request_iterator, context)

    def SendSignalPads(self, request_iterator: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """Take encrypted pads of the backward signal."""
        return self._received(Kind.SIGNAL_PADS, request_iterator, context)

    def SendSignalDifferences(
        self, request_iterator: _Parts, context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Take the backward signal minus its pads."""
        return self._received(Kind.SIGNAL_DIFFERENCES, request_iterator, context)

    def _received(self, kind: Kind, parts: _Parts, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        peer = require_caller(context).name
        session_id, step, header = read_header(parts)
        exchange = self._exchange_of(session_id)
        exchange.expects(peer, kind, step, header)
        exchange.receive(peer, kind, step, read_values(header, parts))
        return common_pb2.Acknowledgement()
