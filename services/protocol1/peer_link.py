"""A peer of Protocol 1 as a plain Python object over gRPC."""

from collections.abc import Iterator

import grpc

from protos.v1 import common_pb2, exchange_pb2, exchange_pb2_grpc
from services.common.errors import InvalidMessage
from services.common.wire import joined
from services.exchange.outgoing import OutgoingVector
from services.exchange.vectors import DecryptedVector, PublicKeyShown, WireVector
from services.network.statuses import naming_the_party


def vector_parts(
    session_id: str, step: int, vector: WireVector | OutgoingVector
) -> Iterator[common_pb2.CipherVectorPart]:
    """Stream a ciphertext vector: header, then data as it is there."""
    header = vector.header
    yield common_pb2.CipherVectorPart(
        header=common_pb2.CipherVectorHeader(
            session_id=session_id,
            step=step,
            key_id=header.key_id,
            count=header.count,
            width=header.width,
            exponent=header.exponent,
        )
    )
    for data in vector.parts():
        yield common_pb2.CipherVectorPart(data=data)


@naming_the_party
class PeerLink:
    """Reaches a peer of Protocol 1 over a channel; no answer within ``timeout`` seconds raises PeerVanished."""

    def __init__(self, name: str, channel: grpc.Channel, timeout: float) -> None:
        self.name = name
        self._stub = exchange_pb2_grpc.GradientExchangeStub(channel)
        self._timeout = timeout

    def send_public_key(self, session_id: str, key: PublicKeyShown) -> None:
        """Show the peer this party's key of the session."""
        message = exchange_pb2.PublicKeyMessage(
            session_id=session_id, key_id=key.key_id, key=key.content, mask_key=key.mask_key
        )
        self._stub.SendPublicKey(message, timeout=self._timeout)

    def send_residuals(self, session_id: str, step: int, vector: WireVector | OutgoingVector) -> None:
        """Stream encrypted residuals of a step to the peer, each part as soon as it is made."""
        self._stub.SendResiduals(vector_parts(session_id, step, vector), timeout=self._timeout)

    def send_hidden(self, session_id: str, step: int, vector: WireVector) -> None:
        """Stream this party's forwarded products of a step to the label party."""
        self._stub.SendHidden(vector_parts(session_id, step, vector), timeout=self._timeout)

    def decrypt(self, session_id: str, step: int, vector: WireVector) -> DecryptedVector:
        """Ask the peer to decrypt masked sums of a step.

        Raises:
            InvalidMessage: for an answer without a header, or one that is larger than the question.
        """
        replies = self._stub.Decrypt(vector_parts(session_id, step, vector), timeout=self._timeout)
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
