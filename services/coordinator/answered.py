"""One answer per record: who asks again with another share gets no second look at a defended score."""

from collections.abc import Mapping, Sequence

import numpy as np

from services.common import limits
from services.common.errors import NotAllowed
from vfl.arrays import FloatArray

# A record's logits differ from batch to batch in their last bits. This is more than that, and too little to learn from.
_TOLERANCE = 1e-6


class AnsweredRecords:
    """Remembers the logits that each record was first asked about with, by each passive party's pseudonym of it.

    Without it an active party can lie about its own share and search for the one at which the answer turns, whatever a
    defence rounds, adds or leaves out.

    Every share of the sum is fixed between epochs. After an epoch, passive parties make new pseudonyms. One honest
    passive party is enough: nobody can vary what is added to its share.
    """

    def __init__(self, most: int = limits.ALIGNED_ROWS) -> None:
        """Remember at most so many records by each passive party's pseudonyms."""
        self._first: dict[str, dict[int, tuple[float, ...]]] = {}
        self._most = most

    def first_logits(self, logits: FloatArray, tokens: Mapping[str, Sequence[int]]) -> FloatArray:
        """Give (rows, columns) logits as they were when each record was first asked for.

        Args:
            logits: of this request. A record may stand in several rows.
            tokens: of each passive party, its pseudonym of each row's record.

        Raises:
            NotAllowed: for logits that differ from the first by more than rounding does. The first stay. For more
                pseudonyms than there are records.
        """
        rows = [tuple(row) for row in logits.tolist()]
        for party, of_party in tokens.items():
            remembered = self._first.setdefault(party, {})
            if len(remembered) + len(set(of_party) - remembered.keys()) > self._most:
                raise NotAllowed(
                    f"{party} names more records than this session has: defended scores are answered once per record. "
                    "Open another session."
                )
            first = [remembered.setdefault(token, row) for token, row in zip(of_party, rows, strict=True)]
            known = np.array(first)
            if not np.allclose(logits, known, rtol=_TOLERANCE, atol=_TOLERANCE):
                raise NotAllowed(
                    "The parties' shares of a record add up to another sum than when it was first asked for: defended "
                    "scores are answered once per record and model. Whose data has changed opens another session."
                )
            logits = known
        return logits
