"""The passive party's state: one session from alignment to scores, led by the active party. Knows no network."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator

from services.common.agreement import Agreement
from services.common.alignment import alignment_context, alignment_refusals
from services.common.deadlines import carrying_the_deadline
from services.common.errors import FederationError, InvalidMessage, NotAllowed, OutOfOrder, log_failure, one_line, told
from services.common.identity import Identity, Role
from services.common.meters import StageTimer
from services.party.context import PartyContext
from services.party.ending import Ending
from services.party.party_training import PartyTraining
from services.party.peer_watch import PeerWatch
from services.party.session import PartySession, join
from services.protocol1.exchange import GradientExchange
from vfl.arrays import IntArray
from vfl.crypto.curve25519 import COORDINATE_BYTES
from vfl.data import BlindedIds, PsiServer, rows_of
from vfl.learning.networks import DenseNetwork

_log = logging.getLogger(__name__)


class _Session:
    """One session as this party sees it. Each field is None until its stage is reached."""

    def __init__(self, session_id: str, active: str, watch: PeerWatch) -> None:
        self.session_id = session_id
        self.active = active
        self.watch = watch
        self.ending = Ending()
        self.psi: PsiServer | None = None
        self.rows: IntArray | None = None
        self.joining = threading.Lock()
        self.training: PartyTraining | None = None

    @property
    def ended(self) -> str | None:
        """Why it has ended; None while it is open."""
        error = self.ending.error
        return None if error is None else told(error)

    def while_open(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks of an alignment until this session ends; raises what the set intersection refuses."""
        sent = 0
        try:
            with alignment_refusals():
                for chunk in chunks:
                    if self.ended is not None:
                        raise OutOfOrder(f"The session has ended: {self.ended}")
                    sent += len(chunk) // COORDINATE_BYTES
                    yield chunk
        finally:
            _log.info("Sent %d blinded ids.", sent)


class PassiveParty:
    """Holds one session at a time. When the active party opens another, the one before ends. Thread-safe.

    Attributes:
        name: the party's, as its certificate states it.
        executor: threads for epochs and attacks.
    """

    def __init__(self, context: PartyContext) -> None:
        self.name = context.name
        self.executor = context.executor
        self._context = context
        self._data = context.data
        self._record = context.record
        self._lock = threading.Lock()
        self._session: _Session | None = None

    # -- alignment -------------------------------------------------------------------------------------------------

    def set_up_alignment(self, caller: Identity, session_id: str, client_count: int) -> BlindedIds:
        """Begin a session with private set intersection; returns this party's blinded ids for ``client_count`` ids."""
        if not session_id:
            raise InvalidMessage("The session id is empty: open a session at the coordinator first.")
        with self._lock:
            if self._session is not None and self._session.session_id == session_id:
                raise OutOfOrder("This session has begun its alignment already; open a new one to align again.")
            session = _Session(session_id, caller.name, self._watch_of(session_id))
            with alignment_refusals():
                session.psi = PsiServer(self._data.ids, alignment_context(session_id, self.name))
                setup = session.psi.setup(client_count)
            # A refused set-up ends nothing.
            if self._session is not None:
                self._end(self._session, OutOfOrder("the active party has begun another session."))
            self._session = session
        session.watch.start(session_id, (session.active, Role.COORDINATOR))
        _log.info("%s begins session %r and will ask about %d ids.", caller.name, session_id[:40], client_count)
        return BlindedIds(setup.count, session.while_open(setup.chunks))

    def align(self, caller: Identity, session_id: str, request: Iterable[bytes]) -> Iterator[bytes]:
        """Answer the active party's one query of this session, chunk by chunk."""
        session = self._session_of(caller, session_id)
        if session.psi is None:
            raise OutOfOrder("This session was aligned already.")
        with alignment_refusals():
            response = session.psi.respond(request)
        return session.while_open(response)

    def fix_order(self, caller: Identity, session_id: str, common_ids: list[str]) -> None:
        """Take the common order of rows.

        Raises:
            InvalidMessage: for ids that this party doesn't hold, which can't be from the alignment.
        """
        session = self._session_of(caller, session_id)
        with self._lock:
            if session.psi is None:
                raise OutOfOrder("This session has its order already.")
            try:
                session.rows = rows_of(self._data.ids, common_ids)
            except ValueError as error:
                raise InvalidMessage(str(error)) from error
            session.psi = None
        _log.info("Aligned %d of %d records.", len(common_ids), len(self._data.ids))

    # -- training --------------------------------------------------------------------------------------------------

    def join(self, caller: Identity, session_id: str) -> Agreement:
        """Join at the coordinator, check the terms against this party's own settings, make a key pair.

        A repetition waits for the first and gets the same agreement: a session has one key and one set of weights.
        """
        session = self._session_of(caller, session_id)
        if session.rows is None:
            raise OutOfOrder("Align before you join.")
        with session.joining:
            if session.training is None:
                session.training = self._join(caller, session, session.rows)
            return session.training.agreement

    def _join(self, caller: Identity, session: _Session, rows: IntArray) -> PartyTraining:
        # A coordinator that hangs must not keep this party's own sentence about it from the active party.
        work = carrying_the_deadline(join, self._context, session.session_id, rows)
        agreement = session.ending.for_result(self.executor, work)
        if agreement.active.name != caller.name:
            raise NotAllowed(f"{caller.name} is not this session's active party.")
        session.watch.add(party.name for party in agreement.peers_of(self.name))
        return PartySession.open(self._context, agreement, rows).training

    def show_public_key(self, caller: Identity, session_id: str) -> None:
        """Show this session's public key to every peer. All of them have joined by now."""
        self._training_of(caller, session_id).show_public_key()

    def run_epoch(
        self, caller: Identity, session_id: str, epoch: int, on_step: Callable[[int, StageTimer], None]
    ) -> None:
        """Train one epoch, writing each step's timings to the record and calling ``on_step`` after it."""

        session, training = self._session_of(caller, session_id), self._training_of(caller, session_id)

        def recorded(step: int, timer: StageTimer) -> None:
            session.ending.check()
            self._record.add_step(step, timer.seconds)
            on_step(step, timer)

        # A peer that hangs must not keep this party's own sentence about it from the active party.
        session.ending.for_result(self.executor, lambda: training.run_epoch(epoch, recorded))

    def finish_training(self, caller: Identity, session_id: str, kept_epoch: int) -> None:
        """Keep the weights of one epoch, write the record and mount the training attacks."""
        training = self._training_of(caller, session_id)
        training.keep_epoch(kept_epoch)
        # Whose model is complete waits for nobody, and serves a successor of the active party as well.
        self._session_of(caller, session_id).watch.stop()
        self._record.finish(training.weights, self._data.feature_names)
        # After the answer: an attack that takes its time must not show.
        self.executor.submit(self._context.adversary.attack, training).add_done_callback(log_failure)

    def exchange_of(self, session_id: str) -> GradientExchange:
        """The session's Protocol 1 state, for messages of peers; raises OutOfOrder when there is none."""
        session = self._session
        if session is None or session.session_id != session_id or session.training is None:
            raise OutOfOrder("No such session here: it has not begun, or another has taken its place.")
        return session.training.exchange

    # -- prediction ------------------------------------------------------------------------------------------------

    def contribute_scores(self, caller: Identity, session_id: str, request_id: int, rows: list[int]) -> None:
        """Send this party's partial scores of some aligned rows to the coordinator."""
        training = self._training_of(caller, session_id)
        share = training.share_of(rows)
        _log.info("Contributing to the scores of %d records (request %d).", len(rows), request_id)
        self._context.coordinator.submit_partial_scores(session_id, request_id, share)

    def disclose_parameters(self, caller: Identity, session_id: str) -> DenseNetwork:
        """White box: this party's share of the model; raises OutOfOrder when it discloses nothing."""
        training = self._training_of(caller, session_id)
        if not self._context.settings.disclose:
            raise OutOfOrder(f"{self.name} discloses no parameters (black box); its owner sets PLUMBLINE_DISCLOSE.")
        return training.disclosed_parameters()

    def end_session(self, caller: Identity, session_id: str, reason: str) -> None:
        """End the session when its active party says so. Another session's end changes nothing."""
        session = self._session
        if session is not None and session.session_id == session_id:
            if caller.name != session.active:
                raise NotAllowed(f"{caller.name} is not this session's active party.")
            self._end(session, OutOfOrder(one_line(reason)))

    def close(self) -> None:
        """End the session at work, if any, so that no thread waits for a peer when this process stops."""
        if self._session is not None:
            self._end(self._session, OutOfOrder(f"{self.name} is stopping."))

    def holds_session(self, session_id: str) -> bool:
        """Whether this party knows the session, ended or not: what peers ask who watch it.

        An ended one is known, so that nobody takes its end, which has its own words, for a restart of this process.
        """
        session = self._session
        return session is not None and session.session_id == session_id

    def _watch_of(self, session_id: str) -> PeerWatch:
        def lost(error: FederationError) -> None:
            session = self._session
            if session is not None and session.session_id == session_id:
                self._end(session, error)
                # Others may wait there for this session, until their time is up.
                self.executor.submit(self._tell_coordinator, session_id, told(error)).add_done_callback(log_failure)

        return PeerWatch(self._context.pulses, lost, step_timeout=self._context.settings.step_timeout)

    def _tell_coordinator(self, session_id: str, reason: str) -> None:
        try:
            self._context.coordinator.end_session(session_id, reason)
        except FederationError as error:
            _log.info("The coordinator could not be told: %s", error)

    def _end(self, session: _Session, error: FederationError) -> None:
        session.watch.stop()
        session.ending.end(error)
        if session.training is not None:
            session.training.exchange.end(told(error))
        _log.info("Session ended: %s", error)

    def _session_of(self, caller: Identity, session_id: str) -> _Session:
        session = self._session
        if session is None or session.session_id != session_id:
            raise OutOfOrder("No such session here: it has not begun, or another has taken its place.")
        if caller.name != session.active:
            raise NotAllowed(f"{caller.name} is not this session's active party.")
        if session.ended is not None:
            raise OutOfOrder(f"The session has ended: {session.ended}")
        return session

    def _training_of(self, caller: Identity, session_id: str) -> PartyTraining:
        training = self._session_of(caller, session_id).training
        if training is None:
            raise OutOfOrder("Join the session first.")
        return training
