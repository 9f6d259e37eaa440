"""The passive party's state: one session from alignment to its model, and the models that answer. Knows no network."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import cast

from services.common import limits
from services.common.agreement import Agreement
from services.common.alignment import LoggedProgress, alignment_refusals
from services.common.errors import FederationError, NotAllowed, OutOfOrder, one_line, refusals_of
from services.common.identity import Identity, Role
from services.common.meters import StageTimer
from services.common.roster import Roster
from services.exchange.peer import Inbox
from services.network.deadlines import carrying_the_deadline
from services.party.consent import check_as_opened, check_plan
from services.party.context import PartyContext
from services.party.model_file import TableChanged
from services.party.resumption import Place, Resumption
from services.party.served_models import ServedModels
from services.party.session import PartySession, begin_ledgers, join, rejoined
from services.party.training_log import kept_training
from services.passive.answering import Answering
from services.passive.held_session import HeldSession
from services.passive.quota import AlignmentQuota, check_declared
from vfl.arrays import IntArray
from vfl.data import BlindedIds
from vfl.learning import Part
from vfl.learning.calibration import Calibration

_log = logging.getLogger(__name__)


class PassiveParty:
    """Holds one session at a time, and apart from it the models that answer. Thread-safe.

    When the active party opens another session, the one before ends. A model whose training is over answers on, until
    another one is served.

    Attributes:
        name: the party's, as its certificate states it.
        executor: threads for epochs and attacks.
    """

    def __init__(self, context: PartyContext, quota: AlignmentQuota | None = None) -> None:
        """Hold no session yet.

        Args:
            context: what this party works with.
            quota: of alignments. By default the settings', counted in the party's state.
        """
        self.name = context.name
        self.executor = context.executor
        self._context = context
        self._quota = quota or AlignmentQuota(context.settings.alignments_per_day, context.state)
        self._lock = threading.Lock()
        self._session: HeldSession | None = None
        self._models = ServedModels(self.name, context.data, context.state)
        self._equations = context.equation_count(context.settings.most_equations)
        begin_ledgers(context.state)
        self._tally = context.tally
        self._tally.add(self._equations.measures)
        self._answering = Answering(context, self._models, self._equations)
        self._take_up_training()

    def _take_up_training(self) -> None:
        """Stand in the session that the process before this one was at work in; raises StateError for a broken one."""
        if (interrupted_training := kept_training(self._context.state, self.name)) is None:
            return
        session_id = interrupted_training.terms.agreement.session_id
        if self._models.served is not None and self._models.served.session_id == session_id:
            interrupted_training.log.forget()
            return
        try:
            opened = PartySession.open(
                self._context, rejoined(self._context, interrupted_training), kept=interrupted_training.log
            )
        except FederationError as error:
            _log.error("%s", error)
            return
        self._session = HeldSession.interrupted(self._context, interrupted_training, opened)
        _log.info("The training of session %s waits for %s.", session_id, self._session.active)

    # -- alignment -------------------------------------------------------------------------------------------------

    def set_up_alignment(self, caller: Identity, session_id: str, client_count: int) -> BlindedIds:
        """Begin a session with private set intersection; returns this party's blinded ids for ``client_count`` ids.

        Raises:
            InvalidMessage: for what is no session id, or an implausible number of ids.
            NotAllowed: for another active party's session, or one without this party.
            OutOfOrder: for a session that the coordinator doesn't know or that was aligned before, a plan that this
                party's own settings refuse, and fewer ids or more alignments in a day than the owner allows.
        """
        limits.check_session_id(session_id)
        self._refuse_second_set_up(session_id)
        terms = self._context.coordinator.session_terms(session_id)
        if terms.active != caller.name:
            raise NotAllowed(f"{caller.name} is not this session's active party.")
        if self.name not in terms.passive_parties:
            raise NotAllowed(f"{self.name} is not a party of this session.")
        check_plan(terms.plan, self._context.settings)
        check_declared(caller.name, client_count, self._context.settings.least_ids)
        with self._lock:
            self._refuse_second_set_up(session_id)
            with alignment_refusals():
                session = HeldSession(self._context, terms)
                setup = session.psi.setup(client_count)
            self._quota.take(caller.name)
            self._tally.answered(caller.name, "blinded ids", setup.count, session_id)
            # A refused set-up ends nothing.
            if self._session is not None:
                self._session.end(OutOfOrder("the active party has begun another session."))
            self._session = session
        session.watch.start(session_id, (session.active, Role.COORDINATOR))
        _log.info("%s begins session %s and will ask about %d ids.", caller.name, session_id, client_count)
        sending = LoggedProgress("Setting up: sent %s of %s blinded ids.")
        return BlindedIds(setup.count, session.while_open(sending.over(setup.chunks, setup.count)))

    def _refuse_second_set_up(self, session_id: str) -> None:
        begun = self._session is not None and self._session.session_id == session_id
        if begun or self._models.knows(session_id):
            raise OutOfOrder("This session has begun its alignment already; open a new one to align again.")

    def align(self, caller: Identity, session_id: str, request: Iterable[bytes]) -> Iterator[bytes]:
        """Answer the active party's one query of this session, chunk by chunk."""
        return self._session_of(caller, session_id).align(caller.name, request)

    def toss(
        self, caller: Identity, session_id: str, commitments: Sequence[bytes], contributions: Sequence[bytes]
    ) -> bytes:
        """Toss for the key of records' names: gives a commitment, for those of all the contribution, then nothing.

        Raises:
            InvalidMessage: for values that don't fit what was committed to.
            OutOfOrder: out of turn.
        """
        toss = self._session_of(caller, session_id).toss
        if contributions:
            toss.finish(contributions)
            return b""
        return toss.reveal(commitments) if commitments else toss.commitment

    def fix_order(
        self,
        caller: Identity,
        session_id: str,
        parts: Iterable[Sequence[str]],
        roster: Roster | None = None,
        name_key: bytes = b"",
    ) -> None:
        """Take the common order of rows, part by part, in one attempt per session.

        Args:
            caller: who sends it.
            session_id: the session.
            parts: ids.
            roster: how many of them are in each batch, where the active party remembers that.
            name_key: of records' names, if the active party remembers it.

        Raises:
            InvalidMessage: for anything but distinct ids of this party, in the same words, and for good; and for a
                roster of other records.
            OutOfOrder: before the alignment was answered to its end, and for a second attempt with other ids.
        """
        self._session_of(caller, session_id).fix_order(parts, roster, name_key)

    # -- training --------------------------------------------------------------------------------------------------

    def join(self, caller: Identity, session_id: str) -> Agreement:
        """Join at the coordinator, check the terms against this party's own settings, make a key pair.

        A repetition waits for the first and gets the same agreement: a session has one key and one set of weights.
        """
        session = self._session_of(caller, session_id)
        rows = session.rows
        with session.joining:
            if session.joined is None:
                session.joined = self._join(caller, session, rows)
            return session.joined.agreement

    def _join(self, caller: Identity, session: HeldSession, rows: IntArray) -> PartySession:
        # A coordinator that hangs must not keep this party's own sentence about it from the active party.
        counting = carrying_the_deadline(self._equations.room_for, session.terms, rows)
        validated = session.ending.for_result(self.executor, counting)
        joining = partial(join, validated_epochs=validated, batches=session.batches)
        work = carrying_the_deadline(joining, self._context, session.terms, rows)
        joined_session = session.ending.for_result(self.executor, work)
        agreement = joined_session.agreement
        if agreement.active.name != caller.name:
            raise NotAllowed(f"{caller.name} is not this session's active party.")
        check_as_opened(agreement, session.terms)
        session.watch_peers(agreement)
        opened = PartySession.open(self._context, joined_session, earlier=self._equations.shares_of(rows))
        self._answering.begin(opened, rows)
        return opened

    def show_public_key(self, caller: Identity, session_id: str) -> None:
        """Remember the session's batches, and show its public key to every peer. All of them have joined by now."""
        party_session = self._session_of(caller, session_id).agreed()
        party_session.remember()
        party_session.training.side.show_public_key()

    def run_epoch(
        self,
        caller: Identity,
        session_id: str,
        epoch: int,
        on_step: Callable[[int, StageTimer], None],
        attempt: int | None = None,
    ) -> None:
        """Train one epoch, writing each step's timings to the record and calling ``on_step`` after it.

        One of another try of the training is refused; None stands for the one at work.
        """
        self._session_of(caller, session_id).run_epoch(epoch, on_step, attempt)

    def stop_training(self, caller: Identity, session_id: str) -> Place:
        """Stop at the step at work, and say how far this party is. The same again says the same.

        Raises:
            OutOfOrder: where its training can't wait.
        """
        return self._session_of(caller, session_id).stop(caller.name)

    def resume_training(self, caller: Identity, session_id: str, resumption: Resumption) -> None:
        """Go on from a step that all parties have, with a new key.

        Raises:
            OutOfOrder: for one that this party hasn't, where doing it again would tell too much, and for more
                interruptions than this party's owner allows.
        """
        session = self._session_of(caller, session_id)
        party_session = session.agreed()
        count_again = partial(self._equations.count_forwarded, party_session.agreement, party_session.aligned)
        session.resume(caller.name, resumption, count_again)

    def finish_training(
        self, caller: Identity, session_id: str, kept_epoch: int, slope_step: int = 0
    ) -> tuple[float, ...]:
        """Keep the weights of one epoch, on disk as well, write the record and mount the training attacks.

        The same again changes nothing.

        Returns:
            What its products had added while columns were centred, for the label party's bias; empty if they weren't.

        Raises:
            InvalidMessage: for an epoch or a slope that can't be.
            OutOfOrder: for another epoch or slope than the first time.
        """
        session = self._session_of(caller, session_id)
        training = session.agreed().training
        with refusals_of(ValueError):
            calibration = Calibration(slope_step)
        training.keep_epoch(kept_epoch, calibration)
        if self._models.knows(session_id):
            return training.models.constants
        self._answering.keep(session.agreed(), session.rows)
        session.finish(calibration)
        return training.models.constants

    def exchange_of(self, session_id: str) -> Inbox:
        """Find the session's exchange, for messages of peers; raises OutOfOrder when there is none."""
        session = self._session
        if session is None or session.session_id != session_id or session.joined is None:
            raise OutOfOrder("No such session here: it has not begun, or another has taken its place.")
        return cast(Inbox, session.joined.training.exchange)

    # -- prediction ------------------------------------------------------------------------------------------------

    def contribute_scores(
        self, caller: Identity, session_id: str, request_id: int, rows: Sequence[int], masked: bytes = b""
    ) -> bytes:
        """Send this party's partial scores of some aligned rows to the coordinator.

        Where weights stay shared, this takes the active party's masked products if this party holds its V, and returns
        its own: the same for the same request.
        """
        limits.check_count(rows, limits.PREDICTION_ROWS, "rows per request")
        model = self._answering.finished(caller, session_id)
        if model is None:
            model = self._answering.between_epochs(self._session_of(caller, session_id).agreed(), rows)
        return self._answering.contribute(caller, model, request_id, rows, masked)

    def disclose_parameters(self, caller: Identity, session_id: str) -> Part:
        """White box: this party's share of the model; raises OutOfOrder when it discloses nothing."""
        if self._models.of_session(session_id, caller.name) is None:
            self._session_of(caller, session_id).agreed()
        return self._answering.disclose(caller, session_id)

    def serve_model(self, caller: Identity, session_id: str) -> None:
        """Answer with this session's model from now on, and forget the one before."""
        self._models.serve(session_id, caller.name)
        session = self._session
        if session is not None and session.session_id == session_id and session.joined is not None:
            session.joined.training.back.forget()

    def holds_model(self, session_id: str) -> bool:
        """Tell whether this party can answer for a session's model."""
        try:
            return self._models.of_session(session_id) is not None
        except TableChanged:
            return False

    def end_session(self, caller: Identity, session_id: str, reason: str) -> None:
        """End the session when its active party says so. Another session, or a model that is served, stays."""
        if self._models.of_session(session_id, caller.name) is not None:
            self._models.drop_candidate(session_id)
        session = self._session
        if session is not None and session.session_id == session_id:
            if caller.name != session.active:
                raise NotAllowed(f"{caller.name} is not this session's active party.")
            session.end(OutOfOrder(one_line(reason)))

    def close(self) -> None:
        """End the session at work, if any, so that no thread waits for a peer when this process stops."""
        session, stopping = self._session, OutOfOrder(f"{self.name} is stopping.")
        if session is None:
            return
        if session.can_wait:
            # Its next process goes on.
            session.wait(stopping, session.ending)
        else:
            session.end(stopping)

    def holds_session(self, session_id: str) -> bool:
        """Tell whether this party knows the session, ended or not: what peers ask who watch it.

        An ended one is known, so that nobody takes its end, which has its own words, for a restart of this process.
        """
        session = self._session
        return session is not None and session.session_id == session_id

    def _session_of(self, caller: Identity, session_id: str) -> HeldSession:
        session = self._session
        if session is None or session.session_id != session_id:
            raise OutOfOrder("No such session here: it has not begun, or another has taken its place.")
        if caller.name != session.active:
            raise NotAllowed(f"{caller.name} is not this session's active party.")
        within = self._context.settings.resume_within
        if session.seconds_waited > within:
            session.end(OutOfOrder(f"{self.name} has waited for {within:g} s (PLUMBLINE_RESUME_WITHIN)."))
        if session.ended is not None:
            raise OutOfOrder(f"The session has ended: {session.ended}")
        return session
