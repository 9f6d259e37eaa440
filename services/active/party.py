"""The active party's state and its job: align, agree, train, choose the epoch, predict. Opens no connection."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

import numpy as np

from attacks import AuxiliaryRows
from services.active.interfaces import EpochOutcome, JobObserver, JobOutcome, PassiveParty
from services.adversary.predictions import AttackHost, Knowledge
from services.common.agreement import TrainingPlan
from services.common.alignment import alignment_context, alignment_refusals
from services.common.errors import (
    InvalidMessage,
    OutOfOrder,
    UnknownRecord,
    described,
    is_expected,
    log_failure,
    log_unexpected,
    told,
)
from services.common.meters import StageTimer
from services.common.run_records import EpochRecord
from services.common.wire import PREDICTION_ROWS
from services.party.consent import check_proposal
from services.party.context import PartyContext
from services.party.party_training import PartyTraining
from services.party.session import PartySession, join
from services.protocol1.exchange import GradientExchange
from vfl.arrays import FloatArray, IntArray
from vfl.data import PsiClient, Table, common_order, encode_labels, rows_of
from vfl.learning import log_loss

_log = logging.getLogger(__name__)


class ActiveParty:
    """Runs one job at a time and predicts with the last one that finished. Thread-safe.

    Attributes:
        labels: class indices, one per record of the own table.
        class_names: by class index.
        stage: idle, failed, or what the job is doing; serving when it has finished.
        failure: why the last job failed, in words that others may read. Empty when it didn't.
        executor: threads for jobs.
    """

    def __init__(
        self,
        context: PartyContext,
        passive_parties: Mapping[str, PassiveParty],
        attack_host: AttackHost,
        auxiliary: Table | None = None,
    ) -> None:
        """Hold the labels of ``context.data`` and the ways to the passive parties, by name.

        Args:
            context: what this party works with.
            passive_parties: the ways to them, by name.
            attack_host: runs the attacks on scores.
            auxiliary: complete records that this party holds besides, for attacks.

        Raises:
            ValueError: when the table has no labels.
        """
        if context.data.labels is None:
            raise ValueError("The active party holds the labels: set PLUMBLINE_LABEL_COLUMN.")
        self.labels, self.class_names = encode_labels(context.data.labels)
        self.stage = "idle"
        self.failure = ""
        self.executor = context.executor
        self._context = context
        self._data = context.data
        self._coordinator = context.coordinator
        self._record = context.record
        self._passive_parties = dict(passive_parties)
        self._attack_host = attack_host
        self._auxiliary = auxiliary
        self._knowledge: Knowledge | None = None
        self._attacking = ThreadPoolExecutor(max_workers=1, thread_name_prefix="attacks")
        self._job_lock = threading.Lock()
        self._request_lock = threading.Lock()
        self._request_id = 0
        self._session: PartySession | None = None
        self._row_of_id: dict[str, int] = {}

    @property
    def session_id(self) -> str:
        """The id of the session at work, empty without one."""
        training = self._training
        return training.agreement.session_id if training else ""

    @property
    def warnings(self) -> list[str]:
        """What the session at work leaves unprotected, in plain words for the operator."""
        session = self._session
        return [*session.terms_warnings, *session.guard_warnings] if session else []

    @property
    def _training(self) -> PartyTraining | None:
        session = self._session
        return session.training if session else None

    # -- the job ---------------------------------------------------------------------------------------------------

    def train(self, plan: TrainingPlan, observer: JobObserver) -> JobOutcome:
        """Run a whole job. Any failure ends the session at every party and is raised. The service goes on."""
        if not self._job_lock.acquire(blocking=False):
            raise OutOfOrder("A job is running already: wait for its end.")
        session_id = ""
        try:
            self.failure = ""
            self._session = self._knowledge = None
            session_id = self._coordinator.open_session(plan, len(self.class_names), tuple(self._passive_parties))
            self._begin("aligning", observer)
            rows = self._align(session_id, observer)
            self._begin("agreeing", observer)
            training = self._agree(session_id, rows, plan)
            if plan.installed_model:
                outcome = JobOutcome(session_id, len(rows), 0, 0)
            else:
                self._begin("training", observer)
                outcome = self._train_epochs(training, observer)
            self._begin("testing", observer)
            scores = self._test(training)
            if not self._attack_host.is_idle:
                self._begin("attacking", observer)
                self._prepare_attacks(training)
                self._attack(training.rows.test.tolist(), scores)
            self._begin("serving", observer)
            return outcome
        except Exception as error:
            self._fail(session_id, error)
            raise
        finally:
            self._job_lock.release()

    def _begin(self, stage: str, observer: JobObserver) -> None:
        self.stage = stage
        _log.info("Stage: %s.", stage)
        observer.stage(stage)

    def _align(self, session_id: str, observer: JobObserver) -> IntArray:
        """Intersect ids with each passive party in turn, each time with what is left, and fix the common order."""
        remaining: Sequence[str] = self._data.ids
        planned = 2 * len(self._passive_parties)
        for turn, (name, party) in enumerate(self._passive_parties.items()):
            with alignment_refusals():
                client = PsiClient(remaining, alignment_context(session_id, name))
                with party.set_up_alignment(session_id, len(remaining)) as setup:
                    client.receive_setup(setup)
                observer.step(2 * turn + 1, planned)
                with party.align(session_id, client.request(), len(remaining)) as response:
                    remaining = common_order(client.intersect(response.chunks))
            observer.step(2 * turn + 2, planned)
        self._for_all_passive(lambda party: party.fix_order(session_id, remaining))
        self._row_of_id = {record: row for row, record in enumerate(remaining)}
        return rows_of(self._data.ids, remaining)

    def _agree(self, session_id: str, rows: IntArray, proposed: TrainingPlan) -> PartyTraining:
        if len(np.unique(self.labels[rows])) < 2:
            raise InvalidMessage("The aligned records have labels of one class only: nothing can be learned from them.")

        def end_when_refused(joining: Future[None]) -> None:
            """A passive party that doesn't join ends the session: nobody waits for it until the timeout."""
            if error := joining.exception():
                self._coordinator.end_session(session_id, _logged_and_told(error))

        joining = [self.executor.submit(party.join, session_id) for party in self._passive_parties.values()]
        for joined in joining:
            joined.add_done_callback(end_when_refused)
        agreement = join(self._context, session_id, rows)
        _first_failure(joining)
        check_proposal(agreement, proposed)
        session = PartySession.open(self._context, agreement, rows, self.labels[rows])
        training, plan = session.training, session.agreement.plan
        self._record.note(
            warnings=list(session.terms_warnings),
            simulation=[*self._data.simulation, *([_INSTALLED] if plan.installed_model else [])],
            class_names=list(self.class_names),
            transport=self._context.settings.transport,
            attacks=list(self._context.settings.attacks),
            epochs=[],
            kept_epoch=0,
        )
        self._session = session
        training.show_public_key()
        self._for_all_passive(lambda party: party.show_public_key(session_id))
        return training

    def _train_epochs(self, training: PartyTraining, observer: JobObserver) -> JobOutcome:
        plan, session_id = training.agreement.plan, training.agreement.session_id
        planned = plan.epochs * training.schedule.steps_per_epoch
        outcomes: list[EpochOutcome] = []
        best = 0

        def on_step(step: int, timer: StageTimer) -> None:
            self._record.add_step(step, timer.seconds)
            observer.step(step + 1, planned)

        for epoch in range(plan.epochs):
            start = time.perf_counter()
            others = [
                self.executor.submit(party.run_epoch, session_id, epoch) for party in self._passive_parties.values()
            ]
            for other in others:
                other.add_done_callback(lambda done: self._end_after(done, training))
            # When this party fails, its own error says why, and the end of the session frees the others.
            training.run_epoch(epoch, on_step)
            _first_failure(others)
            seconds = time.perf_counter() - start
            outcome = EpochOutcome(epoch, self._validation_loss(training), seconds)
            outcomes.append(outcome)
            observer.epoch(outcome)
            if outcome.validation_loss < outcomes[best].validation_loss:
                best = epoch
            if plan.patience and epoch - best >= plan.patience:
                _log.info("No better validation loss for %d epochs: stopping.", plan.patience)
                break
        kept = best if plan.patience else len(outcomes) - 1
        self._for_all_passive(lambda party: party.finish_training(session_id, kept))
        training.keep_epoch(kept)
        self._context.adversary.attack(training)
        self._record.note(
            epochs=tuple(EpochRecord(**vars(outcome)) for outcome in outcomes),
            kept_epoch=kept,
            validation_rows=len(training.rows.validation),
        )
        return JobOutcome(session_id, len(self._row_of_id), len(outcomes), kept)

    @staticmethod
    def _end_after(epoch_of_other: Future[None], training: PartyTraining) -> None:
        """When a passive party stops in mid-epoch, don't wait for its next message until the timeout."""
        if error := epoch_of_other.exception():
            training.exchange.end(_logged_and_told(error))

    def _validation_loss(self, training: PartyTraining) -> float:
        rows = training.rows.validation
        if not len(rows):
            return math.nan
        return log_loss(self._scores(training, rows.tolist()), training.labels_of(rows))

    def _test(self, training: PartyTraining) -> FloatArray:
        """Score the test rows over the session and write them, with the labels, to this party's own record."""
        rows = training.rows.test
        scores = self._scores(training, rows.tolist())
        self._record.note(
            test_rows=rows.tolist(), test_scores=scores.tolist(), test_labels=training.labels_of(rows).tolist()
        )
        self._record.finish(training.weights, self._data.feature_names)
        return scores

    def _prepare_attacks(self, training: PartyTraining) -> None:
        """Collect what the passive parties disclose. One that discloses nothing makes it a black box."""
        session_id = training.agreement.session_id
        parts = [party.disclose_parameters(session_id) for party in self._passive_parties.values()]
        disclosed = tuple(part for part in parts if part is not None)
        self._knowledge = Knowledge(training, disclosed if len(disclosed) == len(parts) else None)
        if self._auxiliary is not None:
            self._knowledge = replace(
                self._knowledge, auxiliary=self._query_auxiliary(self._knowledge, self._auxiliary)
            )
        _log.info("White box." if self._knowledge.disclosed is not None else "Black box: nothing is disclosed.")
        self._attack_host.begin()

    def _query_auxiliary(self, knowledge: Knowledge, known: Table) -> AuxiliaryRows:
        """Ask for the scores of the auxiliary records, as an active party may for any aligned one."""
        ids = [record for record in known.ids if record in self._row_of_id]
        if not ids:
            raise InvalidMessage("None of the auxiliary records is aligned: PLUMBLINE_AUXILIARY needs common ids.")
        rows = [self._row_of_id[record] for record in ids]
        return AuxiliaryRows(
            features_active=knowledge.own_features(np.array(rows)),
            features_passive=known.features[rows_of(known.ids, ids)],
            scores=self._scores(knowledge.training, rows),
        )

    def _attack(self, rows: Sequence[int], scores: FloatArray) -> None:
        if self._knowledge is not None and len(rows):
            self._attack_host.attack(self._knowledge, rows, scores)

    def _fail(self, session_id: str, error: Exception) -> None:
        self.stage = "failed"
        self.failure = told(error)
        if self._training is not None:
            self._training.exchange.end("the active party's job has failed.")
        self._session = None
        _log.error("The job failed: %s", described(error))
        if session_id:
            for end in (
                self._coordinator.end_session,
                *(p.end_session for p in self._passive_parties.values()),
            ):
                try:
                    end(session_id, "the active party's job has failed.")
                except Exception as unreachable:
                    _log.warning("Could not end the session everywhere: %s", described(unreachable))

    def _for_all_passive(self, action: Callable[[PassiveParty], None]) -> None:
        _first_failure([self.executor.submit(action, party) for party in self._passive_parties.values()])

    def close(self) -> None:
        """End the session at work, if any, so that no thread waits for a peer when this process stops."""
        if self._training is not None:
            self._training.exchange.end("the active party is stopping.")
        self._attacking.shutdown(wait=False, cancel_futures=True)

    # -- Protocol 1 and prediction ---------------------------------------------------------------------------------

    def exchange_of(self, session_id: str) -> GradientExchange:
        """The session's Protocol 1 state, for messages of peers; raises OutOfOrder when there is none."""
        training = self._training
        if training is None or training.agreement.session_id != session_id:
            raise OutOfOrder("No such session here: it has not begun, or another has taken its place.")
        return training.exchange

    def predict(self, ids: Sequence[str]) -> dict[str, FloatArray]:
        """Confidence scores, (classes,) each, of those ids that are among the aligned records."""
        training = self._training
        if training is None or self.stage != "serving":
            raise OutOfOrder(f"There is no trained model to ask (stage: {self.stage}). Train first.")
        known = [record for record in dict.fromkeys(ids) if record in self._row_of_id]
        rows = [self._row_of_id[record] for record in known]
        scores = self._scores(training, rows)
        # On the transcript as it grows, but never in the way of an answer.
        self._attacking.submit(self._attack, rows, scores).add_done_callback(log_failure)
        return dict(zip(known, scores, strict=True))

    def predict_one(self, record: str) -> FloatArray:
        """Confidence scores of one record; raises UnknownRecord."""
        scores = self.predict([record])
        if record not in scores:
            raise UnknownRecord(UNKNOWN_RECORD)
        return scores[record]

    def _scores(self, training: PartyTraining, rows: Sequence[int]) -> FloatArray:
        session_id = training.agreement.session_id
        parts = [np.empty((0, len(self.class_names)))]
        for start in range(0, len(rows), PREDICTION_ROWS):
            part = rows[start : start + PREDICTION_ROWS]
            with self._request_lock:
                self._request_id += 1
                request_id = self._request_id
            _first_failure(
                [
                    self.executor.submit(party.contribute_scores, session_id, request_id, part)
                    for party in self._passive_parties.values()
                ]
            )
            parts.append(self._coordinator.score(session_id, request_id, training.partial_scores(part)))
        return np.vstack(parts)


_INSTALLED = "The model was trained in one place, on both parties' data, and installed; nothing was trained here."
UNKNOWN_RECORD = "This id is not among the aligned records: every party must hold it when the session begins."


def _logged_and_told(error: BaseException) -> str:
    """What others are told of an error that this party's job may never raise: the log has the rest of it."""
    if not is_expected(error):
        log_unexpected(error)
    return told(error)


def _first_failure(futures: Iterable[Future[None]]) -> None:
    """Wait for all; raise the first error among them."""
    futures = list(futures)
    wait(futures)
    for future in futures:
        future.result()
