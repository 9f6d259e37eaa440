"""One session as the passive party sees it, from alignment to its end. Knows no network."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from services.common.agreement import Agreement, ProposedTerms
from services.common.alignment import LoggedProgress, alignment_context, alignment_refusals
from services.common.errors import (
    FederationError,
    InvalidMessage,
    OutOfOrder,
    Suspended,
    is_interruption,
    log_failure,
    told,
)
from services.common.identity import Role
from services.common.meters import StageTimer
from services.common.roster import Roster
from services.party.calibrating import calibration_record
from services.party.coin_toss import CoinToss
from services.party.context import PartyContext
from services.party.ending import Ending
from services.party.lasting_batches import BatchMemory, SessionBatches
from services.party.party_training import PartyTraining, remarks_of
from services.party.peer_watch import PeerWatch
from services.party.resumption import Place, Resumption
from services.party.session import PartySession
from services.party.training_log import KeptTraining
from services.passive.common_order import CommonOrder
from vfl.arrays import IntArray
from vfl.crypto.curve25519 import COORDINATE_BYTES
from vfl.data import PsiServer
from vfl.data.id_array import IdArray
from vfl.data.id_overlap import forms_of_unmet
from vfl.learning.calibration import Calibration

_log = logging.getLogger(__name__)

_STARTED_AGAIN = "This party has started again, and its training waits for the others."


class HeldSession:
    """One session as this party sees it. Each field is None until its stage is reached.

    Attributes:
        terms: what it was opened with.
        session_id: its id.
        active: name of its active party.
        psi: answers its alignment.
        toss: for the key of records' names.
        order: the common order of rows.
        batches: which records are in each batch.
        joining: held while this party joins, which it does once.
        joined: this party's part in it.
        watch: watches who this party waits for.
        ending: tells who waits in it that it ends, or waits.
        waits_since: since when its training waits for a party that is away, on the wall's clock; None while it doesn't.
    """

    def __init__(self, context: PartyContext, terms: ProposedTerms) -> None:
        """Begin a session; raises what the set intersection refuses."""
        self.terms = terms
        self.toss = CoinToss(terms.session_id, terms.active, terms.passive_parties, context.name)
        self.batches: SessionBatches | None = None
        self.session_id = terms.session_id
        self.active = terms.active
        self.psi = PsiServer(context.data.ids, alignment_context(terms.session_id, context.name), context.cores)
        self.ending = Ending()
        self.order: CommonOrder | None = None
        self.joining = threading.Lock()
        self.joined: PartySession | None = None
        self.waits_since: float | None = None
        self._context = context
        # Of its order, and of who goes on or waits.
        self._lock = threading.RLock()
        self.watch = self._new_watch()

    @classmethod
    def interrupted(
        cls, context: PartyContext, interrupted_training: KeptTraining, party_session: PartySession
    ) -> "HeldSession":
        """Take up a session that a process before this one was at work in."""
        agreement = interrupted_training.terms.agreement
        active, *passive = (party.name for party in agreement.parties)
        terms = ProposedTerms(agreement.session_id, active, tuple(passive), agreement.plan, agreement.classes)
        session = cls(context, terms)
        session.order = CommonOrder((), 0)
        session.order.rows = interrupted_training.terms.order
        session.joined = party_session
        session._free(Suspended(_STARTED_AGAIN))
        return session

    @property
    def ended(self) -> str | None:
        """Why it has ended; None while it is open, and while it waits."""
        error = self.ending.error
        return None if error is None or isinstance(error, Suspended) else told(error)

    @property
    def rows(self) -> IntArray:
        """This party's rows in the common order; raises OutOfOrder until there is one."""
        if self.order is None or self.order.rows is None:
            raise OutOfOrder("Align before you join.")
        return self.order.rows

    def agreed(self) -> PartySession:
        """Give this party's part in it; raises OutOfOrder before it has joined."""
        if self.joined is None:
            raise OutOfOrder("Join the session first.")
        return self.joined

    @property
    def can_wait(self) -> bool:
        """Whether it is in a training that goes on after an interruption."""
        return self.joined is not None and self.joined.training.can_wait

    @property
    def seconds_waited(self) -> float:
        """How long its training has waited, in all its interruptions; 0 while it doesn't wait."""
        if self.waits_since is None or self.joined is None:
            return 0.0
        return self.joined.training.back.log.waited + time.time() - self.waits_since

    # -- alignment -------------------------------------------------------------------------------------------------

    def align(self, caller: str, request: Iterable[bytes]) -> Iterator[bytes]:
        """Answer the active party's one query, chunk by chunk."""
        if self.order is not None:
            raise OutOfOrder("This session was aligned already.")
        count = self.psi.client_count
        self._context.tally.answered(caller, "alignment", count, self.session_id)
        reading, answering = (
            LoggedProgress("Read %s of %s ids of the request."),
            LoggedProgress("Answered %s of %s ids."),
        )
        with alignment_refusals():
            response = self.psi.respond(reading.over(request, count))
        return self.while_open(answering.over(response, count))

    def fix_order(self, parts: Iterable[Sequence[str]], roster: Roster | None, name_key: bytes) -> None:
        """Take the common order of rows; raises as ``PassiveParty.fix_order``."""
        own_ids = IdArray.of(self._context.data.ids)
        with self._lock:
            if not self.psi.is_done:
                raise OutOfOrder("Align first: the order follows when the alignment was answered to its end.")
            if self.order is None:
                self.order = CommonOrder(self._context.data.ids, self.psi.most_common)
        self.order.take(parts)
        if self.terms.plan.family.spec.trains:
            memory = BatchMemory(self._context, (self.active, *self.terms.passive_parties))
            keys = [self.toss.result, name_key]
            self.batches = SessionBatches.of(memory, memory.read(), own_ids.take(self.rows), roster, keys)
        _log.info("Aligned %d of %d records.", len(self.rows), len(own_ids))
        if differing := forms_of_unmet(own_ids, self.rows):
            _log.warning("%s", differing)

    def _check_open(self) -> None:
        if self.ended is not None:
            raise OutOfOrder(f"The session has ended: {self.ended}")

    def while_open(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Pass an alignment's chunks on until this session ends; raises what the set intersection refuses."""
        sent = 0
        try:
            with alignment_refusals():
                for chunk in chunks:
                    self._check_open()
                    sent += len(chunk) // COORDINATE_BYTES
                    yield chunk
        except InvalidMessage:
            # The alignment ends with its session, whose words say why.
            self._check_open()
            raise
        finally:
            _log.info("Sent %d blinded ids.", sent)

    # -- training --------------------------------------------------------------------------------------------------

    def run_epoch(self, epoch: int, on_step: Callable[[int, StageTimer], None], attempt: int | None) -> None:
        """Train one epoch, or wait where a party is away; raises as ``PassiveParty.run_epoch``."""
        training, ending, context = self.agreed().training, self.ending, self._context

        def recorded(step: int, timer: StageTimer) -> None:
            ending.check()
            context.record.add_step(step, timer.seconds)
            on_step(step, timer)

        # A peer that hangs must not keep this party's own sentence about it from the active party.
        try:
            ending.for_result(context.executor, lambda: training.run_epoch(epoch, recorded, attempt))
        except FederationError as error:
            if not (training.can_wait and is_interruption(error)):
                raise
            self.wait(error, ending)
            raise Suspended(told(error)) from error

    def stop(self, caller: str) -> Place:
        """Stop at the step at work, and say how far this party is."""
        training = self.agreed().training
        if training.can_wait:
            self.wait(Suspended(f"{caller} goes back to a step that all parties have."), self.ending)
        return training.place()

    def resume(self, caller: str, resumption: Resumption, count_again: Callable[[int], object]) -> None:
        """Go on from a step that all parties have; raises as ``PassiveParty.resume_training``."""
        training, since = self.agreed().training, self.waits_since
        if since is None and not training.is_over:
            raise OutOfOrder("The training isn't interrupted: stop it first.")
        waited = 0.0 if since is None else time.time() - since
        training.resume(resumption, caller, waited=waited, count_again=count_again)
        if training.is_over:
            return
        with self._lock:
            self.ending, self.waits_since = Ending(), None
            self.watch = self._new_watch()
        self.watch.start(self.session_id, (self.active, Role.COORDINATOR))
        self.watch_peers(training.agreement)
        _log.info("The training goes on from step %d.", resumption.step)

    def finish(self, calibration: Calibration) -> None:
        """Write what came of the training, whose model is kept by now, and attack it."""
        training, context = self.agreed().training, self._context
        # Whose model is complete waits for nobody, and serves a successor of the active party as well.
        self.watch.stop()
        context.record.note(
            remarks=remarks_of(training),
            discloses=context.settings.disclose and training.agreement.serving.discloses,
            skipped_steps=training.back.log.skipped or None,
            interruptions=dict(training.back.log.interruptions) or None,
            calibration=calibration_record(training.agreement, calibration),
        )
        context.record.finish(training.model.own_part)
        context.cores.forget()
        # After the answer: an attack that takes its time must not show.
        context.executor.submit(self._attack, training).add_done_callback(log_failure)

    def _attack(self, training: PartyTraining) -> None:
        adversary = self._context.adversary
        ids = None if adversary.is_idle else IdArray.of(self._context.data.ids).take(self.rows)
        adversary.attack(training, records=self.rows, ids=ids)

    # -- its end ---------------------------------------------------------------------------------------------------

    def _new_watch(self) -> PeerWatch:
        return PeerWatch(self._context.heartbeats, self._lose, step_timeout=self._context.settings.step_timeout)

    def _lose(self, error: FederationError) -> None:
        """Note that another party is away: wait for it, or end."""
        if self.can_wait:
            self.wait(error, self.ending)
        elif self.ended is None:
            self.end(error)
            # Others may wait there for this session, until their time is up.
            # Where this process stops meanwhile, the coordinator hears of that instead.
            with suppress(RuntimeError):
                self._context.executor.submit(self._tell_coordinator, told(error)).add_done_callback(log_failure)

    def _tell_coordinator(self, reason: str) -> None:
        try:
            self._context.coordinator.end_session(self.session_id, reason)
        except FederationError as error:
            _log.info("The coordinator could not be told: %s", error)

    def watch_peers(self, agreement: Agreement) -> None:
        """Watch the other parties of the training as well."""
        self.watch.add(party.name for party in agreement.peers_of(self._context.name))

    def wait(self, error: FederationError, ending: Ending) -> None:
        """Wait until the active party says where to go on, unless it does already; ``ending`` was that of the work."""
        with self._lock:
            if self.ending is not ending or self.ended is not None:
                return
            if self.waits_since is None:
                _log.warning("The training waits: %s", error)
            self.watch.stop()
            self._free(Suspended(told(error)))
        self.agreed().training.suspend(told(error))

    def _free(self, error: Suspended) -> None:
        """Free who waits for the training at work, which goes on with another ending."""
        self.ending.end(error)
        self.waits_since = self.waits_since or time.time()

    def end(self, error: FederationError) -> None:
        """End it for good, whether it waits or not."""
        self.watch.stop()
        with self._lock:
            if self.waits_since is not None:
                self.ending = Ending()
            self.ending.end(error)
        self.psi.close()
        if self.joined is not None:
            self.joined.training.exchange.end(told(error))
            self.joined.training.back.forget()
        self._context.cores.forget()
        _log.info("Session ended: %s", error)
