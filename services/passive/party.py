"""The passive party's state: one session from alignment to its model, and the models that answer. Knows no network."""

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from services.common import limits
from services.common.agreement import Agreement
from services.common.alignment import LoggedProgress, alignment_context, alignment_refusals
from services.common.errors import (
    FederationError,
    InvalidMessage,
    NotAllowed,
    OutOfOrder,
    Suspended,
    is_interruption,
    log_failure,
    one_line,
    told,
)
from services.common.identity import Identity, Role
from services.common.meters import StageTimer
from services.common.opening_options import SHARED
from services.common.roster import Roster
from services.network.deadlines import carrying_the_deadline
from services.party.calibrating import calibration_record
from services.party.consent import check_as_opened, check_plan
from services.party.context import PartyContext
from services.party.ending import Ending
from services.party.features import AlignedFeatures
from services.party.form_count import FORMS, REMEDY, FormCount
from services.party.lasting_batches import BatchMemory, SessionBatches, begin_batches
from services.party.model_file import KeptModel, TableChanged
from services.party.party_model import PartyModel, rows_of_plan
from services.party.party_training import PartyTraining, remarks_of
from services.party.peer_watch import PeerWatch
from services.party.resumption import Place, Resumption
from services.party.served_models import ServedModels
from services.party.session import PartySession, join, rejoined
from services.party.training_log import kept_training
from services.passive.common_order import CommonOrder
from services.passive.held_session import HeldSession
from services.passive.quota import AlignmentQuota, check_declared
from services.passive.submissions import SeenSubmissions
from services.shared_weights.opening_ledger import begin_ledger
from services.shared_weights.shared_serving import AskedOnce
from vfl.arrays import IntArray
from vfl.crypto.sharing.frozen_weights import Residues
from vfl.data import BlindedIds, PsiServer
from vfl.data.id_array import IdArray
from vfl.data.id_overlap import forms_of_unmet
from vfl.learning import Part
from vfl.learning.calibration import Calibration

_log = logging.getLogger(__name__)

E = TypeVar("E")

# Stands for the digest of a model whose training has ended.
_FINISHED = "finished"


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
        self._data = context.data
        self._record = context.record
        self._quota = quota or AlignmentQuota(context.settings.alignments_per_day, context.state)
        self._lock = threading.Lock()
        self._session: HeldSession | None = None
        self._models = ServedModels(self.name, self._data, context.state)
        self._submissions = SeenSubmissions(context.state)
        settings = context.settings
        self._forms = FormCount(
            self.name,
            self._data,
            context.state,
            settings.most_forms,
            refuses_first=settings.guard == "refuse",
            note=context.anchor(FORMS, REMEDY).note,
        )
        with suppress(OutOfOrder):  # the next session tells
            begin_ledger(context.state)
            begin_batches(context.state)
        self._asked = AskedOnce()
        self._tally = context.tally
        self._tally.add(self._forms.measures)
        # Models that were counted, by session and digest: one epoch may have several.
        self._counted: set[tuple[str, str]] = set()
        self._take_up_training()

    def _take_up_training(self) -> None:
        """Stand in the session that the process before this one was at work in; raises StateError for a broken one."""
        kept = kept_training(self._context.state, self.name)
        if kept is None:
            return
        session_id = kept.terms.agreement.session_id
        if self._models.served is not None and self._models.served.session_id == session_id:
            kept.log.forget()
            return
        try:
            opened = PartySession.open(self._context, rejoined(self._context, kept), kept=kept.log)
        except FederationError as error:
            _log.error("%s", error)
            return
        psi = PsiServer(self._data.ids, alignment_context(session_id, self.name), self._context.cores)
        self._session = HeldSession.interrupted(kept, opened, psi, self._watch_of(session_id))
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
                psi = PsiServer(self._data.ids, alignment_context(session_id, self.name), self._context.cores)
                session = HeldSession(terms, self.name, psi, self._watch_of(session_id))
                setup = session.psi.setup(client_count)
            self._quota.take(caller.name)
            self._tally.answered(caller.name, "blinded ids", setup.count, session_id)
            # A refused set-up ends nothing.
            if self._session is not None:
                self._end(self._session, OutOfOrder("the active party has begun another session."))
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
        session = self._session_of(caller, session_id)
        if session.order is not None:
            raise OutOfOrder("This session was aligned already.")
        count = session.psi.client_count
        self._tally.answered(caller.name, "alignment", count, session_id)
        reading, answering = (
            LoggedProgress("Read %s of %s ids of the request."),
            LoggedProgress("Answered %s of %s ids."),
        )
        with alignment_refusals():
            response = session.psi.respond(reading.over(request, count))
        return session.while_open(answering.over(response, count))

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
        session = self._session_of(caller, session_id)
        with self._lock:
            if not session.psi.is_done:
                raise OutOfOrder("Align first: the order follows when the alignment was answered to its end.")
            if session.order is None:
                session.order = CommonOrder(self._data.ids, session.psi.most_common)
        session.order.take(parts)
        if session.terms.plan.family.spec.trains:
            memory = BatchMemory(self._context, (session.active, *session.terms.passive_parties))
            ids = IdArray.of(self._data.ids).take(session.rows)
            session.batches = SessionBatches.of(memory, memory.read(), ids, roster, [session.toss.result, name_key])
        _log.info("Aligned %d of %d records.", len(session.rows), len(self._data.ids))
        if differing := forms_of_unmet(IdArray.of(self._data.ids), session.rows):
            _log.warning("%s", differing)

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
        counting = carrying_the_deadline(self._forms.room_for, session.terms, rows)
        validated = session.ending.for_result(self.executor, counting)
        joining = partial(join, validated_epochs=validated, batches=session.batches)
        work = carrying_the_deadline(joining, self._context, session.terms, rows)
        joined = session.ending.for_result(self.executor, work)
        agreement = joined.agreement
        if agreement.active.name != caller.name:
            raise NotAllowed(f"{caller.name} is not this session's active party.")
        check_as_opened(agreement, session.terms)
        session.watch.add(party.name for party in agreement.peers_of(self.name))
        opened = PartySession.open(self._context, joined, earlier=self._forms.shares_of(rows))
        self._forms.count_forwarded(agreement, opened.aligned)
        self._forms.count_shares(session.session_id, rows[rows_of_plan(agreement.plan, len(rows)).train], opened.shares)
        self._counted = {at for at in self._counted if at[0] in self._models.sessions}
        self._submissions.forget_all_but({*self._models.sessions, session.session_id})
        if not agreement.plan.family.spec.trains:
            self._models.keep_candidate(KeptModel.of(opened.training.model, rows))
        return opened

    def show_public_key(self, caller: Identity, session_id: str) -> None:
        """Remember the session's batches, and show its public key to every peer. All of them have joined by now."""
        joined = self._joined_of(caller, session_id)
        joined.remember()
        joined.training.show_public_key()

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

        session, training = self._session_of(caller, session_id), self._training_of(caller, session_id)
        ending = session.ending

        def recorded(step: int, timer: StageTimer) -> None:
            ending.check()
            self._record.add_step(step, timer.seconds)
            on_step(step, timer)

        # A peer that hangs must not keep this party's own sentence about it from the active party.
        try:
            ending.for_result(self.executor, lambda: training.run_epoch(epoch, recorded, attempt))
        except FederationError as error:
            if not (training.can_wait and is_interruption(error)):
                raise
            self._wait(session, error, ending)
            raise Suspended(told(error)) from error

    def stop_training(self, caller: Identity, session_id: str) -> Place:
        """Stop at the step at work, and say how far this party is. The same again says the same.

        Raises:
            OutOfOrder: where its training can't wait.
        """
        session, training = self._session_of(caller, session_id), self._training_of(caller, session_id)
        if training.can_wait:
            self._wait(session, Suspended(f"{caller.name} goes back to a step that all parties have."), session.ending)
        return training.place()

    def resume_training(self, caller: Identity, session_id: str, resumption: Resumption) -> None:
        """Go on from a step that all parties have, with a new key.

        Raises:
            OutOfOrder: for one that this party hasn't, where doing it again would tell too much, and for more
                interruptions than this party's owner allows.
        """
        session, joined = self._session_of(caller, session_id), self._joined_of(caller, session_id)
        training, since = joined.training, session.waits_since
        if since is None and not training.is_over:
            raise OutOfOrder("The training isn't interrupted: stop it first.")
        training.resume(
            resumption,
            caller.name,
            waited=0.0 if since is None else time.time() - since,
            count_again=partial(self._forms.count_forwarded, training.agreement, joined.aligned),
        )
        if training.is_over:
            return
        with self._lock:
            session.ending, session.waits_since = Ending(), None
            session.watch = self._watch_of(session_id)
        session.watch.start(session_id, (session.active, Role.COORDINATOR))
        session.watch.add(party.name for party in training.agreement.peers_of(self.name))
        _log.info("The training goes on from step %d.", resumption.step)

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
        training = self._training_of(caller, session_id)
        try:
            calibration = Calibration(slope_step)
        except ValueError as error:
            raise InvalidMessage(str(error)) from error
        training.keep_epoch(kept_epoch, calibration)
        if self._models.knows(session_id):
            return training.models.constants
        session = self._session_of(caller, session_id)
        kept = KeptModel.of(training.model, session.rows)
        # An answer that can't be counted isn't given: any of these records may be asked about from now on.
        self._count(kept, self._joined_of(caller, session_id).aligned)
        self._models.keep_candidate(kept)
        # Whose model is complete waits for nobody, and serves a successor of the active party as well.
        session.watch.stop()
        discloses = self._context.settings.disclose and training.agreement.serving.tells_owners
        self._record.note(
            remarks=remarks_of(training),
            discloses=discloses,
            skipped_steps=training.back.log.skipped or None,
            interruptions=dict(training.back.log.interruptions) or None,
            calibration=calibration_record(training.agreement, calibration),
        )
        self._record.finish(training.model.own_part)
        self._context.cores.forget()
        # After the answer: an attack that takes its time must not show.
        self.executor.submit(self._attack, training, session.rows).add_done_callback(log_failure)
        return training.models.constants

    def _attack(self, training: PartyTraining, rows: IntArray) -> None:
        adversary = self._context.adversary
        ids = None if adversary.is_idle else IdArray.of(self._data.ids).take(rows)
        adversary.attack(training, records=rows, ids=ids)

    def exchange_of(self, session_id: str, kind: type[E]) -> E:
        """Find the session's exchange, for messages of peers; raises OutOfOrder when there is none of this kind."""
        session = self._session
        if session is None or session.session_id != session_id or session.joined is None:
            raise OutOfOrder("No such session here: it has not begun, or another has taken its place.")
        return session.joined.training.exchange_as(kind)

    # -- prediction ------------------------------------------------------------------------------------------------

    def contribute_scores(
        self, caller: Identity, session_id: str, request_id: int, rows: Sequence[int], masked: bytes = b""
    ) -> bytes:
        """Send this party's partial scores of some aligned rows to the coordinator.

        Where weights stay shared, this takes the active party's masked products if this party holds its V, and returns
        its own: the same for the same request.
        """
        limits.check_count(rows, limits.PREDICTION_ROWS, "rows per request")
        model = self._answering(caller, session_id, rows)
        _log.info("Contributing to the scores of %d records.", len(rows))

        def once(draw: Callable[[], tuple[bytes, Residues]]) -> tuple[bytes, Residues]:
            content = [hashlib.sha256(one).digest() for one in (np.array(rows, dtype=np.int64).tobytes(), masked)]
            return self._asked((session_id, request_id), content, draw)

        serving = model.agreement.serving
        answer, products = serving.answer(model, rows, masked, self._context.defences, self._context.engine, once)
        share = model.share_of(rows, products)
        self._tally.answered(caller.name, "scores", len(rows), session_id)
        share = replace(share, submissions_seen=self._submissions.of_session(session_id))
        submissions = self._context.coordinator.submit_partial_scores(session_id, request_id, share)
        self._submissions.note(session_id, submissions)
        return answer

    def _answering(self, caller: Identity, session_id: str, rows: Sequence[int]) -> PartyModel:
        """Find what answers for rows of a session, its finished model or its training's between epochs; count it."""
        kept = self._models.of_session(session_id, caller.name)
        if kept is not None:
            self._count(kept)
            return kept.model
        joined = self._joined_of(caller, session_id)
        model = joined.training.model_for(rows)
        if joined.training.is_over:
            # It answers about all records, which are counted when it is kept: not before, nor where that has failed.
            raise OutOfOrder("Training has ended and its model isn't kept yet: finish the training first.")
        if (key := (session_id, model.digest)) not in self._counted:
            self._forms.count(model, joined.aligned, model.rows.validation)
            self._counted.add(key)
        return model

    def _count(self, kept: KeptModel, aligned: AlignedFeatures | None = None) -> None:
        """Count a finished model's forms of all of its records, once in a process; raises StateNotKept."""
        if (at := (kept.session_id, _FINISHED)) not in self._counted:
            aligned = aligned or self._data.aligned(kept.order, kept.model.agreement.plan)
            self._forms.count(kept.model, aligned, np.arange(len(kept.order)))
            self._counted.add(at)

    def disclose_parameters(self, caller: Identity, session_id: str) -> Part:
        """White box: this party's share of the model; raises OutOfOrder when it discloses nothing."""
        kept = self._models.of_session(session_id, caller.name)
        if kept is None:
            self._training_of(caller, session_id)
        if kept is not None and not kept.model.agreement.serving.tells_owners:
            why = "weights stay shared, so it doesn't know them"
            if kept.model.agreement.serving.name != SHARED:
                why = f"of protocol={kept.model.agreement.plan.protocol} they are disclosed to nobody"
            raise OutOfOrder(f"{self.name} discloses no parameters: {why}.")
        if not self._context.settings.disclose:
            raise OutOfOrder(f"{self.name} discloses no parameters (black box); its owner sets PLUMBLINE_DISCLOSE.")
        disclosed = self._models.disclosed(session_id, self._context.defences)
        if kept is None or disclosed is None:
            raise OutOfOrder("Training goes on: parameters are disclosed when it has ended.")
        self._count(kept)
        values = sum(array.size for array in disclosed.arrays().values())
        self._tally.answered(caller.name, "parameters", values, session_id)
        return disclosed

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
            self._end(session, OutOfOrder(one_line(reason)))

    def close(self) -> None:
        """End the session at work, if any, so that no thread waits for a peer when this process stops."""
        session, stopping = self._session, OutOfOrder(f"{self.name} is stopping.")
        if session is None:
            return
        if session.joined is not None and session.joined.training.can_wait:
            # Its next process goes on.
            self._wait(session, stopping, session.ending)
        else:
            self._end(session, stopping)

    def holds_session(self, session_id: str) -> bool:
        """Tell whether this party knows the session, ended or not: what peers ask who watch it.

        An ended one is known, so that nobody takes its end, which has its own words, for a restart of this process.
        """
        session = self._session
        return session is not None and session.session_id == session_id

    def _watch_of(self, session_id: str) -> PeerWatch:
        def lost(error: FederationError) -> None:
            session = self._session
            if session is not None and session.session_id == session_id:
                if session.joined is not None and session.joined.training.can_wait:
                    self._wait(session, error, session.ending)
                    return
                self._end(session, error)
                # Others may wait there for this session, until their time is up.
                # Where this process stops meanwhile, the coordinator hears of that instead.
                with suppress(RuntimeError):
                    self.executor.submit(self._tell_coordinator, session_id, told(error)).add_done_callback(log_failure)

        return PeerWatch(self._context.heartbeats, lost, step_timeout=self._context.settings.step_timeout)

    def _tell_coordinator(self, session_id: str, reason: str) -> None:
        try:
            self._context.coordinator.end_session(session_id, reason)
        except FederationError as error:
            _log.info("The coordinator could not be told: %s", error)

    def _wait(self, session: HeldSession, error: FederationError, ending: Ending) -> None:
        """Wait with a session until its active party says where to go on, unless it does already."""
        assert session.joined is not None  # noqa: S101 - who calls has asked
        with self._lock:
            if session.ending is not ending or session.ended is not None:
                return
            if session.waits_since is None:
                _log.warning("The training waits: %s", error)
            session.watch.stop()
            session.wait(Suspended(told(error)))
        session.joined.training.suspend(told(error))

    def _end(self, session: HeldSession, error: FederationError) -> None:
        session.watch.stop()
        session.end(error)
        session.psi.close()
        if session.joined is not None:
            session.joined.training.exchange.end(told(error))
            session.joined.training.back.forget()
        self._context.cores.forget()
        _log.info("Session ended: %s", error)

    def _session_of(self, caller: Identity, session_id: str) -> HeldSession:
        session = self._session
        if session is None or session.session_id != session_id:
            raise OutOfOrder("No such session here: it has not begun, or another has taken its place.")
        if caller.name != session.active:
            raise NotAllowed(f"{caller.name} is not this session's active party.")
        within = self._context.settings.resume_within
        if session.waits_since is not None and session.joined is not None:
            waited = session.joined.training.back.log.waited + time.time() - session.waits_since
            if waited > within:
                self._end(session, OutOfOrder(f"{self.name} has waited for {within:g} s (PLUMBLINE_RESUME_WITHIN)."))
        if session.ended is not None:
            raise OutOfOrder(f"The session has ended: {session.ended}")
        return session

    def _training_of(self, caller: Identity, session_id: str) -> PartyTraining:
        return self._joined_of(caller, session_id).training

    def _joined_of(self, caller: Identity, session_id: str) -> PartySession:
        joined = self._session_of(caller, session_id).joined
        if joined is None:
            raise OutOfOrder("Join the session first.")
        return joined
