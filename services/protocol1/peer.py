"""What Protocol 1 needs of a peer."""

from typing import Protocol

from services.exchange.outgoing import OutgoingVector
from services.exchange.vectors import DecryptedVector, PublicKeyShown, WireVector


class Peer(Protocol):
    """Takes this party's messages of Protocol 1, wherever the peer is."""

    def send_public_key(self, session_id: str, key: PublicKeyShown) -> None:
        """Show the peer this party's key of the session."""

    def send_residuals(self, session_id: str, step: int, vector: OutgoingVector) -> None:
        """Send encrypted residuals of a step; they may still be in the making."""

    def send_hidden(self, session_id: str, step: int, vector: WireVector) -> None:
        """Forward this party's products of a step to the label party."""

    def decrypt(self, session_id: str, step: int, vector: WireVector) -> DecryptedVector:
        """Ask the peer to decrypt masked sums of a step."""
