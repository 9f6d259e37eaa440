"""The coordinator's sessions: who has joined, and partial scores that wait for their sum. Knows no network."""

import logging
import secrets
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from defences import NoiseSource, ScoreDefence
from services.ciphers.default_plan import with_open_terms
from services.common import limits
from services.common.agreement import (
    Agreement,
    PartyDescription,
    ProposedTerms,
    TrainingPlan,
)
from services.common.errors import (
    FederationError,
    InvalidMessage,
    NotAllowed,
    OutOfOrder,
    PeerVanished,
    one_line,
    told,
)
from services.common.identity import Identity
from services.common.learner_calls import LearnerCalls, LearnerFailed
from services.common.ledger_marks import LedgerMark
from services.common.scores import PartialScores, Products, check_magnitude
from services.common.state_folder import State, StateInMemory, StateNotKept
from services.coordinator.kept_sessions import KeptSession, KeptSessions
from services.coordinator.protection import Protection, check_gram, total_gram
from services.coordinator.session_state import AnsweredRecords, SessionState
from vfl.arrays import FloatArray

_log = logging.getLogger(__name__)

# Ended sessions, without their scores: late messages get a clear answer.
_KEPT_ENDED = 16


class Sessions:
    """Holds all sessions of a coordinator; safe to call from any thread.

    Of each active party it keeps the session whose model is served, and one that is on its way there. No other session
    pushes out the served one: ``serve`` does.

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
        self._sessions: dict[str, SessionState] = {}
        self._is_closed = False
        self._kept = KeptSessions(state or StateInMemory())
        for record in self._kept.all():
            self._sessions[record.agreement.session_id] = _restored(record, self._protection)

    def open(self, caller: Identity, plan: TrainingPlan, classes: int, passive_parties: tuple[str, ...]) -> str:
        """Open a session for an active party; returns its id. It ends every other that isn't served.

        So there is one alignment per session: no passive party can be led back to a session that was aligned before.

        Raises:
            InvalidMessage: for terms that can't work.
        """
        plan.check()
        limits.check_classes(classes)
        limits.check_passive_parties(passive_parties)
        plan.training.check_parties(plan, 1 + len(passive_parties))
        # So is the learner; and it is asked outside the lock, here and below, so that one that hangs stops nobody else.
        columns = LearnerCalls(plan.family, self._timeout).outputs(classes)
        self._protection.check(plan, columns)
        # A rehearsal: what can't work with so many classes says so now, and what has to be trained is trained.
        fingerprint = self._protection.fingerprint(classes)
        session_id = secrets.token_hex(16)
        opened = SessionState(plan, classes, caller.name, tuple(sorted(passive_parties)), fingerprint, columns)
        with self._condition:
            abandoned = [one for one in self._of(caller.name) if not one.is_served]
            self._end_all(abandoned, "its active party has opened another.")
            self._sessions[session_id] = opened
        return session_id

    def terms(self, caller: Identity, session_id: str) -> ProposedTerms:
        """Tell one of its parties what a session was opened with; raises OutOfOrder for an unknown or ended one."""
        with self._condition:
            session = self._session(caller, session_id)
            return ProposedTerms(session_id, session.active, session.passive_parties, session.plan, session.classes)

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
                reason = f"{', '.join(missing)} did not join within {self._timeout:g} s."
                self._end_all([session], reason)
                raise PeerVanished(reason)
        with session.agreeing:
            return session.agreement or self._agree(session_id, session)

    def _agree(self, session_id: str, session: SessionState) -> Agreement:
        """Fix the terms of a session that all have joined, on disk before anybody is told. What can't work ends it."""
        self._refuse_ended(session)
        try:
            rows = session.split_rows()
            agreement = with_open_terms(
                Agreement(
                    session_id,
                    session.plan,
                    session.classes,
                    tuple(session.joined[name] for name in session.party_names),
                    self._protection.names,
                    self._protection.wants_gram,
                    self._protection.announced,
                )
            )
            agreement.plan.check_steps(rows.train)
            with self._condition:
                self._refuse_ended(session)
                self._kept.keep(KeptSession(agreement, session.defences))
                session.agreement = agreement
        except FederationError as error:
            with self._condition:
                self._end_all([session], told(error))
            raise
        return agreement

    def submit(self, caller: Identity, session_id: str, request_id: int, share: PartialScores) -> int:
        """Keep a passive party's share of the scores of a request. The same again changes nothing.

        Returns:
            How many shares of the session have come from this party, on disk by now; 0 where scores aren't defended.

        Raises:
            OutOfOrder: where scores are defended and a newer state than this may have answered for these records.
            StateNotKept: where scores are defended and it can't be written. The share is as if it had not come.
        """
        with self._condition:
            session = self._agreed(caller, session_id)
            if caller.name == session.active:
                raise NotAllowed("The active party brings its share when it asks for the scores.")
            self._check_columns(session, share.products)
            if share.parameter_gram is not None:
                check_gram(share.parameter_gram, session.classes)
            if self._protection.is_on and len(share.record_tokens) != len(share.products):
                raise InvalidMessage(
                    f"Expected a pseudonym for each of {len(share.products)} records, got {len(share.record_tokens)}: "
                    "scores are defended here, and defended scores are answered once per record."
                )
            if not session.shares.get(caller.name, {}).get(request_id, share).same_as(share):
                raise OutOfOrder(f"{caller.name} has sent other scores for request {request_id} already.")
            submissions = 0
            if self._protection.is_on:
                # First: a share that waits for its sum is one that this state can't forget.
                records = self._answered(session_id, session)
                submissions = records.asked(caller.name, share.record_tokens, share.submissions_seen)
            session.keep_share(caller.name, request_id, share)
            return submissions

    def _answered(self, session_id: str, session: SessionState) -> AnsweredRecords:
        return AnsweredRecords(self._kept, session_id, session.most_answers)

    def score(self, caller: Identity, session_id: str, request_id: int, products: Products) -> FloatArray:
        """Add all shares of a request and apply sigmoid or softmax: (rows, classes), for the active party only.

        Of a learner that forwards they are added up, (rows, outputs): what is above is the active party's own.

        Raises:
            NotAllowed: where scores are defended and a record's shares add up to another sum than before.
            StateNotKept: where scores are defended and what is answered can't be written.
        """
        with self._condition:
            session = self._agreed(caller, session_id)
            if caller.name != session.active:
                raise NotAllowed("Only the session's active party may ask for scores.")
            agreement = self._check_columns(session, products, is_active=True)
            shares = session.shares_of(request_id)
            if any(len(share.products) != len(products) for share in shares.values()):
                raise InvalidMessage(f"The parties' shares of request {request_id} differ in size.")
        # Kept until newer requests push it out: a repeated question gets the same answer.
        calls = LearnerCalls(session.plan.family, self._timeout)
        logits = _joined(calls, session, [products, *(share.products for share in shares.values())])
        if self._protection.is_on:
            tokens = {name: share.record_tokens for name, share in shares.items()}
            with self._condition:
                # It may have ended meanwhile, or this process.
                session = self._agreed(caller, session_id)
                logits = self._answered(session_id, session).first_logits(logits, tokens)
        answer = calls.link(logits, session.classes) if agreement.answers == "scores" else logits
        return self._protection.protected(answer, total_gram([share.parameter_gram for share in shares.values()]))

    def note_ledger(self, caller: Identity, session_id: str, mark: LedgerMark) -> LedgerMark:
        """Note how far one of the caller's ledgers is, on disk before it is told; nothing where it was further before.

        Returns:
            How far it is known to be: further than ``mark`` for a caller that has an older copy of its state.

        Raises:
            OutOfOrder: for a session that isn't at work or served; of a training, before it has begun.
            StateNotKept: when it can't be written.
        """
        with self._condition:
            is_training = mark.ledger == session_id
            (self._agreed if is_training else self._session)(caller, session_id)
            latest = self._kept.note_ledger(caller.name, mark, of_session=is_training)
        if mark.is_behind(latest):
            _log.warning("%s has an older copy of its state: a ledger has %s, of %s.", caller.name, mark, latest)
        return latest

    def holds_session(self, session_id: str) -> bool:
        """Tell whether this coordinator knows the session, ended or not: what parties ask who watch it."""
        with self._condition:
            return session_id in self._sessions

    def end(self, caller: Identity, session_id: str, reason: str) -> None:
        """End a session. Who waits for it is told why, in one line."""
        with self._condition:
            session = self._sessions.get(session_id)
            if session is None:
                return
            if caller.name not in session.party_names:
                raise NotAllowed(f"{caller.name} is not a party of this session.")
            if not session.is_served:
                self._end_all([session], one_line(reason))

    def serve(self, caller: Identity, session_id: str) -> None:
        """Have a session's model served from now on, and forget the one before. The same again changes nothing.

        Raises:
            StateNotKept: when that can't be written. The sessions are as before.
        """
        with self._condition:
            session = self._session(caller, session_id)
            if caller.name != session.active:
                raise NotAllowed("Only the session's active party may have its model served.")
            if session.is_served:
                return
            self._agreed(caller, session_id)
            self._kept.serve(session_id)
            session.is_served = True
            former = [other for other in self._of(session.active) if other is not session]
            for other in former:
                other.is_served = False
            self._end_all(former, "another model has taken its place.")

    def holds_model(self, session_id: str) -> bool:
        """Tell whether this coordinator can answer for a session's model."""
        with self._condition:
            session = self._sessions.get(session_id)
            return session is not None and session.ended is None and session.changed is None

    def close(self) -> None:
        """Answer nothing any more: what was asked for and has no answer can be asked for again after the next start.

        Safe, since every answer to come needs new shares, which are counted beyond this state's counts.
        """
        with self._condition:
            self._is_closed = True
            with suppress(StateNotKept):  # it is in the log
                self._kept.release_asked()

    def _end_all(self, sessions: Iterable[SessionState], reason: str) -> None:
        """End sessions and keep of them who may ask, and why they ended. Who waits for one is told."""
        for session in sessions:
            session.ended = session.ended or reason
            session.shares.clear()
        ended = {name: session for name, session in self._sessions.items() if session.ended is not None}
        # A full disk keeps nobody waiting. It is in the log, and the next end tries again.
        with suppress(StateNotKept):
            self._kept.forget(ended)
        for name in list(ended)[:-_KEPT_ENDED]:
            del self._sessions[name]
        self._condition.notify_all()

    def _of(self, active: str) -> list[SessionState]:
        """List the sessions of one active party that have not ended."""
        return [one for one in self._sessions.values() if one.active == active and one.ended is None]

    def _session(self, caller: Identity, session_id: str) -> SessionState:
        session = self._sessions.get(session_id)
        if session is None:
            raise OutOfOrder("Unknown session: the active party opens one first.")
        if caller.name not in session.party_names:
            raise NotAllowed(f"{caller.name} is not a party of this session.")
        self._refuse_ended(session)
        return session

    def _agreed(self, caller: Identity, session_id: str) -> SessionState:
        if self._is_closed:
            raise OutOfOrder("The coordinator is stopping: ask again when it has started.")
        session = self._session(caller, session_id)
        if session.agreement is None:
            raise OutOfOrder("The session has not begun: not every party has joined.")
        if session.changed is not None:
            raise OutOfOrder(session.changed)
        return session

    @staticmethod
    def _refuse_ended(session: SessionState) -> None:
        if session.ended is not None:
            raise OutOfOrder(f"The session has ended: {session.ended}")

    @staticmethod
    def _check_columns(session: SessionState, products: Products, *, is_active: bool = False) -> Agreement:
        assert session.agreement is not None  # noqa: S101 - nobody is answered before
        serving = session.agreement.serving
        serving.check(products)
        expected = serving.active_columns(session.columns) if is_active else session.columns
        if products.shape[1] != expected:
            raise InvalidMessage(f"Expected {expected} columns of partial scores, got {products.shape[1]}.")
        check_magnitude(products)
        return session.agreement


def _joined(calls: LearnerCalls, session: SessionState, products: list[Any]) -> FloatArray:
    """Join all parties' shares of logits to one, (rows, columns)."""
    assert session.agreement is not None  # noqa: S101 - nobody is answered before
    return calls.join(list(session.agreement.serving.added(products)))


def _restored(kept: KeptSession, protection: Protection) -> SessionState:
    """Take up a session of before. Where scores can't be made as they were, nothing is answered, and it says why."""
    session = SessionState.restored(kept)
    try:
        is_as_before = protection.fingerprint(session.classes) == kept.defences
    except OutOfOrder as error:
        _log.error("%s", error)
        is_as_before = False
    if not is_as_before:
        before, now = (" and ".join(names) or "nothing" for names in (kept.agreement.score_defences, protection.names))
        session.changed = (
            "What the coordinator applies to scores is not what it was when this model was trained (then "
            f"{before}, now {now}; or their options or their secret): put its settings and its state folder back, "
            "or train again."
        )
        _log.error("%s", session.changed)
    try:
        session.columns = session.plan.calls.outputs(session.classes)
    except (ValueError, LearnerFailed) as error:
        _log.error("%s", error)
        session.changed = (
            f"The coordinator can't use the learner {session.plan.learner} of this model any more: put its package "
            "back, or train again."
        )
    return session
