"""The two ends of what travels between parties in training: a peer as a party reaches it, a party as peers reach it."""

from typing import Protocol

from services.common.errors import NotAllowed
from services.exchange.outgoing import OutgoingVector
from services.exchange.vectors import DecryptedVector, PublicKeyShown, VectorHeader, WireVector


class Peer(Protocol):
    """Takes this party's messages, wherever the peer is. Raises what the peer refuses them with, and PeerVanished."""

    def show_key(self, session_id: str, key: PublicKeyShown) -> None:
        """Show the peer a key of this party's."""

    def send(self, session_id: str, kind: str, step: int, vector: WireVector | OutgoingVector) -> None:
        """Send a message of a step; its values may still be in the making."""

    def ask(self, session_id: str, kind: str, step: int, vector: WireVector) -> DecryptedVector:
        """Ask the peer to decrypt masked values of a step."""


class Inbox:
    """One party's messages of a session, as its peers reach them. What a protocol has no use for is refused."""

    def receive_key(self, peer: str, key: PublicKeyShown) -> None:
        """Take a peer's key of this session.

        Raises:
            InvalidMessage: for a key that doesn't fit the terms, or isn't well-formed.
            OutOfOrder: for a second, different one.
            NotAllowed: from a peer that has none to show.
        """
        raise NotAllowed(f"{peer} has no key to show in this session.")

    def expects(self, peer: str, kind: str, step: int, header: VectorHeader) -> None:
        """Refuse a message by its header, before any value of it is read.

        Raises:
            InvalidMessage: for another header than the agreed one, or a step that no session has.
            NotAllowed: from a peer that sends no such message.
            OutOfOrder: for another step than is due, before the peer's key, and once the session has ended.
        """
        raise NotAllowed(f"{peer} has no such message to send in this session.")

    def receive(self, peer: str, kind: str, step: int, vector: WireVector) -> None:
        """Take a peer's message. What is refused changes nothing; the same again changes nothing.

        Raises:
            InvalidMessage: for anything but the agreed values.
            NotAllowed: as ``expects``.
            OutOfOrder: as ``expects``, and for others than before.
        """
        raise NotAllowed(f"{peer} has no such message to send in this session.")

    def expects_question(self, peer: str, kind: str, step: int, header: VectorHeader) -> None:
        """Refuse a question by its header, as ``expects`` does a message."""
        raise NotAllowed(f"{peer} has no such question to ask in this session.")

    def answer(self, peer: str, kind: str, step: int, vector: WireVector) -> DecryptedVector:
        """Answer a peer's question, once; raises as ``receive``. The same again gets the same answer."""
        raise NotAllowed(f"{peer} has no such question to ask in this session.")

    def end(self, reason: str) -> None:
        """End the session: whoever waits, sends or asks from now on is told ``reason``."""
        raise NotImplementedError

    def suspend(self, reason: str) -> None:
        """End it, and tell whoever waits, sends or asks that another inbox will go on with the training."""
        raise NotImplementedError
