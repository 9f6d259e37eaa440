"""One job of the active party: align, agree, train, choose the epoch, test. Opens no connection."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from services.active.aligning import Aligning
from services.active.gathering import Gathering, Waiting
from services.active.interfaces import EpochOutcome, JobObserver, JobOutcome, PassiveParty
from services.active.outcomes import JobOutcomes
from services.active.progress import Observers
from services.active.scoring import Scoring, first_failure
from services.common.agreement import ProposedTerms, TrainingPlan
from services.common.errors import (
    FederationError,
    InvalidMessage,
    described,
    is_expected,
    is_interruption,
    log_unexpected,
    told,
)
from services.common.identity import Role
from services.common.meters import StageTimer
from services.party.calibrating import count_slope
from services.party.consent import check_as_opened
from services.party.context import Coordinator, PartyContext
from services.party.ending import Ending
from services.party.equation_count import EquationCount
from services.party.lasting_batches import SessionBatches
from services.party.party_training import PartyTraining
from services.party.peer_watch import PeerWatch
from services.party.session import PartySession, join, rejoined
from services.party.training_log import KeptTraining
from vfl.arrays import IntArray
from vfl.data.id_array import IdArray
from vfl.data.labels import NO_LABEL
from vfl.learning.calibration import UNCALIBRATED

T = TypeVar("T")

_log = logging.getLogger(__name__)

_INSTALLED = "The model was trained in one place, on both parties' data, and installed; nothing was trained here."


@dataclass(frozen=True)
class Labels:
    """The active party's labels.

    Attributes:
        indices: class indices, one per record of its table.
        class_names: by class index.
        trained: what is trained on in place of the indices, which scores are judged by all the same.
    """

    indices: IntArray
    class_names: tuple[str, ...]
    trained: IntArray


class Job:
    """One run from an open session to tested scores. Used once, by one thread; ``interrupt`` and ``end`` by any.

    Attributes:
        session_id: of the session that it opened, empty before.
        session: this party's part, from the agreement on.
        order: this party's own row numbers in the common order, once it is aligned.
        outcomes: what its training and its test came to.
        gathering: of its parties, after interruptions.
        ending: ends the job before its time, whatever it waits for or computes; finished once its model is about to be
            served, which nothing can end any more.
        observer: is told of its stages, steps and epochs until it is interrupted.
    """

    def __init__(
        self,
        context: PartyContext,
        passive_parties: Mapping[str, PassiveParty],
        labels: Labels,
        scoring: Scoring,
        observers: Sequence[JobObserver],
        equation_count: EquationCount,
    ) -> None:
        self.session_id = ""
        self.session: PartySession | None = None
        self.order: IntArray = np.empty(0, dtype=np.int64)
        self._context = context
        self._executor = context.executor
        self._passive_parties = dict(passive_parties)
        self._labels = labels
        self._told = equation_count
        self.ending = Ending()
        # Of the training from one interruption to the next; None while nothing could go on after one.
        self._round: Ending | None = None
        self._first_step = 0
        # Whether parties have keys that they haven't shown yet, as after an interruption.
        self._shows_keys = False
        self.outcomes = JobOutcomes(context, scoring)
        self.gathering = Gathering(context, self._passive_parties, self.ending)
        self._finished = threading.Event()
        self.observer = Observers(self.ending, observers)
        self._watch = self._new_watch()

    def _new_watch(self) -> PeerWatch:
        def lost(error: FederationError) -> None:
            self._lose(error, self._round)

        return PeerWatch(self._context.heartbeats, lost, step_timeout=self._context.settings.step_timeout)

    @classmethod
    def interrupted(cls, job: "Job", interrupted_training: KeptTraining) -> "Job":
        """Take up a job that a process before this one was at work in; ``go_on`` does the rest of it."""
        context, labels, rows = job._context, job._labels, interrupted_training.terms.order
        job.order, job.session = (
            rows,
            PartySession.open(
                context,
                rejoined(context, interrupted_training),
                labels.indices[rows],
                labels.trained[rows],
                kept=interrupted_training.log,
            ),
        )
        job.session_id = job.session.agreement.session_id
        job.outcomes.take_up(job.session_id)
        job.gathering.waiting = Waiting((), time.time())
        return job

    @property
    def interruptions(self) -> int:
        """After how many interruptions its training has gone on."""
        return 0 if self.session is None else sum(self.session.training.back.log.interruptions.values())

    @property
    def can_wait(self) -> bool:
        """Whether it is in a training that goes on after an interruption."""
        return self.session is not None and self.session.training.can_wait

    def while_open(self, work: Callable[[], T]) -> T:
        """Do what belongs to this job on another thread; raises why it was interrupted, as soon as it is."""
        return self.ending.for_result(self._executor, work)

    def _interrupt_after(self, call: Future[Any], training_round: Ending | None = None) -> None:
        """End the job in the words of a passive party that stops: nobody waits for its next message."""
        if call.cancelled() or (error := call.exception()) is None:
            return
        if not is_expected(error):
            log_unexpected(error)
        self._lose(error if isinstance(error, Exception) else RuntimeError(type(error).__name__), training_round)

    def _lose(self, error: Exception, training_round: Ending | None) -> None:
        """Note a party as lost: the job ends, unless it can wait for it; then only what goes on until then does."""
        if training_round is not None and is_interruption(error):
            training_round.end(error)
        else:
            self.ending.end(error)

    def run(self, plan: TrainingPlan) -> JobOutcome:
        """Open a session, align, agree, train and test; raises what goes wrong, and leaves the session open then."""
        classes, passive = len(self._labels.class_names), tuple(self._passive_parties)
        self.session_id = self._context.coordinator.open_session(plan, classes, passive)
        terms = ProposedTerms(self.session_id, self._context.name, passive, plan, classes)
        self._watch.start(self.session_id, (Role.COORDINATOR, *self._passive_parties))
        self.observer.stage("aligning")
        batches = self._align(terms)
        self.observer.stage("agreeing")
        training = self._agree(terms, batches)
        if not plan.family.spec.trains:
            outcome = JobOutcome(self.session_id, len(self.order), 0, 0)
        else:
            self.observer.stage("training")
            outcome = self._train(training) if training.can_wait else self._train_epochs(training)
        return self._tested(training, outcome)

    def _tested(self, training: PartyTraining, outcome: JobOutcome) -> JobOutcome:
        self.observer.stage("testing")
        self.outcomes.test(training, self.ending.check)
        return outcome

    def go_on(self) -> JobOutcome:
        """Do the rest of an interrupted job, when all parties are back; raises as ``run``."""
        assert self.session is not None  # noqa: S101 - an interrupted job has it
        training = self.session.training
        self.observer.stage("training")
        _note_terms(self._context, self.session, self._labels)
        self._await_all(training, time.time())
        return self._tested(training, self._train(training))

    def _train(self, training: PartyTraining) -> JobOutcome:
        """Train to the end. Whenever a party is lost on the way, wait until all are there, and go on."""
        while True:
            self._round = training_round = self._round or Ending()
            working = self._executor.submit(self._train_epochs, training)
            try:
                outcome = training_round.for_future(working)
                self._round = None
                return outcome
            except FederationError as error:
                if not (is_interruption(error) and training.can_wait):
                    raise
                since = time.time()
                _log.warning("The training waits: %s", error)
                self._watch.stop()
                training.suspend(told(error))
                training_round.end(error)
                # What is left of it must change nothing from here on.
                wait([working])
                if not training.can_wait:
                    # Its last step was done meanwhile, and weights may be told: nobody goes back from there.
                    raise
            self._await_all(training, since)

    def _await_all(self, training: PartyTraining, since: float) -> None:
        """Wait until every party is there, and stand where all can go on."""
        resumption = self.gathering.await_all(training, since)
        # An epoch whose last step is done again is another one.
        del self.outcomes.epochs[training.epochs_done :]
        self._first_step = resumption.step
        self._round, self._watch = Ending(), self._new_watch()
        self._watch.start(self.session_id, (Role.COORDINATOR, *self._passive_parties))
        self._shows_keys = True
        _log.info("All parties are back: the training goes on from step %d.", resumption.step)
        self.gathering.waiting = None

    def end(self, reason: str) -> None:
        """End the session at every party that can be reached, and free who waits in it."""
        self._watch.stop()
        if self.session is not None:
            self.session.training.exchange.end(reason)
        if not self.session_id:
            return
        parties = (self._context.coordinator, *self._passive_parties.values())
        # All at once: one that doesn't answer must not keep the others waiting.
        with ThreadPoolExecutor(len(parties), thread_name_prefix="ending") as telling:
            list(telling.map(lambda other: self._tell_end(other, reason), parties))

    def stop(self) -> None:
        """Free who waits in it, and tell nobody that it has ended: the next process goes on."""
        self._watch.stop()
        if self.session is not None:
            self.session.training.suspend("the active party is stopping.")

    def _tell_end(self, other: Coordinator | PassiveParty, reason: str) -> None:
        """Tell another party that the session has ended. One that can't be told notices by itself."""
        try:
            other.end_session(self.session_id, reason)
        except Exception as unreachable:
            _log.warning("Could not end the session everywhere: %s", described(unreachable))

    def finish(self) -> None:
        """End the job: its peers may come and go, and ``await_finish`` returns."""
        self._watch.stop()
        self._finished.set()

    def await_finish(self, seconds: float) -> bool:
        """Wait until the job is over and the others have been told, but no longer than this; returns whether it is."""
        return self._finished.wait(seconds)

    def _align(self, terms: ProposedTerms) -> SessionBatches | None:
        """Intersect ids with the passive parties, and fix the common order of rows, and in which batch each is."""
        aligning = Aligning(self._context, self._passive_parties, terms, self.ending, self.observer.step)
        self.order, batches = aligning.align(self._labels.indices)
        common, told_batches = IdArray.of(self._context.data.ids).take(self.order), aligning.told(batches)
        self._for_all_passive(lambda party: party.fix_order(self.session_id, common, told_batches))
        return batches

    def _agree(self, terms: ProposedTerms, batches: SessionBatches | None) -> PartyTraining:
        rows = self.order
        labels = self._labels.indices[rows]
        if len(np.unique(labels[labels != NO_LABEL])) < 2:
            raise InvalidMessage("The aligned records have labels of one class only: nothing can be learned from them.")
        calls = [self._executor.submit(party.join, self.session_id) for party in self._passive_parties.values()]
        for other in calls:
            other.add_done_callback(self._interrupt_after)
        joined_session = join(self._context, terms, rows, batches=batches)
        first_failure(calls)
        check_as_opened(joined_session.agreement, terms)
        self.ending.check()
        self.session = PartySession.open(
            self._context, joined_session, labels, self._labels.trained[rows], count=self._told
        )
        _note_terms(self._context, self.session, self._labels)
        self.session.remember()
        training = self.session.training
        self._show_keys(training)
        return training

    def _show_keys(self, training: PartyTraining) -> None:
        training.side.show_public_key()
        self._for_all_passive(lambda party: party.show_public_key(self.session_id))
        self._shows_keys = False

    def _train_epochs(self, training: PartyTraining) -> JobOutcome:
        plan = training.agreement.plan
        outcomes, training_round, attempt = self.outcomes, self._round, training.back.log.attempt
        while not outcomes.are_enough(plan):
            outcome = self._train_epoch(training, len(outcomes.epochs), attempt)
            if training_round is not None:
                training_round.check()
            outcomes.add(training, outcome)
            self.observer.epoch(outcome)
        kept_epoch = outcomes.kept_epoch(plan)
        calibration = outcomes.calibrations.get(kept_epoch) or UNCALIBRATED
        count_slope(training.agreement, training.name, training.setting.means.ledger)
        finishing = [
            self._executor.submit(party.finish_training, self.session_id, kept_epoch, calibration.step)
            for party in self._passive_parties.values()
        ]
        if training.side.validated_loss is not None:
            # An epoch was chosen on shares: weights are opened now, by all parties at once.
            for call in finishing:
                call.add_done_callback(lambda call: self._interrupt_after(call, training_round))
            training.end_with(kept_epoch)
        first_failure(finishing)
        self.ending.check()
        training.models.take_constants([one.result() for one in finishing])
        training.keep_epoch(kept_epoch, calibration)
        if not self._context.adversary.is_idle:
            self.observer.stage("attacking")
            self._context.adversary.attack(
                training, self.observer.step, ids=IdArray.of(self._context.data.ids).take(self.order)
            )
        outcomes.note(training, kept_epoch)
        return JobOutcome(self.session_id, len(self.order), len(outcomes.epochs), kept_epoch)

    def _train_epoch(self, training: PartyTraining, epoch: int, attempt: int) -> EpochOutcome:
        steps = training.schedule.steps_per_epoch
        planned = training.agreement.plan.epochs * steps

        training_round = self._round

        def on_step(step: int, timer: StageTimer) -> None:
            # An interrupted job may take long to notice, and another's record may have begun.
            self.ending.check()
            if training_round is not None:
                training_round.check()
            self._context.record.add_step(step, timer.seconds)
            self.observer.step(step + 1, planned)

        start = time.perf_counter()
        # Its steps may be over, and only its validation cut off.
        if epoch >= training.epochs_done:
            if self._shows_keys:
                self._show_keys(training)
            calls = [
                self._executor.submit(party.run_epoch, self.session_id, epoch, steps, self._first_step, attempt)
                for party in self._passive_parties.values()
            ]
            for other in calls:
                other.add_done_callback(lambda call: self._interrupt_after(call, training_round))
            # When this party fails, its own error says why, and the end of the session frees the others.
            training.run_epoch(epoch, on_step, attempt)
            first_failure(calls)
        seconds = time.perf_counter() - start
        return EpochOutcome(epoch, self.outcomes.validation_loss(training, epoch), seconds)

    def forget_training(self) -> None:
        """Keep nothing of its training any more: it is over, or has ended."""
        if self.session is not None:
            self.session.training.back.forget()

    def _for_all_passive(self, action: Callable[[PassiveParty], None]) -> None:
        first_failure([self._executor.submit(action, party) for party in self._passive_parties.values()])


def _note_terms(context: PartyContext, session: PartySession, labels: Labels) -> None:
    plan, settings = session.agreement.plan, context.settings
    context.record.note(
        warnings=list(session.terms_warnings),
        simulation=[*context.data.simulation, *([_INSTALLED] if not plan.family.spec.trains else [])],
        class_names=list(labels.class_names),
        transport=settings.transport,
        attacks=list(settings.attacks),
        epochs=[],
        kept_epoch=0,
    )
