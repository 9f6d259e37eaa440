"""How many single shares of each record training's answers may have told one peer, in all sessions."""

from dataclasses import dataclass

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
    """

    records: NDArray[np.uint64]
    shares: NDArray[np.uint32]
    in_answers: int

    @classmethod
    def none(cls) -> "ToldShares":
        """No share of any record."""
        return cls(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.uint32), 0)

    def about(self, records: NDArray[np.uint64]) -> SingleShares:
        """Say what was told of these records, the most of any, and of all records in all."""
        return SingleShares(int(self.shares[np.isin(self.records, records)].max(initial=0)), self.in_answers)

    def after(self, records: NDArray[np.uint64], session: SingleShares) -> "ToldShares":
        """Add a session on these records, each key once."""
        keys = np.union1d(self.records, records)
        shares = np.zeros(len(keys), dtype=np.uint32)
        shares[np.searchsorted(keys, self.records)] = self.shares
        shares[np.searchsorted(keys, records)] += np.uint32(session.of_a_record)
        return ToldShares(keys, shares, self.in_answers + session.in_answers)
