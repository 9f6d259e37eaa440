"""A toss of all parties for one secret number, by commit and reveal (Blum 1981). Knows no network.

    1  each party     commits to a contribution of its own: a hash of it
    2  each party     shows its contribution, once it has the commitments of all
    3  each party     checks those of all against what they had committed to, and hashes them into the number

Guarantee: no party knows the number before all have committed, so none can choose it; one that doesn't like it can only
end the session, which its peers see. Who isn't a party, such as the coordinator, learns nothing of it.
"""

import hashlib
import secrets
from collections.abc import Collection, Sequence

from services.common.errors import InvalidMessage, OutOfOrder
from vfl.data.faults import counted

TOSSED_BYTES = 32


class CoinToss:
    """One party's part of the toss of one session.

    Attributes:
        commitment: what the others are shown first.
        result: the number, of 32 bytes; empty until all contributions are shown.
    """

    def __init__(self, session_id: str, active: str, passive: Collection[str], name: str) -> None:
        """Draw this party's contribution.

        Args:
            session_id: the toss is of this session alone.
            active: the active party's name; its values are first in the messages' lists.
            passive: names of the passive parties, whose values follow in the order of names.
            name: this party's name.
        """
        self.result = b""
        self._session_id = session_id
        self._parties = active, *sorted(passive)
        self._place = self._parties.index(name)
        self._contribution = secrets.token_bytes(TOSSED_BYTES)
        self.commitment = self._hash(name, self._contribution)
        self._commitments: tuple[bytes, ...] | None = None

    def reveal(self, commitments: Sequence[bytes]) -> bytes:
        """Show the own contribution to who has the commitments of all; the same again gets the same.

        Raises:
            InvalidMessage: where this party's own commitment isn't in its place.
            OutOfOrder: for other commitments than before.
        """
        self._check_count(commitments, "commitments")
        if commitments[self._place] != self.commitment:
            raise InvalidMessage(f"{self._parties[self._place]} has committed to something else in the toss of names.")
        if (self._commitments or tuple(commitments)) != tuple(commitments):
            raise OutOfOrder("The toss of names had other commitments before: open another session.")
        self._commitments = tuple(commitments)
        return self._contribution

    def finish(self, contributions: Sequence[bytes]) -> None:
        """Take the contributions of all.

        Raises:
            InvalidMessage: for one that isn't what its party had committed to.
            OutOfOrder: before all have committed.
        """
        if self._commitments is None:
            raise OutOfOrder("The toss of names hasn't begun: all parties commit first.")
        self._check_count(contributions, "contributions")
        for party, contribution, committed in zip(self._parties, contributions, self._commitments, strict=True):
            if len(contribution) != TOSSED_BYTES or self._hash(party, contribution) != committed:
                raise InvalidMessage(f"{party} shows another contribution to the toss of names than it committed to.")
        self.result = self._hash("all", *contributions)

    def _check_count(self, values: Sequence[bytes], what: str) -> None:
        if len(values) != len(self._parties):
            raise InvalidMessage(f"Expected {counted(len(self._parties), what[:-1])} in the toss of names.")

    def _hash(self, *parts: str | bytes) -> bytes:
        digest = hashlib.blake2b(digest_size=TOSSED_BYTES)
        for part in ("toss of names", self._session_id, *parts):
            encoded = part.encode() if isinstance(part, str) else part
            digest.update(len(encoded).to_bytes(4, "big") + encoded)
        return digest.digest()
