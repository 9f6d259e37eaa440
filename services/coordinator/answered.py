"""One answer per record: who asks again with another share gets no second look at a defended score."""

from collections.abc import Mapping, Sequence

import numpy as np

from services.common import limits
from services.common.errors import NotAllowed, OutOfOrder
from services.coordinator.kept_sessions import KeptSessions, too_many_records
from vfl.arrays import FloatArray

# A record's logits differ from batch to batch in their last bits. This is more than that, and too little to learn from.
_TOLERANCE = 1e-6


class AnsweredRecords:
    """Remembers the logits that each record was first asked about with, by each passive party's pseudonym of it.

    Without it an active party can lie about its own share and search for the one at which the answer turns, whatever a
    defence rounds, adds or leaves out.

    Every share of the sum is fixed between epochs. After an epoch, passive parties make new pseudonyms. One honest
    passive party is enough: nobody can vary what is added to its share.

    They are on disk before they are given back: a coordinator that starts again gives no second answer either.
    """

    def __init__(self, kept: KeptSessions, session_id: str, most: int = limits.ALIGNED_ROWS) -> None:
        """Look in ``kept`` for a session's first answers, of at most so many records by each party's pseudonyms."""
        self._kept = kept
        self._session_id = session_id
        self._most = most

    def asked(self, party: str, tokens: Sequence[int], seen: int) -> int:
        """Keep that a party's share of records has come, before anybody can be answered; returns how many have.

        Args:
            party: whose share.
            tokens: its pseudonym of each row's record.
            seen: the highest number that it was told before.

        Raises:
            OutOfOrder: where this state is older than an answer, or may be.
            NotAllowed: for more pseudonyms than there are records.
            StateNotKept: when it can't be written.
        """
        if seen > (known := self._kept.submissions(self._session_id, party)):
            raise OutOfOrder(
                f"The coordinator's state is older than its answers: it knows of {known} shares of scores, {party} of "
                f"{seen} of its own. Put the newer state folder back, or train again: defended scores are answered "
                "once per record."
            )
        if self._kept.is_lost(self._session_id, party, tokens):
            raise OutOfOrder(
                "One of these records was asked for before the coordinator was cut off or its state was put back, and "
                "this state doesn't know what was answered: train again. Defended scores are answered once per record."
            )
        return self._kept.count_submission(self._session_id, party, tokens, self._most)

    def first_logits(self, logits: FloatArray, tokens: Mapping[str, Sequence[int]]) -> FloatArray:
        """Give (rows, columns) logits as they were when each record was first asked for.

        Args:
            logits: of this request. A record may stand in several rows.
            tokens: of each passive party, its pseudonym of each row's record.

        Raises:
            NotAllowed: for logits that differ from the first by more than rounding does, and for more pseudonyms than
                there are records. Nothing is remembered then.
            StateNotKept: when they can't be written.
        """
        asked = logits
        new: dict[tuple[str, int], FloatArray] = {}
        for party, of_party in tokens.items():
            first = self._kept.first(self._session_id, party, of_party, logits.shape[1])
            self._check_room(party, len(set(of_party) - first.keys()))
            for token, row in zip(of_party, asked, strict=True):
                if token not in first:
                    first[token] = new[party, token] = row
            known = np.array([first[token] for token in of_party])
            if not np.allclose(logits, known, rtol=_TOLERANCE, atol=_TOLERANCE):
                raise NotAllowed(
                    "The parties' shares of a record add up to another sum than when it was first asked for: defended "
                    "scores are answered once per record and model. Whose data has changed opens another session."
                )
            logits = known
        self._kept.answer(self._session_id, new)
        return logits

    def _check_room(self, party: str, new: int) -> None:
        if new and self._kept.count_answers(self._session_id, party) + new > self._most:
            raise too_many_records(party)
