"""One session as the coordinator knows it: its terms, who has joined, and shares that wait for their sum."""

from dataclasses import dataclass, field

from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.scores import PartialScores
from services.coordinator.kept_sessions import KeptSession
from vfl.learning import RowCounts, count_rows

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
        joined: how each party that has joined describes itself.
        ended: why it has ended; None while it is open.
        shares: partial scores that wait for their sum, by passive party, then by request.
        agreement: the terms; set when all have joined.
        is_served: whether its model is the served one.
        changed: why a session from before a restart can't be answered any more.
    """

    plan: TrainingPlan
    classes: int
    active: str
    passive_parties: tuple[str, ...]
    defences: str
    joined: dict[str, PartyDescription] = field(default_factory=dict)
    ended: str | None = None
    shares: dict[str, dict[int, PartialScores]] = field(default_factory=dict)
    agreement: Agreement | None = None
    is_served: bool = False
    changed: str | None = None

    @classmethod
    def restored(cls, kept: KeptSession) -> "SessionState":
        """A session from before a restart."""
        terms = kept.agreement
        passive = tuple(party.name for party in terms.parties[1:])
        joined = {party.name: party for party in terms.parties}
        session = cls(terms.plan, terms.classes, terms.active.name, passive, kept.defences, joined)
        session.agreement, session.is_served = terms, kept.is_served
        return session

    @property
    def columns(self) -> int:
        """Columns of partial scores, as the learner says."""
        return self.plan.family.outputs(self.classes)

    @property
    def most_answers(self) -> int:
        """Records that an honest session asks about by a party's pseudonyms: all, and each epoch's validation rows."""
        assert self.agreement is not None  # noqa: S101 - nobody is answered before
        rows = self.agreement.row_counts
        return sum(rows) + self.plan.epochs * rows.validation

    @property
    def party_names(self) -> tuple[str, ...]:
        """The active party first."""
        return (self.active, *self.passive_parties)

    def keep_share(self, party: str, request_id: int, share: PartialScores) -> None:
        """Keep a share, and forget the party's oldest beyond its part of what a session may keep; the newest stays.

        Each party has a part of its own: nobody pushes out another's shares.
        """
        own = self.shares.setdefault(party, {})
        own[request_id] = share
        held, most = sum(one.nbytes for one in own.values()), _KEPT_SHARES_BYTES // len(self.passive_parties)
        while len(own) > _KEPT_REQUESTS or (held > most and len(own) > 1):
            held -= own.pop(next(iter(own))).nbytes

    def shares_of(self, request_id: int) -> dict[str, PartialScores]:
        """Every passive party's share of a request, in the order of their names.

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
        plan, aligned = self.plan, rows[self.active]
        split = count_rows(aligned, validation_fraction=plan.validation_fraction, test_fraction=plan.test_fraction)
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
