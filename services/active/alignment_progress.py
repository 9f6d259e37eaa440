"""How far an alignment has come, counted in ids. Knows no network."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from services.common.alignment import LoggedProgress
from vfl.crypto.curve25519 import COORDINATE_BYTES
from vfl.data import BlindedIds


class AlignmentProgress:
    """Counts the blinded ids that one job's alignments have received and sent, and tells how many are to come.

    With each passive party its ids arrive once, and this party's travel there and back. How many a party has is known
    when it answers: until then it counts as having as many as this one.
    """

    def __init__(self, tell: Callable[[int, int], None], own_ids: int, parties: int) -> None:
        """Begin to count.

        Args:
            tell: is told (done, planned) ids after every chunk.
            own_ids: of this party's table.
            parties: how many passive parties it aligns with, in turn.
        """
        self._tell = tell
        self._left_parties = parties
        self._done = 0
        self._begun = 0  # planned for the parties that have been turned to
        self._remaining = own_ids
        self._log = LoggedProgress("Aligning: %s of %s blinded ids.")

    def setup_of(self, setup: BlindedIds, remaining: int) -> BlindedIds:
        """The next party's ids as they arrive. ``remaining``: how many ids this party still asks about."""
        self._remaining = remaining
        self._left_parties -= 1
        self._begun += setup.count + 2 * self._remaining
        return replace(setup, chunks=self.counted(setup.chunks))

    def counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks, each counted once the next is asked for: it has been worked on by then, or is at work."""
        for chunk in chunks:
            yield chunk
            self._count(len(chunk) // COORDINATE_BYTES)

    def _count(self, ids: int) -> None:
        self._done += ids
        planned = max(self._done, self._begun + 3 * self._remaining * self._left_parties)
        self._tell(self._done, planned)
        self._log.note(self._done, planned)
