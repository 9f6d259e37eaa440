"""A peer of training on shared weights as a plain Python object over gRPC."""

import grpc

from protos.v1 import exchange_pb2, shared_weights_pb2_grpc
from services.exchange.vectors import PublicKeyShown, WireVector
from services.network.statuses import naming_the_party
from services.protocol1.peer_link import vector_parts
from services.shared_weights.share_messages import Kind


@naming_the_party
class ShareLink:
    """Reaches a peer over a channel; no answer within ``timeout`` seconds raises PeerVanished."""

    def __init__(self, name: str, channel: grpc.Channel, timeout: float) -> None:
        self.name = name
        self._stub = shared_weights_pb2_grpc.SharedWeightsStub(channel)
        self._timeout = timeout

    def send_public_key(self, session_id: str, key: PublicKeyShown) -> None:
        """Show the peer this party's key of the session."""
        self._stub.SendPublicKey(_shown(session_id, key), timeout=self._timeout)

    def send_serving_key(self, session_id: str, key: PublicKeyShown) -> None:
        """Show the peer the key under which this party freezes its share of the peer's weights."""
        self._stub.SendServingKey(_shown(session_id, key), timeout=self._timeout)

    def send_validation_key(self, session_id: str, key: PublicKeyShown) -> None:
        """Show the peer the key that this party's pads are under."""
        self._stub.SendValidationKey(_shown(session_id, key), timeout=self._timeout)

    def send_values(self, session_id: str, kind: Kind, step: int, vector: WireVector) -> None:
        """Stream values of a step, or a part of encrypted features, to the peer."""
        getattr(self._stub, kind.call)(vector_parts(session_id, step, vector), timeout=self._timeout)


def _shown(session_id: str, key: PublicKeyShown) -> exchange_pb2.PublicKeyMessage:
    return exchange_pb2.PublicKeyMessage(
        session_id=session_id, key_id=key.key_id, key=key.content, mask_key=key.mask_key
    )
