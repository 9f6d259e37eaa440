"""The coordinator on the wire: a thin layer over ``sessions.py``."""

import grpc

from protos.v1 import common_pb2, coordinator_pb2, coordinator_pb2_grpc
from services.common import limits
from services.common.agreement import PartyDescription, TrainingPlan
from services.common.identity import Role
from services.common.ledger_marks import LedgerMark
from services.common.scores import PartialScores
from services.coordinator.sessions import Sessions
from services.network.transport import Permissions, require_caller
from services.watching.tally import Tally

SERVICE_NAME = coordinator_pb2.DESCRIPTOR.services_by_name["Coordinator"].full_name
_ACTIVE = frozenset({Role.ACTIVE})
_PASSIVE = frozenset({Role.PASSIVE})
PERMISSIONS: Permissions = {
    f"/{SERVICE_NAME}/OpenSession": _ACTIVE,
    f"/{SERVICE_NAME}/GetSession": _ACTIVE | _PASSIVE,
    f"/{SERVICE_NAME}/JoinSession": _ACTIVE | _PASSIVE,
    f"/{SERVICE_NAME}/NoteLedger": _ACTIVE | _PASSIVE,
    f"/{SERVICE_NAME}/SubmitPartialScores": _PASSIVE,
    f"/{SERVICE_NAME}/Score": _ACTIVE,
    f"/{SERVICE_NAME}/EndSession": _ACTIVE | _PASSIVE,
    f"/{SERVICE_NAME}/ServeModel": _ACTIVE,
}


class CoordinatorServicer(coordinator_pb2_grpc.CoordinatorServicer):
    """Answers the coordinator's calls, each of which names its caller by certificate."""

    def __init__(self, sessions: Sessions, tally: Tally | None = None) -> None:
        self._sessions = sessions
        self._tally = tally or Tally()

    def OpenSession(
        self, request: coordinator_pb2.OpenSessionRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.OpenSessionReply:
        """Open a session for the active party."""
        limits.check_count(request.passive_parties, limits.PASSIVE_PARTIES, "passive parties in a session")
        session_id = self._sessions.open(
            require_caller(context),
            TrainingPlan.from_message(request.plan),
            request.classes,
            tuple(request.passive_parties),
        )
        return coordinator_pb2.OpenSessionReply(session_id=session_id)

    def GetSession(self, request: common_pb2.SessionRequest, context: grpc.ServicerContext) -> common_pb2.SessionTerms:
        """Tell a party of a session what it was opened with."""
        return self._sessions.terms(require_caller(context), request.session_id).to_message()

    def JoinSession(
        self, request: coordinator_pb2.JoinSessionRequest, context: grpc.ServicerContext
    ) -> common_pb2.Agreement:
        """Let a party join; answers with the agreement when all have."""
        party = PartyDescription.from_message(request.party)
        return self._sessions.join(require_caller(context), request.session_id, party).to_message()

    def NoteLedger(
        self, request: coordinator_pb2.LedgerMark, context: grpc.ServicerContext
    ) -> coordinator_pb2.LedgerMark:
        """Note how far one of the caller's ledgers is."""
        caller, mark = require_caller(context), LedgerMark.from_message(request)
        return self._sessions.note_ledger(caller, request.session_id, mark).to_message(request.session_id)

    def SubmitPartialScores(
        self, request: common_pb2.PartialScores, context: grpc.ServicerContext
    ) -> coordinator_pb2.SubmissionReceipt:
        """Take a passive party's share of the scores of a request."""
        share = PartialScores.from_message(request)
        submissions = self._sessions.submit(require_caller(context), request.session_id, request.request_id, share)
        return coordinator_pb2.SubmissionReceipt(submissions=submissions)

    def Score(
        self, request: common_pb2.PartialScores, context: grpc.ServicerContext
    ) -> coordinator_pb2.ConfidenceScores:
        """Take the active party's share, and answer with confidence scores."""
        caller, products = require_caller(context), PartialScores.from_message(request).products
        scores = self._sessions.score(caller, request.session_id, request.request_id, products)
        self._tally.answered(caller.name, "scores", len(scores), request.session_id)
        return coordinator_pb2.ConfidenceScores(rows=scores.shape[0], columns=scores.shape[1], values=scores.ravel())

    def EndSession(
        self, request: common_pb2.EndSessionRequest, context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """End a session for all its parties."""
        self._sessions.end(require_caller(context), request.session_id, request.reason)
        return common_pb2.Acknowledgement()

    def ServeModel(
        self, request: common_pb2.SessionRequest, context: grpc.ServicerContext
    ) -> common_pb2.Acknowledgement:
        """Have the session's model served from now on."""
        self._sessions.serve(require_caller(context), request.session_id)
        return common_pb2.Acknowledgement()
