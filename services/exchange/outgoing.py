"""A vector on its way to the peers: its first values travel while its last are still being encrypted."""

import threading
from collections.abc import Callable, Iterable, Iterator

from services.exchange.vectors import VectorHeader, WireVector


class OutgoingVector:
    """A ciphertext vector that one thread makes while others send it, each to a peer of its own. Thread-safe.

    Attributes:
        header: of the whole vector.
    """

    def __init__(self, header: VectorHeader, parts: Iterable[bytes], is_whole: Callable[[], None]) -> None:
        """Make nothing yet.

        Args:
            header: of the whole vector.
            parts: its values, part by part, made when they are drawn.
            is_whole: is called before anybody gets the last part.
        """
        self.header = header
        self._made = parts
        self._is_whole = is_whole
        self._parts: list[bytes] = []
        self._has_ended = False
        self._condition = threading.Condition()

    def make(self) -> WireVector:
        """Make the vector, and hand out each part as soon as it is there; raises what making it raises."""
        size = 0
        try:
            for part in self._made:
                size += len(part)
                if size >= self.header.size:
                    self._is_whole()
                self._tell(part)
        finally:
            self._tell()
        return self.whole()

    def parts(self) -> Iterator[bytes]:
        """Give the parts as they are made, from the first. Where making them fails there are fewer: peers refuse."""
        sent = 0
        while (part := self._await(sent)) is not None:
            yield part
            sent += 1

    def whole(self) -> WireVector:
        """Give the vector, once it is made."""
        header = self.header
        return WireVector(header.key_id, header.count, header.width, header.exponent, b"".join(self.parts()))

    def _tell(self, *parts: bytes) -> None:
        """Add parts; none says that no more come."""
        with self._condition:
            self._parts += parts
            self._has_ended = not parts
            self._condition.notify_all()

    def _await(self, index: int) -> bytes | None:
        with self._condition:
            self._condition.wait_for(lambda: self._has_ended or len(self._parts) > index)
            return self._parts[index] if len(self._parts) > index else None
