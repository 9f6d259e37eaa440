"""One answer per record: who varies a share to see a defended score from several sides gets no second one."""

from collections.abc import Mapping, Sequence

import numpy as np

from services.common.errors import NotAllowed
from vfl.arrays import FloatArray

# More than the last bits, in which a record's logits differ from batch to batch, and too little to learn from.
_TOLERANCE = 1e-6


class AnsweredRecords:
    """Remembers the logits that each record was first asked about with, by each passive party's pseudonym of it.

    Every share of the sum is fixed between epochs, after which passive parties make new pseudonyms. So one honest
    passive
    party is enough: neither the active party nor another passive one can vary what is added to its share.

    Without this an active party that lies about its own share can search for the one at which the answer turns,
    whatever a defence rounds, adds or leaves out.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, int], tuple[float, ...]] = {}

    def first_logits(self, logits: FloatArray, tokens: Mapping[str, Sequence[int]]) -> FloatArray:
        """Give (rows, columns) logits as they were when each record was first asked for.

        Args:
            logits: of this request; a record may stand in several rows.
            tokens: of each passive party, its pseudonym of each row's record.

        Raises:
            NotAllowed: for logits that differ from the first by more than rounding does; the first stay.
        """
        rows = [tuple(row) for row in logits.tolist()]
        for party, of_party in tokens.items():
            first = [self._first.setdefault((party, token), row) for token, row in zip(of_party, rows, strict=True)]
            known = np.array(first)
            if not np.allclose(logits, known, rtol=_TOLERANCE, atol=_TOLERANCE):
                raise NotAllowed(
                    "The parties' shares of a record add up to another sum than when it was first asked for: defended "
                    "scores are answered once per record and model. Whose data has changed opens another session."
                )
            logits = known
        return logits
