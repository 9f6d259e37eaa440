"""A peer's end of a session's messages as a plain Python object over gRPC."""

from collections.abc import Iterator

import grpc

from protos.v1 import messages_pb2, messages_pb2_grpc
from services.common.errors import InvalidMessage
from services.common.wire import joined
from services.exchange.outgoing import OutgoingVector
from services.exchange.vectors import DecryptedVector, PublicKeyShown, WireVector
from services.network.statuses import naming_the_party


def parts_of_message(
    session_id: str, kind: str, step: int, vector: WireVector | OutgoingVector
) -> Iterator[messages_pb2.MessagePart]:
    """Stream a message: its header, then values as they are there."""
    header = messages_pb2.MessageHeader(session_id=session_id, kind=kind, step=step, **vars(vector.header))
    yield messages_pb2.MessagePart(header=header)
    for data in vector.parts():
        yield messages_pb2.MessagePart(data=data)


@naming_the_party
class MessageLink:
    """Reaches a peer over a channel; no answer within ``timeout`` seconds raises PeerVanished."""

    def __init__(self, name: str, channel: grpc.Channel, timeout: float) -> None:
        self.name = name
        self._stub = messages_pb2_grpc.MessagesStub(channel)
        self._timeout = timeout

    def show_key(self, session_id: str, key: PublicKeyShown) -> None:
        """Show the peer a key of this party's."""
        message = messages_pb2.KeyMessage(
            session_id=session_id, key_id=key.key_id, purpose=key.purpose, key=key.content, mask_key=key.mask_key
        )
        self._stub.ShowKey(message, timeout=self._timeout)

    def send(self, session_id: str, kind: str, step: int, vector: WireVector | OutgoingVector) -> None:
        """Stream a message to the peer, each part as soon as it is made."""
        self._stub.Send(parts_of_message(session_id, kind, step, vector), timeout=self._timeout)

    def ask(self, session_id: str, kind: str, step: int, vector: WireVector) -> DecryptedVector:
        """Ask the peer to decrypt masked values of a step.

        Raises:
            InvalidMessage: for an answer without a header, or one that is larger than the question.
        """
        replies = self._stub.Ask(parts_of_message(session_id, kind, step, vector), timeout=self._timeout)
        try:
            first = next(replies, None)
            if first is None or first.WhichOneof("part") != "header":
                raise InvalidMessage(f"{self.name} answered without a header.")
            header = first.header
            # A residue is shorter than its ciphertext. No more is read, whatever the header announces.
            data = joined((reply.data for reply in replies), len(vector.data))
            return DecryptedVector(header.count, header.width, data)
        finally:
            replies.cancel()
