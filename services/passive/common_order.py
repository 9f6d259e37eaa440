"""The common order of rows, which the active party fixes once per session. Knows no network."""

import hashlib
import logging
import threading
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from services.common.errors import InvalidMessage, OutOfOrder
from services.common.limits import ID_BYTES
from vfl.arrays import IntArray
from vfl.data.id_array import IdArray, IdIndex

_log = logging.getLogger(__name__)

# Whatever is wrong, and however much of it: how many ids this party lacks would answer a guess.
REFUSED = (
    "These are not the ids that the alignment found, each of them once. A session's order is sent once, and this one "
    "can't be aligned any more: open another."
)
_NO_ROWS = np.empty(0, dtype=np.int64)


class CommonOrder:
    """Takes one order of one session's rows; safe to call from any thread.

    The first attempt counts, whatever becomes of it. Without that, who sends guessed ids learns from each refusal.
    The same ids again, in the same order, get the recorded outcome.

    Attributes:
        rows: this party's rows in the common order. None until an order is taken.
    """

    def __init__(self, table_ids: Sequence[str], most: int) -> None:
        """Expect an order.

        Args:
            table_ids: this party's own, one per row.
            most: the largest number of ids that the alignment can have found.
        """
        self.rows: IntArray | None = None
        self._table_ids = table_ids
        self._most = most
        self._reading = threading.Lock()
        self._is_attempted = False
        self._digest: bytes | None = None

    def take(self, parts: Iterable[Sequence[str]]) -> None:
        """Read an order, part by part. Too many ids are refused before the rest is read.

        Raises:
            InvalidMessage: for anything but distinct ids of this party's table, in the same words.
            OutOfOrder: for a second attempt with other ids.
        """
        if not self._reading.acquire(blocking=False):
            raise OutOfOrder("The order of this session is being read already: a session's order is sent once.")
        try:
            if self._is_attempted:
                self._repeat(parts)
            else:
                self._is_attempted = True
                self._attempt(parts)
        finally:
            self._reading.release()

    def _attempt(self, parts: Iterable[Sequence[str]]) -> None:
        index, digest = IdIndex(IdArray.of(self._table_ids)), hashlib.blake2b()
        rows = np.concatenate([_NO_ROWS, *map(index.rows, self._bounded(parts, digest))])
        self._digest = digest.digest()
        lacking = int((rows < 0).sum())
        repeated = len(rows) - len(np.unique(rows)) - max(lacking - 1, 0)
        if lacking or repeated or not len(rows):
            _log.warning("An order of %d ids is refused: %d unknown, %d repeated.", len(rows), lacking, repeated)
            raise InvalidMessage(REFUSED)
        self.rows = rows

    def _repeat(self, parts: Iterable[Sequence[str]]) -> None:
        digest = hashlib.blake2b()
        for _ in self._bounded(parts, digest):
            continue
        if digest.digest() != self._digest:
            raise OutOfOrder("The order of this session was sent already: open another session for another one.")
        if self.rows is None:
            raise InvalidMessage(REFUSED)

    def _bounded(self, parts: Iterable[Sequence[str]], digest: "hashlib.blake2b") -> Iterator[Sequence[str]]:
        """Pass parts on, digested: what stands for ids in their order, without holding them.

        Raises:
            InvalidMessage: before the first one with an id that is too many or too long.
        """
        ids_left = self._most
        for part in parts:
            ids_left -= len(part)
            # A stream of empty parts would never end.
            if ids_left < 0 or not part:
                raise InvalidMessage(REFUSED)
            encoded_ids = [value.encode() for value in part]
            if max(map(len, encoded_ids)) > ID_BYTES:
                raise InvalidMessage(REFUSED)
            for encoded in encoded_ids:
                digest.update(len(encoded).to_bytes(4, "big") + encoded)
            yield part
