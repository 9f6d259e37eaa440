"""Protocol 1 on the wire: reads messages, hands them to the session's GradientExchange, writes answers."""

from collections.abc import Callable, Iterator

import grpc

from protos.v1 import common_pb2, exchange_pb2, exchange_pb2_grpc
from services.common.errors import InvalidMessage
from services.common.identity import Role
from services.common.wire import joined, parts_of
from services.exchange.vectors import PublicKeyShown, VectorHeader, WireVector
from services.network.transport import Permissions, require_caller
from services.protocol1.exchange import GradientExchange

_SERVICE = exchange_pb2.DESCRIPTOR.services_by_name["GradientExchange"]
SERVICE_NAME = _SERVICE.full_name
_PARTIES = frozenset({Role.ACTIVE, Role.PASSIVE})
PERMISSIONS: Permissions = {f"/{SERVICE_NAME}/{method.name}": _PARTIES for method in _SERVICE.methods}


def read_header(parts: Iterator[common_pb2.CipherVectorPart]) -> tuple[str, int, VectorHeader]:
    """Read the session, the step and the header of a vector; no value of it."""
    first = next(parts, None)
    if first is None or first.WhichOneof("part") != "header":
        raise InvalidMessage("A ciphertext vector starts with its header.")
    header = first.header
    return header.session_id, header.step, VectorHeader(header.key_id, header.count, header.width, header.exponent)


def read_values(header: VectorHeader, parts: Iterator[common_pb2.CipherVectorPart]) -> WireVector:
    """Read the values of a vector whose header was checked: at most the agreed number of bytes."""
    data = joined((part.data for part in parts), header.size)
    return WireVector(header.key_id, header.count, header.width, header.exponent, data)


class GradientExchangeServicer(exchange_pb2_grpc.GradientExchangeServicer):
    """Serves Protocol 1 to peers. ``exchange_of`` finds a session's exchange by its id, or raises OutOfOrder."""

    def __init__(self, exchange_of: Callable[[str], GradientExchange]) -> None:
        self._exchange_of = exchange_of

    def SendPublicKey(
        self, request: exchange_pb2.PublicKeyMessage, context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Take a peer's public key of a session."""
        self._exchange_of(request.session_id).receive_public_key(
            require_caller(context).name, PublicKeyShown(request.key_id, request.key, request.mask_key)
        )
        return common_pb2.Acknowledgement()

    def SendResiduals(
        self, request_iterator: Iterator[common_pb2.CipherVectorPart], context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Take a peer's encrypted residuals of a step."""
        peer = require_caller(context).name
        session_id, step, header = read_header(request_iterator)
        exchange = self._exchange_of(session_id)
        exchange.expects_residuals(peer, step, header)
        exchange.receive_residuals(peer, step, read_values(header, request_iterator))
        return common_pb2.Acknowledgement()

    def SendHidden(
        self, request_iterator: Iterator[common_pb2.CipherVectorPart], context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Take a peer's forwarded products of a step."""
        peer = require_caller(context).name
        session_id, step, header = read_header(request_iterator)
        exchange = self._exchange_of(session_id)
        exchange.expects_hidden(peer, step, header)
        exchange.receive_hidden(peer, step, read_values(header, request_iterator))
        return common_pb2.Acknowledgement()

    def Decrypt(
        self, request_iterator: Iterator[common_pb2.CipherVectorPart], context: grpc.ServicerContext
    ) -> Iterator[exchange_pb2.DecryptedVectorPart]:
        """Answer a peer's masked sums of a step."""
        peer = require_caller(context).name
        session_id, step, header = read_header(request_iterator)
        exchange = self._exchange_of(session_id)
        exchange.expects_sums(peer, step, header)
        answer = exchange.answer_sums(peer, step, read_values(header, request_iterator))
        yield exchange_pb2.DecryptedVectorPart(
            header=exchange_pb2.DecryptedVectorHeader(count=answer.count, width=answer.width)
        )
        for data in parts_of(answer.data):
            yield exchange_pb2.DecryptedVectorPart(data=data)


def add_to(server: grpc.Server, exchange_of: Callable[[str, type[GradientExchange]], GradientExchange]) -> None:
    """Serve Protocol 1 at a server."""
    servicer = GradientExchangeServicer(lambda session_id: exchange_of(session_id, GradientExchange))
    exchange_pb2_grpc.add_GradientExchangeServicer_to_server(servicer, server)
