"""The common order of rows, which the active party fixes once per session. Knows no network."""

import hashlib
import logging
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from services.common.errors import InvalidMessage, OutOfOrder
from services.common.limits import ID_BYTES
from vfl.arrays import IntArray

_log = logging.getLogger(__name__)

# Whatever is wrong, and however much of it: how many ids this party lacks would answer a guess.
REFUSED = (
    "These are not the ids that the alignment found, each of them once. A session's order is sent once, and this one "
    "can't be aligned any more: open another."
)
_LACKING = -1


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
        row_of = {value: row for row, value in enumerate(self._table_ids)}
        rows, digest = array("q"), _Digest()
        for value in self._bounded(parts):
            digest.add(value)
            rows.append(row_of.get(value, _LACKING))
        self._digest = digest.value
        found = np.array(rows, dtype=np.int64)
        lacking = int((found == _LACKING).sum())
        repeated = len(found) - len(np.unique(found)) - max(lacking - 1, 0)
        if lacking or repeated or not len(found):
            _log.warning("An order of %d ids is refused: %d unknown, %d repeated.", len(found), lacking, repeated)
            raise InvalidMessage(REFUSED)
        self.rows = found

    def _repeat(self, parts: Iterable[Sequence[str]]) -> None:
        digest = _Digest()
        for value in self._bounded(parts):
            digest.add(value)
        if digest.value != self._digest:
            raise OutOfOrder("The order of this session was sent already: open another session for another one.")
        if self.rows is None:
            raise InvalidMessage(REFUSED)

    def _bounded(self, parts: Iterable[Sequence[str]]) -> Iterator[str]:
        """The ids of all parts; raises InvalidMessage before the first one that is too many or too long."""
        left = self._most
        for part in parts:
            left -= len(part)
            # A stream of empty parts would never end.
            if left < 0 or not part:
                raise InvalidMessage(REFUSED)
            for value in part:
                if len(value.encode()) > ID_BYTES:
                    raise InvalidMessage(REFUSED)
                yield value


class _Digest:
    """Stands for ids in their order, without holding them."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b()

    def add(self, value: str) -> None:
        encoded = value.encode()
        self._hash.update(len(encoded).to_bytes(4, "big") + encoded)

    @property
    def value(self) -> bytes:
        return self._hash.digest()
