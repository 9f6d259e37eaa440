"""The passive party on the wire: a thin layer over ``party.py``."""

import queue
from collections.abc import Iterator
from itertools import chain

import grpc

from protos.v1 import common_pb2, passive_pb2, passive_pb2_grpc
from services.common import limits
from services.common.alignment import ALIGNMENT_VERSION, check_alignment_version
from services.common.identity import Role
from services.common.meters import StageTimer
from services.common.roster import Roster
from services.network.transport import Permissions, require_caller
from services.party.resumption import MOST_STEPS, Resumption
from services.passive.party import PassiveParty

_SERVICE = passive_pb2.DESCRIPTOR.services_by_name["Passive"]
SERVICE_NAME = _SERVICE.full_name
_ACTIVE = frozenset({Role.ACTIVE})
PERMISSIONS: Permissions = {f"/{SERVICE_NAME}/{method.name}": _ACTIVE for method in _SERVICE.methods}


class PassiveServicer(passive_pb2_grpc.PassiveServicer):
    """Answers the active party by the party's state."""

    def __init__(self, party: PassiveParty) -> None:
        self._party = party

    def SetUpAlignment(
        self, request: passive_pb2.AlignmentSetupRequest, context: grpc.ServicerContext
    ) -> Iterator[passive_pb2.AlignmentPart]:
        """Begin a session and stream the blinded ids, the header with version and count first."""
        caller = require_caller(context)
        check_alignment_version(caller.name, request.version)
        setup = self._party.set_up_alignment(caller, request.session_id, request.client_count)
        yield passive_pb2.AlignmentPart(version=ALIGNMENT_VERSION, count=setup.count)
        for data in setup.chunks:
            yield passive_pb2.AlignmentPart(data=data)

    def Align(
        self, request_iterator: Iterator[passive_pb2.AlignmentPart], context: grpc.ServicerContext
    ) -> Iterator[passive_pb2.AlignmentPart]:
        """Stream the answer to the active party's blinded ids while they arrive."""
        first = next(request_iterator, passive_pb2.AlignmentPart())
        request = (part.data for part in chain([first], request_iterator))
        for data in self._party.align(require_caller(context), first.session_id, request):
            yield passive_pb2.AlignmentPart(data=data)

    def Toss(self, request: passive_pb2.TossRequest, context: grpc.ServicerContext) -> passive_pb2.TossReply:
        """Take part in the toss for the key of records' names."""
        for values in (request.commitments, request.contributions):
            limits.check_count(values, 1 + limits.PASSIVE_PARTIES, "values of a toss")
        caller = require_caller(context)
        value = self._party.toss(caller, request.session_id, request.commitments, request.contributions)
        return passive_pb2.TossReply(value=value)

    def FixOrder(
        self, request_iterator: Iterator[passive_pb2.CommonIds], context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Take the common order of rows from a stream of ids."""
        first = next(request_iterator, passive_pb2.CommonIds())
        parts = (part.ids for part in chain([first], request_iterator))
        roster = Roster.from_message(first.roster) if first.HasField("roster") else None
        self._party.fix_order(require_caller(context), first.session_id, parts, roster, first.name_key)
        return common_pb2.Acknowledgement()

    def Join(self, request: common_pb2.SessionRequest, context: grpc.ServicerContext) -> common_pb2.Agreement:
        """Join the session; answers with its terms."""
        return self._party.join(require_caller(context), request.session_id).to_message()

    def ShowPublicKey(
        self, request: common_pb2.SessionRequest, context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Send this party's public key to every peer."""
        self._party.show_public_key(require_caller(context), request.session_id)
        return common_pb2.Acknowledgement()

    def RunEpoch(
        self, request: passive_pb2.RunEpochRequest, context: grpc.ServicerContext
    ) -> Iterator[passive_pb2.StepReport]:
        """Train one epoch and stream a report after each step."""
        # Training runs on its own thread, so that a caller who has gone doesn't leave it half-way through a message.
        reports: queue.SimpleQueue[passive_pb2.StepReport | None] = queue.SimpleQueue()

        def report(step: int, _: StageTimer) -> None:
            # Not how long its stages took: the product's time tells how sparse this party's features are.
            reports.put(passive_pb2.StepReport(step=step))

        caller = require_caller(context)
        training = self._party.executor.submit(
            self._party.run_epoch, caller, request.session_id, request.epoch, report, request.attempt
        )
        training.add_done_callback(lambda _: reports.put(None))
        while (step_report := reports.get()) is not None:
            yield step_report
        training.result()

    def StopTraining(
        self, request: common_pb2.SessionRequest, context: grpc.ServicerContext
    ) -> passive_pb2.TrainingPlace:
        """Stop after an interruption, and say how far this party is."""
        place = self._party.stop_training(require_caller(context), request.session_id)
        return passive_pb2.TrainingPlace(
            completed=place.completed,
            answered=[
                passive_pb2.AnsweredStep(step=step, peers=sorted(peers)) for step, peers in place.answered.items()
            ],
            asked=sorted(place.asked),
            skipped=sorted(place.skipped),
            attempt=place.attempt,
        )

    def ResumeTraining(
        self, request: passive_pb2.ResumeTrainingRequest, context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Go on from a step that all parties have."""
        limits.check_count(request.skipped, MOST_STEPS, "steps to pass over")
        limits.check_count(request.answered_by, limits.PASSIVE_PARTIES, "parties that have answered")
        resumption = Resumption(
            request.step, frozenset(request.skipped), frozenset(request.answered_by), request.attempt
        )
        self._party.resume_training(require_caller(context), request.session_id, resumption)
        return common_pb2.Acknowledgement()

    def FinishTraining(
        self, request: passive_pb2.FinishTrainingRequest, context: grpc.ServicerContext
    ) -> passive_pb2.FinishTrainingReply:
        """Keep the weights of one epoch and end training."""
        caller = require_caller(context)
        constants = self._party.finish_training(caller, request.session_id, request.kept_epoch, request.slope_step)
        return passive_pb2.FinishTrainingReply(constants=constants)

    def ContributeScores(
        self, request: passive_pb2.PartialScoresRequest, context: grpc.ServicerContext
    ) -> passive_pb2.ContributedScores:
        """Send this party's partial scores to the coordinator."""
        caller, session_id = require_caller(context), request.session_id
        masked = self._party.contribute_scores(caller, session_id, request.request_id, request.rows, request.masked)
        return passive_pb2.ContributedScores(masked=masked)

    def DiscloseParameters(
        self, request: common_pb2.SessionRequest, context: grpc.ServicerContext
    ) -> passive_pb2.DisclosedParameters:
        """Answer with this party's part of the model, array by array."""
        part = self._party.disclose_parameters(require_caller(context), request.session_id)
        return passive_pb2.DisclosedParameters(
            arrays=[
                passive_pb2.PartArray(name=name, word=str(array))
                if array.dtype.kind == "U"
                else passive_pb2.PartArray(name=name, shape=array.shape, values=array.ravel().tolist())
                for name, array in part.arrays().items()
            ]
        )

    def EndSession(
        self, request: common_pb2.EndSessionRequest, context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """End the session."""
        self._party.end_session(require_caller(context), request.session_id, request.reason)
        return common_pb2.Acknowledgement()

    def ServeModel(
        self, request: common_pb2.SessionRequest, context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Serve the session's model from now on."""
        self._party.serve_model(require_caller(context), request.session_id)
        return common_pb2.Acknowledgement()
