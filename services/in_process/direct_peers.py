"""A peer in the same process, whatever the protocol: what a link sends over a connection is handed over as it is."""

from collections.abc import Callable

from services.exchange.outgoing import OutgoingVector
from services.exchange.peer import Inbox
from services.exchange.vectors import DecryptedVector, PublicKeyShown, WireVector


class DirectPeer:
    """The other end of a party's exchange; as a servicer does, it says who sends."""

    def __init__(self, sender: str, inbox_of: Callable[[str], Inbox]) -> None:
        """Take who sends, and what finds the peer's inbox of a session."""
        self._sender, self._inbox_of = sender, inbox_of

    def show_key(self, session_id: str, key: PublicKeyShown) -> None:
        """Show the peer a key."""
        self._inbox_of(session_id).receive_key(self._sender, key)

    def send(self, session_id: str, kind: str, step: int, vector: WireVector | OutgoingVector) -> None:
        """Send a message, all parts at once."""
        self._inbox_of(session_id).receive(self._sender, kind, step, vector.whole())

    def ask(self, session_id: str, kind: str, step: int, vector: WireVector) -> DecryptedVector:
        """Ask for masked values."""
        return self._inbox_of(session_id).answer(self._sender, kind, step, vector)
