"""The coordinator's sessions: who has joined, and partial scores that wait for their sum. Knows no network."""

import logging
import math
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from defences import NoiseSource, ScoreDefence
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.errors import InvalidMessage, NotAllowed, OutOfOrder, PeerVanished, one_line
from services.common.identity import Identity, Role, role_of
from services.common.scores import PartialScores
from services.common.state_folder import State, StateInMemory, StateNotKept
from services.coordinator.answered import AnsweredRecords
from services.coordinator.kept_sessions import KeptSession, KeptSessions
from services.coordinator.protection import Protection
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores, residual_columns, split_rows

_log = logging.getLogger(__name__)

# One is at work. A few old ones are kept so that late messages get a clear answer.
_KEPT_SESSIONS = 8
# Requests of one session whose scores were never asked for (their active party failed half-way).
_KEPT_REQUESTS = 64
# Of the largest entry of a Gram matrix.
_GRAM_TOLERANCE = 1e-9


@dataclass
class _Session:
    plan: TrainingPlan
    classes: int
    active: str
    passive_parties: tuple[str, ...]
    # Fingerprint of what is applied to its scores.
    defences: str
    joined: dict[str, PartyDescription] = field(default_factory=dict)
    ended: str | None = None
    # By request, then by passive party.
    shares: dict[int, dict[str, PartialScores]] = field(default_factory=dict)
    # Set when all have joined.
    agreement: Agreement | None = None
    is_served: bool = False
    # Why a session from before a restart can't be answered any more.
    changed: str | None = None

    @classmethod
    def restored(cls, kept: KeptSession) -> "_Session":
        """A session from before a restart."""
        terms = kept.agreement
        passive = tuple(party.name for party in terms.parties[1:])
        joined = {party.name: party for party in terms.parties}
        session = cls(terms.plan, terms.classes, terms.active.name, passive, kept.defences, joined)
        session.agreement, session.is_served = terms, kept.is_served
        return session

    @property
    def columns(self) -> int:
        """Columns of partial scores: an installed model gives one per class, whatever their number."""
        return self.classes if self.plan.installed_model else residual_columns(self.classes)

    @property
    def party_names(self) -> tuple[str, ...]:
        return (self.active, *self.passive_parties)


class Sessions:
    """Holds all sessions of a coordinator; safe to call from any thread.

    Attributes:
        timeout: seconds to wait for parties to join.
        defences: applied to all scores, in this order, before delivery.
        noise: randomness of the defences.
        state: what is kept across restarts.

    Raises:
        StateError: for a state that is broken.
    """

    def __init__(
        self,
        timeout: float,
        defences: Sequence[ScoreDefence] = (),
        noise: NoiseSource | None = None,
        state: State | None = None,
    ) -> None:
        self._timeout = timeout
        self._protection = Protection(defences, noise or NoiseSource())
        self._condition = threading.Condition()
        self._sessions: dict[str, _Session] = {}
        self._kept = KeptSessions(state or StateInMemory())
        for kept in self._kept.all():
            self._sessions[kept.agreement.session_id] = self._restored(kept)

    def _restored(self, kept: KeptSession) -> _Session:
        session = _Session.restored(kept)
        try:
            is_as_before = self._protection.fingerprint(session.classes) == kept.defences
        except OutOfOrder as error:
            _log.error("%s", error)
            is_as_before = False
        if not is_as_before:
            before, now = (
                " and ".join(names) or "nothing" for names in (kept.agreement.score_defences, self._protection.names)
            )
            session.changed = (
                "What the coordinator applies to scores is not what it was when this model was trained (then "
                f"{before}, now {now}; or their options or their secret): put its settings and its state folder back, "
                "or train again."
            )
            _log.error("%s", session.changed)
        return session

    def open(self, caller: Identity, plan: TrainingPlan, classes: int, passive_parties: tuple[str, ...]) -> str:
        """Open a session for an active party; returns its id.

        Raises:
            InvalidMessage: for terms that can't work.
        """
        if classes < 2:
            raise InvalidMessage(f"Labels with {classes} class: at least two are needed to learn anything.")
        if not passive_parties or len(set(passive_parties)) != len(passive_parties):
            raise InvalidMessage("A session needs at least one passive party, each named once.")
        if any(role_of(name) is not Role.PASSIVE for name in passive_parties):
            raise InvalidMessage("A passive party can't bear another role's name.")
        # A rehearsal: what can't work with so many classes says so now, and what has to be trained is trained.
        fingerprint = self._protection.fingerprint(classes)
        session_id = secrets.token_hex(16)
        with self._condition:
            self._sessions[session_id] = _Session(
                plan, classes, caller.name, tuple(sorted(passive_parties)), fingerprint
            )
            # The one that is served is never pushed out.
            others = [name for name, session in self._sessions.items() if not session.is_served]
            for name in others[:-_KEPT_SESSIONS]:
                del self._sessions[name]
        return session_id

    def join(self, caller: Identity, session_id: str, party: PartyDescription) -> Agreement:
        """Let a party join and wait for the others. Every party gets the same agreement.

        Raises:
            InvalidMessage: when the parties' descriptions don't fit together.
            PeerVanished: when one doesn't come.
        """
        with self._condition:
            session = self._session(caller, session_id)
            if party.name != caller.name:
                raise NotAllowed(f"{caller.name} can't join as {party.name}.")
            if session.joined.setdefault(party.name, party) != party:
                raise OutOfOrder(f"{party.name} has joined this session with another description.")
            self._condition.notify_all()
            self._condition.wait_for(
                lambda: session.ended is not None or len(session.joined) == len(session.party_names),
                self._timeout,
            )
            self._refuse_ended(session)
            if missing := [name for name in session.party_names if name not in session.joined]:
                session.ended = f"{', '.join(missing)} did not join within {self._timeout:g} s."
                self._condition.notify_all()
                raise PeerVanished(session.ended)
            try:
                _check_rows(session)
            except InvalidMessage as error:
                session.ended = str(error)
                raise
            if session.agreement is None:
                session.agreement = self._agreed_terms(session_id, session)
            return session.agreement

    def _agreed_terms(self, session_id: str, session: _Session) -> Agreement:
        """The terms of a session that all have joined, on disk before anybody is told. What can't be kept ends it."""
        parties = tuple(session.joined[name] for name in session.party_names)
        defences = (self._protection.names, self._protection.wants_gram)
        agreement = Agreement(session_id, session.plan, session.classes, parties, *defences)
        try:
            self._kept.keep(KeptSession(agreement, session.defences))
        except StateNotKept as error:
            session.ended = str(error)
            raise
        return agreement

    def submit(self, caller: Identity, session_id: str, request_id: int, share: PartialScores) -> int:
        """Keep a passive party's share of the scores of a request. The same again changes nothing.

        Returns:
            How many shares of the session have come, on disk by now; 0 where scores aren't defended.

        Raises:
            OutOfOrder: where scores are defended and the party was told of more shares than are known here.
        """
        with self._condition:
            session = self._agreed(caller, session_id)
            if caller.name == session.active:
                raise NotAllowed("The active party brings its share when it asks for the scores.")
            self._check_columns(session, share.products)
            if share.parameter_gram is not None:
                _check_gram(share.parameter_gram, session.classes)
            if self._protection.is_on and len(share.record_tokens) != len(share.products):
                raise InvalidMessage(
                    f"Expected a pseudonym for each of {len(share.products)} records, got {len(share.record_tokens)}: "
                    "scores are defended here, and defended scores are answered once per record."
                )
            self._refuse_older_state(session_id, caller, share)
            request = session.shares.setdefault(request_id, {})
            if not request.setdefault(caller.name, share).same_as(share):
                raise OutOfOrder(f"{caller.name} has sent other scores for request {request_id} already.")
            while len(session.shares) > _KEPT_REQUESTS:
                del session.shares[next(iter(session.shares))]
            return self._kept.count_submission(session_id) if self._protection.is_on else 0

    def _refuse_older_state(self, session_id: str, caller: Identity, share: PartialScores) -> None:
        """A state from before an answer would let that record be asked again. Who contributed to it remembers more."""
        if self._protection.is_on and share.submissions_seen > (known := self._kept.submissions(session_id)):
            raise OutOfOrder(
                f"The coordinator's state is older than its answers: it knows of {known} shares of scores, "
                f"{caller.name} of {share.submissions_seen}. Put the newer state folder back, or train again: defended "
                "scores are answered once per record."
            )

    def score(self, caller: Identity, session_id: str, request_id: int, products: FloatArray) -> FloatArray:
        """Add all shares of a request and apply sigmoid or softmax: (rows, classes), for the active party only.

        Raises:
            NotAllowed: where scores are defended and a record's shares add up to another sum than before.
            StateNotKept: where scores are defended and what is answered can't be written.
        """
        with self._condition:
            session = self._agreed(caller, session_id)
            if caller.name != session.active:
                raise NotAllowed("Only the session's active party may ask for scores.")
            self._check_columns(session, products)
            shares = session.shares.get(request_id, {})
            if missing := [name for name in session.passive_parties if name not in shares]:
                raise OutOfOrder(f"No partial scores from {', '.join(missing)} for request {request_id}.")
            if any(share.products.shape != products.shape for share in shares.values()):
                raise InvalidMessage(f"The parties' shares of request {request_id} differ in size.")
            # Kept until newer requests push it out: a repeated question gets the same answer.
            logits: FloatArray = products + sum(shares[name].products for name in session.passive_parties)
            if self._protection.is_on:
                tokens = {name: shares[name].record_tokens for name in session.passive_parties}
                logits = AnsweredRecords(self._kept, session_id).first_logits(logits, tokens)
            scores = confidence_scores(logits)
            grams = [shares[name].parameter_gram for name in session.passive_parties]
        return self._protection.protected(scores, _total(grams))

    def end(self, caller: Identity, session_id: str, reason: str) -> None:
        """End a session. Who waits for it is told why, in one line."""
        with self._condition:
            session = self._sessions.get(session_id)
            if session is None:
                return
            if caller.name not in session.party_names:
                raise NotAllowed(f"{caller.name} is not a party of this session.")
            if not session.is_served:
                self._end(session_id, session, one_line(reason))

    def serve(self, caller: Identity, session_id: str) -> None:
        """Have a session's model served from now on, and forget the one before. The same again changes nothing.

        Raises:
            StateNotKept: when that can't be written. The sessions are as before.
        """
        with self._condition:
            session = self._agreed(caller, session_id)
            if caller.name != session.active:
                raise NotAllowed("Only the session's active party may have its model served.")
            if session.is_served:
                return
            self._kept.serve(session_id)
            session.is_served = True
            for name, other in self._sessions.items():
                if other is not session and other.active == session.active:
                    other.is_served = False
                    self._end(name, other, "another model has taken its place.")

    def holds(self, session_id: str) -> bool:
        """Whether this coordinator works on a session, or can answer for it."""
        session = self._sessions.get(session_id)
        return session is not None and session.ended is None and session.changed is None

    def _end(self, session_id: str, session: _Session, reason: str) -> None:
        session.ended = session.ended or reason
        session.shares.clear()
        self._kept.forget(session_id)
        self._condition.notify_all()

    def _session(self, caller: Identity, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise OutOfOrder("Unknown session: the active party opens one first.")
        if caller.name not in session.party_names:
            raise NotAllowed(f"{caller.name} is not a party of this session.")
        self._refuse_ended(session)
        return session

    def _agreed(self, caller: Identity, session_id: str) -> _Session:
        session = self._session(caller, session_id)
        if session.agreement is None:
            raise OutOfOrder("The session has not begun: not every party has joined.")
        if session.changed is not None:
            raise OutOfOrder(session.changed)
        return session

    @staticmethod
    def _refuse_ended(session: _Session) -> None:
        if session.ended is not None:
            raise OutOfOrder(f"The session has ended: {session.ended}")

    @staticmethod
    def _check_columns(session: _Session, products: FloatArray) -> None:
        if products.shape[1] != session.columns:
            raise InvalidMessage(f"Expected {session.columns} columns of partial scores, got {products.shape[1]}.")
        if not math.isfinite(float(np.abs(products).max())):
            raise InvalidMessage("Partial scores must be finite numbers.")


def _total(grams: Sequence[FloatArray | None]) -> FloatArray | None:
    """The Gram matrix of all passive parameters side by side; None unless every party gave its own."""
    given = [gram for gram in grams if gram is not None]
    total: FloatArray = np.sum(given, axis=0)
    return total if len(given) == len(grams) else None


def _check_gram(gram: FloatArray, classes: int) -> None:
    """Refuse what can't be W W^T: that is symmetric and, but for rounding, has no negative eigenvalue."""
    if gram.shape != (classes, classes):
        raise InvalidMessage(f"Expected a Gram matrix of {classes} classes, got {gram.shape}.")
    unit = float(np.abs(gram).max()) or 1.0
    if not np.allclose(gram / unit, gram.T / unit) or np.linalg.eigvalsh(gram / unit)[0] < -_GRAM_TOLERANCE:
        raise InvalidMessage("Expected a Gram matrix: symmetric, without negative eigenvalues.")


def _check_rows(session: _Session) -> None:
    """Every party must have aligned the same number of rows, and a batch must fit the training ones."""
    rows = {party.name: party.aligned_rows for party in session.joined.values()}
    if len(set(rows.values())) != 1:
        raise InvalidMessage(f"The parties aligned different numbers of rows: {rows}. Align again.")
    plan = session.plan
    split = split_rows(
        rows[session.active],
        validation_fraction=plan.validation_fraction,
        test_fraction=plan.test_fraction,
        seed=plan.seed,
    )
    if plan.batch_size > len(split.train):
        raise InvalidMessage(
            f"The batch of {plan.batch_size} is larger than the data: {len(split.train)} training rows "
            f"of {rows[session.active]} aligned. Choose a smaller batch_size."
        )
