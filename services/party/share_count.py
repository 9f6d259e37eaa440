"""How much training's answers may have told one peer of each record, in all sessions: shares, or sums of labels."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from services.party.share_guard import SingleShares


@dataclass(frozen=True, eq=False)
class ToldShares:
    """A count that never changes: a further session gives another one.

    Attributes:
        records: (n,) keys of records, rising.
        shares: (n,) of each.
        in_answers: of all records, as many as answers had room for.
        occasions: names of what is told once, however often it is asked for: the batches of sums of labels.
    """

    records: NDArray[np.uint64]
    shares: NDArray[np.uint32]
    in_answers: int
    occasions: frozenset[str] = frozenset()

    @classmethod
    def none(cls) -> "ToldShares":
        """No share of any record."""
        return cls(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.uint32), 0)

    def about(self, records: NDArray[np.uint64]) -> SingleShares:
        """Say what was told of these records, the most of any, and of all records in all."""
        return SingleShares(int(self.of(records).max(initial=0)), self.in_answers)

    def of(self, records: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Say what was told of each of these records; 0 of one that isn't known."""
        if not len(self.records):
            return np.zeros(len(records), dtype=np.uint32)
        places = np.minimum(np.searchsorted(self.records, records), len(self.records) - 1)
        return np.where(self.records[places] == records, self.shares[places], np.uint32(0))

    def after(self, records: NDArray[np.uint64], session: SingleShares, occasion: str = "") -> "ToldShares":
        """Add a session on these records, each key once; of an occasion that was counted before the answers alone."""
        if occasion in self.occasions:
            return replace(self, in_answers=self.in_answers + session.in_answers)
        keys = np.union1d(self.records, records)
        shares = np.zeros(len(keys), dtype=np.uint32)
        shares[np.searchsorted(keys, self.records)] = self.shares
        shares[np.searchsorted(keys, records)] += np.uint32(session.of_a_record)
        occasions = self.occasions | {occasion} if occasion else self.occasions
        return ToldShares(keys, shares, self.in_answers + session.in_answers, occasions)
