"""One job of the active party: align, agree, train, choose the epoch, test. Opens no connection."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from services.active.interfaces import EpochOutcome, JobObserver, JobOutcome, PassiveParty
from services.active.progress import AlignmentProgress
from services.active.scoring import Scoring, first_failure
from services.common.agreement import ProposedTerms, TrainingPlan
from services.common.alignment import alignment_context, alignment_refusals
from services.common.errors import InvalidMessage, described, is_expected, log_unexpected
from services.common.identity import Role
from services.common.meters import StageTimer
from services.common.run_records import DeliveredScores, EpochRecord
from services.party.consent import check_as_opened
from services.party.context import Coordinator, PartyContext
from services.party.ending import Ending
from services.party.party_training import PartyTraining
from services.party.peer_watch import PeerWatch
from services.party.session import PartySession, join
from vfl.arrays import FloatArray, IntArray
from vfl.data import BlindedIds, PsiClient, rows_in_common_order
from vfl.data.id_array import IdArray
from vfl.learning import log_loss
from vfl.learning.score_quality import ScoreQuality

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
        test_answers: what this party was told of the test rows, (test rows, outputs), once it has tested.
        quality: what they are worth; None without test rows.
    """

    def __init__(
        self,
        context: PartyContext,
        passive_parties: Mapping[str, PassiveParty],
        labels: Labels,
        scoring: Scoring,
        observer: JobObserver,
    ) -> None:
        self.session_id = ""
        self.session: PartySession | None = None
        self.order: IntArray = np.empty(0, dtype=np.int64)
        self.test_answers: FloatArray | None = None
        self.quality: ScoreQuality | None = None
        self._context = context
        self._data = context.data
        self._coordinator = context.coordinator
        self._record = context.record
        self._executor = context.executor
        self._passive_parties = dict(passive_parties)
        self._labels = labels
        self._scoring = scoring
        self._ending = Ending()
        self._finished = threading.Event()
        self._observer = _Guarded(observer, self._ending)
        self._watch = PeerWatch(context.heartbeats, self.interrupt, step_timeout=context.settings.step_timeout)

    def run(self, plan: TrainingPlan) -> JobOutcome:
        """Open a session, align, agree, train and test; raises what goes wrong, and leaves the session open then."""
        return self.while_open(lambda: self._run(plan))

    def while_open(self, work: Callable[[], T]) -> T:
        """Do what belongs to this job on another thread; raises why it was interrupted, as soon as it is."""
        return self._ending.for_result(self._executor, work)

    def interrupt(self, error: Exception) -> None:
        """End the job before its time: ``run`` raises ``error``, whatever it waits for or computes.

        Changes nothing from ``commit`` on.
        """
        self._ending.end(error)

    def commit(self) -> None:
        """The point of no return: its model is about to be served. Raises why it was interrupted, if it was."""
        self._ending.finish()

    @property
    def is_committed(self) -> bool:
        """Whether nothing can end it before its time any more."""
        return self._ending.is_finished

    def _interrupt_after(self, call: Future[None]) -> None:
        """A passive party that stops ends the job in its own words: nobody waits for its next message."""
        if call.cancelled() or (error := call.exception()) is None:
            return
        if not is_expected(error):
            log_unexpected(error)
        self.interrupt(error if isinstance(error, Exception) else RuntimeError(type(error).__name__))

    def _run(self, plan: TrainingPlan) -> JobOutcome:
        classes, passive = len(self._labels.class_names), tuple(self._passive_parties)
        self.session_id = self._coordinator.open_session(plan, classes, passive)
        terms = ProposedTerms(self.session_id, self._context.name, passive, plan, classes)
        self._watch.start(self.session_id, (Role.COORDINATOR, *self._passive_parties))
        self._observer.stage("aligning")
        rows = self._align()
        self._observer.stage("agreeing")
        training = self._agree(terms, rows)
        if not plan.family.spec.trains:
            outcome = JobOutcome(self.session_id, len(rows), 0, 0)
        else:
            self._observer.stage("training")
            outcome = self._train_epochs(training)
        self._observer.stage("testing")
        self._test(training)
        return outcome

    def end(self, reason: str) -> None:
        """End the session at every party that can be reached, and free who waits in it."""
        self._watch.stop()
        if self.session is not None:
            self.session.training.exchange.end(reason)
        if not self.session_id:
            return
        others = (self._coordinator, *self._passive_parties.values())
        # All at once: one that doesn't answer must not keep the others waiting.
        with ThreadPoolExecutor(len(others), thread_name_prefix="ending") as telling:
            list(telling.map(lambda other: self._tell_end(other, reason), others))

    def _tell_end(self, other: Coordinator | PassiveParty, reason: str) -> None:
        """Tell another party that the session has ended. One that can't be told notices by itself."""
        try:
            other.end_session(self.session_id, reason)
        except Exception as unreachable:
            _log.warning("Could not end the session everywhere: %s", described(unreachable))

    def finish(self) -> None:
        """The job is over: its peers may come and go, and ``await_finish`` returns."""
        self._watch.stop()
        self._finished.set()

    def await_finish(self, seconds: float) -> bool:
        """Wait until the job is over and the others have been told, but no longer than this; returns whether it is."""
        return self._finished.wait(seconds)

    def _align(self) -> IntArray:
        """Intersect ids with each passive party in turn, each time with what is left, and fix the common order."""
        own = IdArray.of(self._data.ids)
        rows = np.arange(len(own))
        progress = AlignmentProgress(self._observer.step, len(own), len(self._passive_parties))
        with alignment_refusals():
            for name in self._passive_parties:
                rows = rows_in_common_order(own, rows[self._common_with(name, own.take(rows), progress)])
        common = own.take(rows)
        self._for_all_passive(lambda party: party.fix_order(self.session_id, common))
        self.order = rows
        return self.order

    def _common_with(self, name: str, ids: IdArray, progress: AlignmentProgress) -> IntArray:
        """Which of these ids a passive party has too: their places."""
        party = self._passive_parties[name]
        client = PsiClient(ids, alignment_context(self.session_id, name), self._context.cores)
        with closing(client):
            with self._open(party.set_up_alignment(self.session_id, len(ids))) as setup:
                client.receive_setup(progress.setup_of(setup, len(ids)))
            request = progress.counted(client.request())
            with self._open(party.align(self.session_id, request, len(ids))) as response:
                return client.common_rows(progress.counted(response.chunks))

    @contextmanager
    def _open(self, stream: BlindedIds) -> Iterator[BlindedIds]:
        """A stream of blinded ids that ends with the job, whether the other side goes on with it or not."""
        with stream, self._ending.cancelling(stream.close):
            yield replace(stream, chunks=self._ending.guarded(stream.chunks))

    def _agree(self, terms: ProposedTerms, rows: IntArray) -> PartyTraining:
        labels = self._labels.indices[rows]
        if len(np.unique(labels)) < 2:
            raise InvalidMessage("The aligned records have labels of one class only: nothing can be learned from them.")

        others = [self._executor.submit(party.join, self.session_id) for party in self._passive_parties.values()]
        for other in others:
            other.add_done_callback(self._interrupt_after)
        joined = join(self._context, terms, rows)
        first_failure(others)
        check_as_opened(joined.agreement, terms)
        self._ending.check()
        self.session = PartySession.open(self._context, joined, labels, self._labels.trained[rows])
        self._note_terms(self.session)
        training = self.session.training
        training.show_public_key()
        self._for_all_passive(lambda party: party.show_public_key(self.session_id))
        return training

    def _note_terms(self, session: PartySession) -> None:
        plan, settings = session.agreement.plan, self._context.settings
        self._record.note(
            warnings=list(session.terms_warnings),
            simulation=[*self._data.simulation, *([_INSTALLED] if not plan.family.spec.trains else [])],
            class_names=list(self._labels.class_names),
            transport=settings.transport,
            attacks=list(settings.attacks),
            epochs=[],
            kept_epoch=0,
        )

    def _train_epochs(self, training: PartyTraining) -> JobOutcome:
        plan = training.agreement.plan
        outcomes: list[EpochOutcome] = []
        best: int | None = None
        for epoch in range(plan.epochs):
            outcome = self._train_epoch(training, epoch)
            outcomes.append(outcome)
            self._observer.epoch(outcome)
            if math.isnan(outcome.validation_loss):
                continue
            if best is None or outcome.validation_loss < outcomes[best].validation_loss:
                best = epoch
            if plan.patience and epoch - best >= plan.patience:
                _log.info("No better validation loss for %d epochs: stopping.", plan.patience)
                break
        kept = best if plan.patience and best is not None else len(outcomes) - 1
        finishing = [
            self._executor.submit(party.finish_training, self.session_id, kept)
            for party in self._passive_parties.values()
        ]
        if training.agreement.validates_on_shares:
            # Weights are opened now, at all parties at once.
            for one in finishing:
                one.add_done_callback(self._interrupt_after)
            training.keep_epoch(kept)
        first_failure(finishing)
        self._ending.check()
        training.keep_epoch(kept)
        if not self._context.adversary.is_idle:
            self._observer.stage("attacking")
            self._context.adversary.attack(
                training, self._observer.step, ids=IdArray.of(self._data.ids).take(self.order)
            )
        self._record.note(
            epochs=tuple(EpochRecord(**vars(outcome)) for outcome in outcomes),
            kept_epoch=kept,
            remarks=training.remarks,
            validation_rows=len(training.rows.validation),
        )
        return JobOutcome(self.session_id, len(self.order), len(outcomes), kept)

    def _train_epoch(self, training: PartyTraining, epoch: int) -> EpochOutcome:
        steps = training.schedule.steps_per_epoch
        planned = training.agreement.plan.epochs * steps

        def on_step(step: int, timer: StageTimer) -> None:
            # An interrupted job may take long to notice, and another's record may have begun.
            self._ending.check()
            self._record.add_step(step, timer.seconds)
            self._observer.step(step + 1, planned)

        start = time.perf_counter()
        others = [
            self._executor.submit(party.run_epoch, self.session_id, epoch, steps)
            for party in self._passive_parties.values()
        ]
        for other in others:
            other.add_done_callback(self._interrupt_after)
        # When this party fails, its own error says why, and the end of the session frees the others.
        training.run_epoch(epoch, on_step)
        first_failure(others)
        seconds = time.perf_counter() - start
        is_validated = training.agreement.validates(epoch)
        return EpochOutcome(epoch, self._validation_loss(training) if is_validated else math.nan, seconds)

    def _validation_loss(self, training: PartyTraining) -> float:
        if training.agreement.validates_on_shares:
            return training.shared_loss
        rows = training.rows.validation
        if not len(rows):
            return math.nan
        return log_loss(self._asked(training, rows)[1], training.model.labels_of(rows))

    def _test(self, training: PartyTraining) -> None:
        """Score the test rows over the session and write them, with the labels, to this party's own folder."""
        rows = training.rows.test
        self.test_answers, scores = self._asked(training, rows)
        labels = training.model.labels_of(rows)
        self._ending.check()
        self.quality = ScoreQuality.of(scores, labels)
        self._record.finish(training.model.part, DeliveredScores(rows, scores, labels))

    def _asked(self, training: PartyTraining, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """What this party is told of some rows, and their confidence scores."""
        asked = rows.tolist()
        model = training.model_for(asked) if asked else training.model
        answers = self._scoring.answers(model, asked)
        return answers, model.scores_of(answers, len(asked))

    def _for_all_passive(self, action: Callable[[PassiveParty], None]) -> None:
        first_failure([self._executor.submit(action, party) for party in self._passive_parties.values()])


class _Guarded:
    """A job's observer that hears no more of it once it was interrupted."""

    def __init__(self, observer: JobObserver, ending: Ending) -> None:
        self._observer = observer
        self._ending = ending

    def stage(self, name: str) -> None:
        with self._ending.while_open():
            self._observer.stage(name)

    def step(self, done: int, planned: int, what: str = "") -> None:
        with self._ending.while_open():
            self._observer.step(done, planned, what)

    def epoch(self, outcome: EpochOutcome) -> None:
        with self._ending.while_open():
            self._observer.epoch(outcome)
