"""The active party on the wire, for its operator: a thin layer over ``party.py``."""

import queue
from collections.abc import Iterator, Mapping, Sequence

import grpc
import numpy as np

from protos.v1 import active_pb2, active_pb2_grpc, common_pb2
from services.active.interfaces import EpochOutcome
from services.active.party import UNKNOWN_RECORD, ActiveParty
from services.active.scoring import Predictions
from services.common.agreement import Agreement, TrainingPlan
from services.common.errors import InvalidMessage
from services.common.identity import Role
from services.common.limits import ID_BYTES, PREDICTION_ROWS
from services.network.transport import Permissions, require_caller
from vfl.learning.score_quality import ScoreQuality

_SERVICE = active_pb2.DESCRIPTOR.services_by_name["Active"]
SERVICE_NAME = _SERVICE.full_name
# Longer than it may take; gRPC calls back in time.
_PRESENCE_SECONDS = 5.0
_OPERATOR = frozenset({Role.OPERATOR, Role.ACTIVE})
PERMISSIONS: Permissions = {f"/{SERVICE_NAME}/{method.name}": _OPERATOR for method in _SERVICE.methods}


class _EventQueue:
    """A job's observer that turns what it sees into messages for whoever watches."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[active_pb2.JobEvent | None] = queue.SimpleQueue()

    def stage(self, name: str) -> None:
        self.events.put(active_pb2.JobEvent(stage=name))

    def step(self, done: int, planned: int, what: str = "") -> None:
        progress = active_pb2.JobProgress(steps_done=done, steps_planned=planned, at_work=what)
        self.events.put(active_pb2.JobEvent(progress=progress))

    def epoch(self, outcome: EpochOutcome) -> None:
        self.events.put(active_pb2.JobEvent(epoch=active_pb2.EpochResult(**vars(outcome))))


class ActiveServicer(active_pb2_grpc.ActiveServicer):
    """Answers the operator by the party's state. ``plan`` is what the party's own settings propose."""

    def __init__(self, party: ActiveParty, plan: TrainingPlan) -> None:
        self._party = party
        self._plan = plan

    def Train(self, request: active_pb2.TrainRequest, context: grpc.ServicerContext) -> Iterator[active_pb2.JobEvent]:
        """Run a job and stream what happens in it. The job goes on when its watcher leaves."""
        plan = TrainingPlan.from_message(request.plan) if request.HasField("plan") else self._plan
        observer = _EventQueue()
        job = self._party.executor.submit(self._party.train, plan, observer)
        job.add_done_callback(lambda _: observer.events.put(None))
        context.add_callback(lambda: observer.events.put(None))
        while (event := observer.events.get()) is not None:
            yield event
        if not job.done():
            # The watcher has left: its thread is free for others.
            return
        yield active_pb2.JobEvent(result=active_pb2.JobResult(**vars(job.result())))

    def Status(self, request: active_pb2.StatusRequest, context: grpc.ServicerContext) -> active_pb2.StatusReply:
        """Tell the stage, how far the job is, what the model is worth, and who is there: all of it this party's own."""
        party = self._party
        # The others are asked both questions at once.
        present = None if request.quick else party.reachability.ask()
        obstacle = "" if request.quick else party.obstacle()
        return active_pb2.StatusReply(
            stage=party.stage,
            failure=party.failure,
            session_id=party.session_id,
            class_names=party.class_names,
            warnings=party.warnings,
            own_plan=self._plan.to_message(),
            obstacle=obstacle,
            parties=_parties(party, {} if present is None else present.result(_PRESENCE_SECONDS)),
            aligned_rows=party.aligned_rows,
            job=_job(party),
            test=_test(party.test),
            **_protocol(party.agreement),
        )

    def Cancel(self, request: active_pb2.CancelRequest, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        """End the job at every party; answers when it is over, and refuses when that can't be said."""
        self._party.cancel()
        return common_pb2.Acknowledgement()

    def Predict(
        self, request_iterator: Iterator[active_pb2.PredictRequest], context: grpc.ServicerContext
    ) -> Iterator[active_pb2.PredictReply]:
        """Stream confidence scores. An id that isn't aligned gets an error in place of scores."""
        for request in request_iterator:
            if len(request.ids) > PREDICTION_ROWS:
                raise InvalidMessage(f"Expected at most {PREDICTION_ROWS} ids per message, got {len(request.ids)}.")
            ids = list(request.ids)
            _check_lengths(ids)
            forms = self._party.id_forms(ids)
            predictions = self._party.predict(forms)
            self._party.tally.answered(require_caller(context).name, "scores", len(ids))
            if request.as_block:
                yield active_pb2.PredictReply(block=_block(predictions, forms))
            else:
                yield active_pb2.PredictReply(records=_records(predictions, ids, forms))

    def PredictOne(
        self, request: active_pb2.PredictOneRequest, context: grpc.ServicerContext
    ) -> active_pb2.RecordPrediction:
        """Answer with one record's confidence scores."""
        _check_lengths([request.id])
        (form,) = self._party.id_forms([request.id])
        scores = self._party.predict_one(form, context.add_callback)
        self._party.tally.answered(require_caller(context).name, "scores", 1)
        return active_pb2.RecordPrediction(id=request.id, scores=scores)


def _block(predictions: Predictions, ids: Sequence[str]) -> active_pb2.ScoreBlock:
    """Put the scores of all ids that have some one after the other, without a message for each."""
    places = predictions.places(ids)
    missing = np.flatnonzero(places < 0)
    return active_pb2.ScoreBlock(
        columns=predictions.scores.shape[1],
        scores=predictions.scores[places[places >= 0]].ravel(),
        missing=missing,
        error=UNKNOWN_RECORD if len(missing) else "",
    )


def _records(
    predictions: Predictions, ids: Sequence[str], forms: Sequence[str]
) -> Iterator[active_pb2.RecordPrediction]:
    for record, place in zip(ids, predictions.places(forms).tolist(), strict=True):
        if place < 0:
            yield active_pb2.RecordPrediction(id=record, error=UNKNOWN_RECORD)
        else:
            yield active_pb2.RecordPrediction(id=record, scores=predictions.scores[place])


def _check_lengths(ids: Sequence[str]) -> None:
    # A letter has at most four bytes: most messages need no closer look.
    if 4 * max(map(len, ids), default=0) > ID_BYTES and any(len(record.encode()) > ID_BYTES for record in ids):
        raise InvalidMessage(f"An id is longer than any record's: at most {ID_BYTES} bytes.")


def _parties(party: ActiveParty, present: Mapping[str, bool]) -> Iterator[active_pb2.PartyStatus]:
    """List this party first, then the passive ones, then the coordinator, which has no features."""
    agreement = party.agreement
    described = {one.name: one for one in agreement.parties} if agreement else {}
    for name in (party.name, *party.passive_names, str(Role.COORDINATOR)):
        status = active_pb2.PartyStatus(name=name, answers=present.get(name))
        if name in described:
            status.feature_count = described[name].feature_count
            status.binary_features = described[name].binary_features
            status.byte_features = described[name].byte_features
        yield status


def _job(party: ActiveParty) -> active_pb2.JobStatus | None:
    """Tell how far the job at work is; None without one."""
    progress, agreement = party.progress, party.agreement
    if progress is None:
        return None
    return active_pb2.JobStatus(epochs_planned=agreement.plan.epochs if agreement else 0, **vars(progress))


def _protocol(agreement: Agreement | None) -> dict[str, str]:
    """Name the protocol of the session at work or of the model, and what becomes of weights; nothing without either."""
    if agreement is None:
        return {}
    return {"protocol": agreement.plan.protocol, "serving": agreement.serving.name}


def _test(result: ScoreQuality | None) -> active_pb2.TestResult | None:
    if result is None:
        return None
    return active_pb2.TestResult(**vars(result))
