"""A peer in the same process, whatever the protocol: what a link sends over a connection is handed over as it is."""

from collections.abc import Callable
from typing import Any

from services.exchange.message_kinds import Message
from services.exchange.outgoing import OutgoingVector
from services.exchange.vectors import DecryptedVector, PublicKeyShown, WireVector
from services.shared_weights.share_messages import Kind


class DirectPeer:
    """The other end of a party's exchange; as a servicer does, it says who sends."""

    def __init__(self, sender: str, exchange_of: Callable[[str], Any]) -> None:
        """Take who sends, and what finds the peer's exchange of a session."""
        self._sender, self._exchange_of = sender, exchange_of

    def send_public_key(self, session_id: str, key: PublicKeyShown) -> None:
        """Show the peer a key."""
        self._exchange_of(session_id).receive_public_key(self._sender, key)

    def send_residuals(self, session_id: str, step: int, vector: OutgoingVector) -> None:
        """Send residuals, all parts at once."""
        self._exchange_of(session_id).receive_residuals(self._sender, step, vector.whole())

    def send_hidden(self, session_id: str, step: int, vector: WireVector) -> None:
        """Forward products."""
        self._exchange_of(session_id).receive_hidden(self._sender, step, vector)

    def decrypt(self, session_id: str, step: int, vector: WireVector) -> DecryptedVector:
        """Ask for masked sums."""
        answer: DecryptedVector = self._exchange_of(session_id).answer_sums(self._sender, step, vector)
        return answer

    def send_serving_key(self, session_id: str, key: PublicKeyShown) -> None:
        """Show the peer the key that frozen shares are under."""
        self._exchange_of(session_id).receive_serving_key(self._sender, key)

    def send_validation_key(self, session_id: str, key: PublicKeyShown) -> None:
        """Show the peer the key that pads are under."""
        self._exchange_of(session_id).receive_validation_key(self._sender, key)

    def send_values(self, session_id: str, kind: Kind, step: int, vector: WireVector) -> None:
        """Send values on shares."""
        self._exchange_of(session_id).receive(self._sender, kind, step, vector)

    def send(self, session_id: str, message: Message) -> None:
        """Send a message of another package's protocol."""
        mailbox = self._exchange_of(session_id)
        mailbox.expects(self._sender, message.header)
        mailbox.receive(self._sender, message)
