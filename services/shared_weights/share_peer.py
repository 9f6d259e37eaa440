"""What training on shared weights needs of a peer."""

from typing import Protocol

from services.exchange.vectors import PublicKeyShown, WireVector
from services.shared_weights.share_messages import Kind


class SharePeer(Protocol):
    """Takes this party's messages, wherever the peer is."""

    def send_public_key(self, session_id: str, key: PublicKeyShown) -> None:
        """Show the peer this party's key of the session."""

    def send_serving_key(self, session_id: str, key: PublicKeyShown) -> None:
        """Show the peer the key under which this party freezes its share of the peer's weights."""

    def send_validation_key(self, session_id: str, key: PublicKeyShown) -> None:
        """Show the peer the key that this party's pads are under."""

    def send_values(self, session_id: str, kind: Kind, step: int, vector: WireVector) -> None:
        """Send values of a step, or a part of encrypted features, whose number is the step."""
