"""The active party's state: the job at work, and the predictions of the model that is served. Opens no connection."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

from services.active.attacking import ScoreAttacks
from services.active.coalescing import Coalescing, OnEnd, stays
from services.active.interfaces import JobObserver, JobOutcome, PassiveParty
from services.active.job import Job, Labels
from services.active.progress import JobProgress, LogObserver, ProgressMeter, Reachability
from services.active.scoring import Predictions, Scoring
from services.active.serving import Serving, TrainedModel
from services.adversary.knowledge import PriorKnowledge
from services.adversary.predictions import AttackHost
from services.common.agreement import Agreement, TrainingPlan
from services.common.errors import Cancelled, FederationError, OutOfOrder, UnknownRecord, described, told
from services.common.limits import PREDICTION_ROWS
from services.exchange.peer import Inbox
from services.party.context import PartyContext
from services.party.model_file import KeptModel
from services.party.served_models import ServedModels
from services.party.session import PartySession, begin_ledgers
from services.party.training_log import kept_training
from vfl.arrays import FloatArray
from vfl.data import encode_labels
from vfl.data.record_ids import bare_id
from vfl.learning.score_quality import ScoreQuality

_log = logging.getLogger(__name__)


# To tell every party that can be reached takes less (services.network.serving_link.END_SECONDS).
_CANCEL_SECONDS = 5.0
_BY_OPERATOR = "cancelled by the operator."
# Half of a connection's streams (services.network.call_limits).
_PREDICTIONS_AT_ONCE = 32
UNKNOWN_RECORD = "This id is not among the aligned records: every party must hold it when the session begins."


class ActiveParty:
    """Runs one job at a time and predicts with the model of the last one that finished. Thread-safe.

    Attributes:
        labels: class indices, one per record of the own table.
        class_names: by class index.
        stage: idle, failed, or what the job is doing; serving when it has finished, or a model is there from before.
        failure: why the last job failed, in words that others may read. Empty when it didn't.
        name: its own.
        passive_names: of the passive parties.
        executor: threads for jobs.
        reachability: asks which of the others answer now.
        tally: counts what operators are answered.
    """

    def __init__(
        self,
        context: PartyContext,
        passive_parties: Mapping[str, PassiveParty],
        attack_host: AttackHost,
        beforehand: PriorKnowledge | None = None,
    ) -> None:
        """Hold the labels of ``context.data`` and the ways to the passive parties, by name.

        Args:
            context: what this party works with.
            passive_parties: the ways to them, by name.
            attack_host: runs the attacks on scores.
            beforehand: what its adversary knows before any session, for attacks; None for nothing.

        Raises:
            ValueError: when the table has no labels.
        """
        if context.data.labels is None:
            raise ValueError("The active party holds the labels: set PLUMBLINE_LABEL_COLUMN.")
        self.labels, self.class_names = encode_labels(context.data.labels)
        self.name, self.passive_names = context.name, tuple(passive_parties)
        self.failure = ""
        self.executor, self.tally = context.executor, context.tally
        self.reachability = Reachability(context.heartbeats)
        self._context, self._record = context, context.record
        self._passive_parties = dict(passive_parties)
        self._scoring = Scoring(context.coordinator, passive_parties, context.executor, context.engine)
        self._told = context.equation_count(context.settings.most_sums)
        self.tally.add(self._told.measures_of_labels)
        # Predictions have threads and a bound of their own: however many operators ask, a job's messages to the same
        # parties find a thread here, and a stream of the connection there.
        self._asking = ThreadPoolExecutor(_PREDICTIONS_AT_ONCE, thread_name_prefix="predictions")
        self._prediction_scoring = Scoring(context.coordinator, passive_parties, self._asking, context.engine)
        self._predicting = threading.BoundedSemaphore(_PREDICTIONS_AT_ONCE)
        self._one_by_one = Coalescing(self.predict, most=PREDICTION_ROWS)
        self._job_lock = threading.Lock()
        self._job: Job | None = None
        # The last one that was trained to its end: its peers may send a message again.
        self._trained: PartySession | None = None
        begin_ledgers(context.state)
        models = ServedModels(context.name, context.data, context.state, self.labels)
        self._serving = serving = Serving(models, context, passive_parties)
        self._attacks = ScoreAttacks(attack_host, passive_parties, self._scoring, serving, beforehand, self.id_forms)
        self._is_closing = False
        self.stage = "idle" if self._serving.newest is None else "serving"
        self._take_up_training(models)

    def _take_up_training(self, models: ServedModels) -> None:
        """Stand in the job that the process before this one was at work in; raises StateError for a broken one."""
        if (interrupted_training := kept_training(self._context.state, self.name)) is None:
            return
        if models.knows(interrupted_training.terms.agreement.session_id):
            interrupted_training.log.forget()
            return
        try:
            self._job = Job.interrupted(self._new_job(LogObserver()), interrupted_training)
        except FederationError as error:
            _log.error("%s", error)
            return
        self.stage = "training"

    @property
    def is_interrupted(self) -> bool:
        """Whether a job of the process before this one is to go on (``go_on``)."""
        return self._job is not None and self._job.gathering.waiting is not None

    def _new_job(self, observer: JobObserver) -> Job:
        self._meter, context = ProgressMeter(tell_stage=self._begin_stage), self._context
        trained = context.defences.replace_labels(self.labels, context.data.ids, len(self.class_names))
        labels = Labels(self.labels, self.class_names, trained)
        return Job(context, self._passive_parties, labels, self._scoring, (self._meter, observer), self._told)

    def _begin_stage(self, name: str) -> None:
        self.stage = name
        _log.info("Stage: %s.", name)

    @property
    def session_id(self) -> str:
        """The id of the session at work, or else of the served one; empty without any."""
        job, model = self._job, self._serving.newest
        if job is not None and job.session is not None:
            return job.session_id
        return model.session_id if model else ""

    @property
    def has_model(self) -> bool:
        """Whether a model is served, or about to be."""
        return self._serving.newest is not None

    @property
    def warnings(self) -> list[str]:
        """What the session at work leaves unprotected or could not write, in plain words for the operator."""
        job, model = self._job, self._serving.newest
        if job is not None and job.session is not None:
            return [*job.session.terms_warnings, *job.session.guard_warnings, *self._record.lost.sentences]
        return [*model.kept.warnings, *self._record.lost.sentences] if model else []

    @property
    def agreement(self) -> Agreement | None:
        """The terms of the session at work, or else of the model; None without any."""
        job, model = self._job, self._serving.newest
        if job is not None:
            return job.session.agreement if job.session is not None else None
        return model.model.agreement if model else None

    @property
    def aligned_rows(self) -> int:
        """Records that all parties hold, of the session at work or else of the model; 0 before they are counted."""
        job, model = self._job, self._serving.newest
        if job is not None:
            return len(job.order)
        return len(model.row_of_id) if model else 0

    @property
    def progress(self) -> JobProgress | None:
        """How far the job at work is; None without one."""
        job = self._job
        if job is None:
            return None
        progress, waiting = replace(self._meter.now(), interruptions=job.interruptions), job.gathering.waiting
        if waiting is None:
            return progress
        return replace(progress, waiting_for=waiting.names, waiting_since=waiting.since, seconds_left=None)

    @property
    def test(self) -> ScoreQuality | None:
        """How the model that answers did on its test records; None without either."""
        model = self._serving.newest
        return model.kept.test if model else None

    @property
    def _session(self) -> PartySession | None:
        """The session at work, or else the last one that was trained to its end."""
        at_work = self._job.session if self._job else None
        return at_work or self._trained

    def obstacle(self) -> str:
        """Say why a prediction would be refused now, and what to do. Asks every party; empty when it would be given."""
        return self._serving.obstacle(self.stage)

    # -- the job ---------------------------------------------------------------------------------------------------

    def train(self, plan: TrainingPlan, observer: JobObserver) -> JobOutcome:
        """Run a whole job. Any failure ends the session at every party and is raised. The service goes on.

        The model that was served before goes on answering until this one has taken its place at every party.
        """
        with self._at_work("A job is running already: wait for its end, or cancel it (`plumbline cancel`)."):
            self._job = None
            self.failure = ""
            self._record.check()
            plan.calls(plan.family.check_label_party)
            self._job = job = self._new_job(observer)
            # One whose switch has begun is served first: the others may have forgotten the one before.
            job.while_open(self._serving.settle)
            return self._finish(job, lambda: job.run(plan))

    def go_on(self) -> JobOutcome:
        """Do the rest of the job that the process before this one was at work in; raises as ``train``."""
        with self._at_work("Another job has begun: the interrupted one is given up."):
            if (job := self._job) is None:
                raise OutOfOrder("There is no interrupted job.")
            return self._finish(job, job.go_on)

    @contextmanager
    def _at_work(self, refusal: str) -> Iterator[None]:
        """Work at a job, the only one; raises OutOfOrder with ``refusal`` while there is another."""
        if not self._job_lock.acquire(blocking=False):
            raise OutOfOrder(refusal)
        try:
            yield
        except Exception as error:
            self._fail(error)
            raise
        finally:
            if self._job is not None:
                self._job.finish()
            self._job = None
            self._context.cores.forget()
            self._job_lock.release()

    def _finish(self, job: Job, work: Callable[[], JobOutcome]) -> JobOutcome:
        """Train and test, then serve what came of it."""
        outcome = job.while_open(work)
        model = job.while_open(lambda: self._attacked(job))
        # From here on nobody is told that the job was cancelled.
        job.ending.finish()
        self._serving.switch_to(model)
        job.forget_training()
        self._trained = job.session
        job.observer.stage("serving")
        return outcome

    def cancel(self) -> None:
        """End the job at work, at every party; returns when it is over. The served model goes on answering.

        Raises:
            OutOfOrder: when there is no job, its model is being served already, or it isn't over in time.
        """
        job = self._job
        if job is None:
            raise OutOfOrder(f"No job is running (stage: {self.stage}): there is nothing to cancel.")
        job.ending.end(Cancelled(f"The job was {_BY_OPERATOR}"))
        if job.ending.is_finished:
            raise OutOfOrder("The job is over: its model is being served.")
        if not job.await_finish(_CANCEL_SECONDS):
            raise OutOfOrder(
                f"The job is cancelled, but not over after {_CANCEL_SECONDS:g} s: its model will not be served. "
                "See `plumbline status`."
            )

    def _attacked(self, job: Job) -> TrainedModel:
        """Make the job's model, and what attacks on its test scores found on the way."""
        session = job.session
        assert session is not None  # noqa: S101 - a job that has run has it
        warnings = (*session.terms_warnings, *session.guard_warnings)
        kept_model = KeptModel.of(session.training.model, job.order, warnings, job.outcomes.quality)
        model = TrainedModel.of(kept_model, self._context.data.ids)
        if self._attacks.is_idle:
            return model
        job.observer.stage("attacking")
        most = self._context.settings.attacked_records
        return self._attacks.on_tests(model, job.outcomes.test_answers, most, job.observer.step)

    def _fail(self, error: Exception) -> None:
        cancelled = isinstance(error, Cancelled)
        self.stage = "failed" if not cancelled else "serving" if self.has_model else "idle"
        self.failure = told(error)
        if cancelled:
            _log.info("%s", error)
        else:
            _log.error("The job failed: %s", described(error))
        if self._job is None:
            return
        if self._is_closing and self._job.can_wait:
            # The next process goes on with it; the others wait.
            self._job.stop()
            return
        self._job.end(_BY_OPERATOR if cancelled else f"the active party's job has failed: {told(error)}")
        self._job.forget_training()

    def holds_session(self, session_id: str) -> bool:
        """Tell whether this is the session at work, or the served one: what peers ask who watch this party."""
        job = self._job
        return session_id != "" and session_id in (job.session_id if job else "", self.session_id)

    def close(self) -> None:
        """End the session at work, if any, so that no thread waits for a peer when this process stops."""
        self._is_closing = True
        if self._job is not None:
            self._job.ending.end(OutOfOrder("The active party is stopping."))
        if self._session is not None:
            self._session.training.exchange.end("the active party is stopping.")
        self._serving.close()
        self._one_by_one.close()
        self._attacks.close()
        self._asking.shutdown(wait=False, cancel_futures=True)

    # -- Protocol 1 and prediction ---------------------------------------------------------------------------------

    def exchange_of(self, session_id: str) -> Inbox:
        """Find the session's exchange, for messages of peers; raises OutOfOrder when there is none."""
        session = self._session
        if session is None or session.agreement.session_id != session_id:
            raise OutOfOrder("No such session here: it has not begun, or another has taken its place.")
        return cast(Inbox, session.training.exchange)

    def id_forms(self, ids: Iterable[str]) -> list[str]:
        """Write ids in the form that this party's table has them in, as its settings ask for."""
        return [bare_id(one, self._context.settings.ignore_in_ids) for one in ids]

    def predict(self, ids: Sequence[str]) -> Predictions:
        """Score those ids that are among the aligned records, as ``id_forms`` writes them; raises FederationError."""
        model = self._serving.current()
        if model is None:
            raise self._serving.refusal(self.stage)
        try:
            return self._predict(model, ids)
        except FederationError:
            # Another one may have taken its place meanwhile, and the other parties have forgotten this one.
            now = self._serving.current()
            if now is None or now.session_id == model.session_id:
                raise
            return self._predict(now, ids)

    def _predict(self, model: TrainedModel, ids: Sequence[str]) -> Predictions:
        distinct_ids = list(dict.fromkeys(ids))
        all_rows = model.row_of_id.rows(distinct_ids)
        aligned_ids = [record for record, row in zip(distinct_ids, all_rows.tolist(), strict=True) if row >= 0]
        rows = all_rows[all_rows >= 0].tolist()
        with self._predicting:
            answers = self._prediction_scoring.answers(model.model, rows)
        self._attacks.on_prediction(model.session_id, rows, answers)
        return Predictions(aligned_ids, model.model.scores_of(answers, len(rows)))

    def predict_one(self, record: str, on_end: OnEnd = stays) -> FloatArray:
        """Score one record, asked about with others that come meanwhile (``Coalescing``).

        Raises UnknownRecord for one that isn't aligned.
        """
        scores = self._one_by_one(record, on_end)
        if record not in scores:
            raise UnknownRecord(UNKNOWN_RECORD)
        return scores[record]
