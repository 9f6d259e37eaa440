"""One session as the coordinator knows it: its terms, who has joined, and shares that wait for their sum."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from services.common import limits
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.errors import InvalidMessage, NotAllowed, OutOfOrder
from services.common.scores import PartialScores
from services.coordinator.kept_sessions import KeptSession, KeptSessions, too_many_records
from vfl.arrays import FloatArray
from vfl.learning import RowCounts, count_rows

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

    def asked(self, party: str, tokens: Sequence[int], submissions_seen: int) -> int:
        """Keep that a party's share of records has come, before anybody can be answered; returns how many have.

        Args:
            party: whose share.
            tokens: its pseudonym of each row's record.
            submissions_seen: the highest number that it was told before.

        Raises:
            OutOfOrder: where this state is older than an answer, or may be.
            NotAllowed: for more pseudonyms than there are records.
            StateNotKept: when it can't be written.
        """
        if submissions_seen > (submissions := self._kept.submissions(self._session_id, party)):
            raise OutOfOrder(
                f"The coordinator's state is older than its answers: it knows of {submissions} shares of scores, "
                f"{party} of {submissions_seen} of its own. Put the newer state folder back, or train again: defended "
                "scores are answered once per record."
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
        new_logits = logits
        new: dict[tuple[str, int], FloatArray] = {}
        for party, of_party in tokens.items():
            first = self._kept.first(self._session_id, party, of_party, logits.shape[1])
            fresh = len(set(of_party) - first.keys())
            if fresh and self._kept.count_answers(self._session_id, party) + fresh > self._most:
                raise too_many_records(party)
            for token, row in zip(of_party, new_logits, strict=True):
                if token not in first:
                    first[token] = new[party, token] = row
            earlier = np.array([first[token] for token in of_party])
            if not np.allclose(logits, earlier, rtol=_TOLERANCE, atol=_TOLERANCE):
                raise NotAllowed(
                    "The parties' shares of a record add up to another sum than when it was first asked for: defended "
                    "scores are answered once per record and model. Whose data has changed opens another session."
                )
            logits = earlier
        self._kept.answer(self._session_id, new)
        return logits


# Requests of each party whose scores were never asked for (their active party failed half-way), and what all hold.
_KEPT_REQUESTS = 64
_KEPT_SHARES_BYTES = 64 << 20


@dataclass
class SessionState:
    """What the coordinator knows of one session.

    Attributes:
        plan: the training, as it was opened with.
        classes: of the labels.
        active: name of the active party.
        passive_parties: names of the others, sorted.
        defences: fingerprint of what is applied to its scores.
        columns: of partial scores, as the learner says.
        joined: how each party that has joined describes itself.
        ended: why it has ended; None while it is open.
        shares: partial scores that wait for their sum, by passive party, then by request.
        agreement: the terms; set when all have joined.
        is_served: whether its model is the served one.
        changed: why a session from before a restart can't be answered any more.
        agreeing: held while its terms are worked out, so that a learner that hangs holds up no other session.
    """

    plan: TrainingPlan
    classes: int
    active: str
    passive_parties: tuple[str, ...]
    defences: str
    columns: int
    joined: dict[str, PartyDescription] = field(default_factory=dict)
    ended: str | None = None
    shares: dict[str, dict[int, PartialScores]] = field(default_factory=dict)
    agreement: Agreement | None = None
    is_served: bool = False
    changed: str | None = None
    agreeing: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def restored(cls, record: KeptSession) -> "SessionState":
        """Restore a session from before a restart, but for the columns."""
        terms = record.agreement
        passive = tuple(party.name for party in terms.parties[1:])
        parties = {party.name: party for party in terms.parties}
        session = cls(terms.plan, terms.classes, terms.active.name, passive, record.defences, 0, parties)
        session.agreement, session.is_served = terms, record.is_served
        return session

    @property
    def most_answers(self) -> int:
        """Records that an honest session asks about by a party's pseudonyms: all, and each epoch's validation rows."""
        assert self.agreement is not None  # noqa: S101 - nobody is answered before
        agreement = self.agreement
        return agreement.active.aligned_rows + agreement.plan.epochs * agreement.row_counts.validation

    @property
    def party_names(self) -> tuple[str, ...]:
        """The active party first."""
        return (self.active, *self.passive_parties)

    def keep_share(self, party: str, request_id: int, share: PartialScores) -> None:
        """Keep a share, and forget the party's oldest beyond its part of what a session may keep; the newest stays.

        Each party has a part of its own: nobody pushes out another's shares.
        """
        shares = self.shares.setdefault(party, {})
        shares[request_id] = share
        size, most = sum(one.nbytes for one in shares.values()), _KEPT_SHARES_BYTES // len(self.passive_parties)
        while len(shares) > _KEPT_REQUESTS or (size > most and len(shares) > 1):
            size -= shares.pop(next(iter(shares))).nbytes

    def shares_of(self, request_id: int) -> dict[str, PartialScores]:
        """Read every passive party's share of a request, in the order of their names.

        Raises:
            OutOfOrder: where one is missing.
        """
        if missing := [name for name in self.passive_parties if request_id not in self.shares.get(name, {})]:
            raise OutOfOrder(f"No partial scores from {', '.join(missing)} for request {request_id}.")
        return {name: self.shares[name][request_id] for name in self.passive_parties}

    def split_rows(self) -> RowCounts:
        """Count the rows of each part of the split.

        Every party must have aligned the same number of rows, and a batch must fit the training ones.
        """
        rows = {party.name: party.aligned_rows for party in self.joined.values()}
        if len(set(rows.values())) != 1:
            raise InvalidMessage(f"The parties aligned different numbers of rows: {rows}. Align again.")
        roster = self.joined[self.active].roster
        if differing := [name for name, party in self.joined.items() if party.roster != roster]:
            raise InvalidMessage(
                f"{', '.join(differing)} counts other batches of earlier sessions than {self.active}. Align again."
            )
        plan, aligned = self.plan, rows[self.active]
        split = count_rows(aligned, validation_fraction=plan.validation_fraction, test_fraction=plan.test_fraction)
        split = split if roster is None else roster.counts
        if split.train < 1:
            raise InvalidMessage(
                f"No record is left to train on, of {aligned} aligned. Align more records, or lower "
                "validation_fraction and test_fraction."
            )
        if plan.batch_size > split.train:
            raise InvalidMessage(
                f"The batch of {plan.batch_size} is larger than the data: {split.train} training rows "
                f"of {aligned} aligned. Choose a smaller batch_size."
            )
        return split
