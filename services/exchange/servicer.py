"""A session's messages on the wire: reads them, hands them to the session's inbox, and writes answers."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import grpc

from protos.v1 import common_pb2, messages_pb2, messages_pb2_grpc
from services.common.errors import InvalidMessage
from services.common.identity import Role
from services.common.wire import joined, parts_of
from services.exchange.peer import Inbox
from services.exchange.vectors import PublicKeyShown, VectorHeader, WireVector
from services.network.transport import Permissions, require_caller

Took: TypeAlias = Callable[[str, int], object]

_SERVICE = messages_pb2.DESCRIPTOR.services_by_name["Messages"]
SERVICE_NAME = _SERVICE.full_name
_PARTIES = frozenset({Role.ACTIVE, Role.PASSIVE})
PERMISSIONS: Permissions = {f"/{SERVICE_NAME}/{method.name}": _PARTIES for method in _SERVICE.methods}


def read_header(parts: Iterator[messages_pb2.MessagePart]) -> tuple[str, str, int, VectorHeader]:
    """Read the session, the kind, the step and the header of a message; no value of it."""
    first = next(parts, None)
    if first is None or first.WhichOneof("part") != "header":
        raise InvalidMessage("A message starts with its header.")
    sent = first.header
    header = VectorHeader(sent.key_id, sent.count, sent.width, sent.exponent, sent.numbers)
    return sent.session_id, sent.kind, sent.step, header


def read_values(header: VectorHeader, parts: Iterator[messages_pb2.MessagePart]) -> WireVector:
    """Read the values of a message whose header was checked: at most the agreed number of bytes."""
    return WireVector.of(header, joined((part.data for part in parts), header.size))


class MessagesServicer(messages_pb2_grpc.MessagesServicer):
    """Serves inboxes to peers. ``inbox_of`` finds a session's by its id, or raises OutOfOrder.

    ``took`` is told the kind and the bytes of each message that an inbox has taken, or answered.
    """

    def __init__(self, inbox_of: Callable[[str], Inbox], took: Took = lambda *_: None) -> None:
        self._inbox_of, self._took = inbox_of, took

    def ShowKey(self, request: messages_pb2.KeyMessage, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """Take a peer's key of a session."""
        key = PublicKeyShown(request.key_id, request.key, request.mask_key, request.purpose)
        self._inbox_of(request.session_id).receive_key(require_caller(context).name, key)
        return common_pb2.Acknowledgement()

    def Send(
        self, request_iterator: Iterator[messages_pb2.MessagePart], context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Take a peer's message of a step."""
        peer = require_caller(context).name
        session_id, kind, step, header = read_header(request_iterator)
        inbox = self._inbox_of(session_id)
        inbox.expects(peer, kind, step, header)
        inbox.receive(peer, kind, step, read_values(header, request_iterator))
        self._took(kind, header.size)
        return common_pb2.Acknowledgement()

    def Ask(
        self, request_iterator: Iterator[messages_pb2.MessagePart], context: grpc.ServicerContext
    ) -> Iterator[messages_pb2.AnswerPart]:
        """Answer a peer's question of a step."""
        peer = require_caller(context).name
        session_id, kind, step, header = read_header(request_iterator)
        inbox = self._inbox_of(session_id)
        inbox.expects_question(peer, kind, step, header)
        answer = inbox.answer(peer, kind, step, read_values(header, request_iterator))
        self._took(kind, header.size + len(answer.data))
        yield messages_pb2.AnswerPart(header=messages_pb2.AnswerHeader(count=answer.count, width=answer.width))
        for data in parts_of(answer.data):
            yield messages_pb2.AnswerPart(data=data)


def add_to(server: grpc.Server, inbox_of: Callable[[str], Inbox], took: Took = lambda *_: None) -> None:
    """Serve inboxes at a server."""
    messages_pb2_grpc.add_MessagesServicer_to_server(MessagesServicer(inbox_of, took), server)
