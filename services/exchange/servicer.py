"""A session's mailbox on the wire: reads messages, and hands them over."""

from collections.abc import Callable, Iterator

import grpc

from protos.v1 import common_pb2, messages_pb2, messages_pb2_grpc
from services.common.errors import InvalidMessage
from services.common.identity import Role
from services.common.wire import joined
from services.exchange.mailbox import Mailbox
from services.exchange.message_kinds import Message, MessageHeader
from services.network.transport import Permissions, require_caller

_SERVICE = messages_pb2.DESCRIPTOR.services_by_name["Messages"]
SERVICE_NAME = _SERVICE.full_name
_PARTIES = frozenset({Role.ACTIVE, Role.PASSIVE})
PERMISSIONS: Permissions = {f"/{SERVICE_NAME}/{method.name}": _PARTIES for method in _SERVICE.methods}


class MessagesServicer(messages_pb2_grpc.MessagesServicer):
    """Serves mailboxes to peers. ``mailbox_of`` finds a session's by its id, or raises OutOfOrder."""

    def __init__(self, mailbox_of: Callable[[str], Mailbox]) -> None:
        self._mailbox_of = mailbox_of

    def Send(
        self, request_iterator: Iterator[messages_pb2.MessagePart], context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Take a peer's message."""
        peer = require_caller(context).name
        first = next(request_iterator, None)
        if first is None or first.WhichOneof("part") != "header":
            raise InvalidMessage("A message starts with its header.")
        part_header = first.header
        header = MessageHeader(part_header.kind, part_header.step, part_header.numbers, part_header.count)
        mailbox = self._mailbox_of(part_header.session_id)
        mailbox.expects(peer, header)
        mailbox.receive(peer, Message(header, joined((part.data for part in request_iterator), header.size)))
        return common_pb2.Acknowledgement()


def add_to(server: grpc.Server, exchange_of: Callable[[str, type[Mailbox]], Mailbox]) -> None:
    """Serve mailboxes at a server."""
    servicer = MessagesServicer(lambda session_id: exchange_of(session_id, Mailbox))
    messages_pb2_grpc.add_MessagesServicer_to_server(servicer, server)
