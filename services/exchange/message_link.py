"""A peer's mailbox as a plain Python object over gRPC."""

from collections.abc import Iterator

import grpc

from protos.v1 import messages_pb2, messages_pb2_grpc
from services.common.wire import parts_of
from services.exchange.message_kinds import Message
from services.network.statuses import naming_the_party


@naming_the_party
class MessageLink:
    """Reaches a peer's mailbox over a channel; no answer within ``timeout`` seconds raises PeerVanished."""

    def __init__(self, name: str, channel: grpc.Channel, timeout: float) -> None:
        self.name = name
        self._stub = messages_pb2_grpc.MessagesStub(channel)
        self._timeout = timeout

    def send(self, session_id: str, message: Message) -> None:
        """Stream a message to the peer."""
        self._stub.Send(_parts(session_id, message), timeout=self._timeout)


def _parts(session_id: str, message: Message) -> Iterator[messages_pb2.MessagePart]:
    header = messages_pb2.MessageHeader(session_id=session_id, **vars(message.header))
    yield messages_pb2.MessagePart(header=header)
    for data in parts_of(message.data):
        yield messages_pb2.MessagePart(data=data)
