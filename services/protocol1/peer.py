"""What Protocol 1 needs of a peer."""

from typing import Protocol

from services.protocol1.cipher import DecryptedVector, PublicKeyShown, WireVector


class Peer(Protocol):
    """The other end of Protocol 1, wherever it is."""

    def send_public_key(self, session_id: str, key: PublicKeyShown) -> None: ...

    def send_residuals(self, session_id: str, step: int, vector: WireVector) -> None: ...

    def decrypt(self, session_id: str, step: int, vector: WireVector) -> DecryptedVector: ...
