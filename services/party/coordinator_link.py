"""The coordinator as a plain Python object over gRPC."""

from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from protos.v1 import common_pb2, coordinator_pb2, coordinator_pb2_grpc
from services.common import limits
from services.common.agreement import Agreement, PartyDescription, ProposedTerms, TrainingPlan
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.identity import Role
from services.common.ledger_marks import LedgerMark
from services.common.scores import PartialScores, Products, matrix_of
from services.network.serving_link import ServingLink
from services.network.statuses import naming_the_party
from vfl.arrays import FloatArray

# Seconds that a call has beyond the wait of whoever answers it.
_JOIN_MARGIN = 5.0


@naming_the_party
class CoordinatorLink(ServingLink):
    """The coordinator over a channel."""

    _stub: coordinator_pb2_grpc.CoordinatorStub

    def __init__(self, channel: grpc.Channel, timeout: float) -> None:
        super().__init__(str(Role.COORDINATOR), channel, coordinator_pb2_grpc.CoordinatorStub(channel), timeout)

    def open_session(self, plan: TrainingPlan, classes: int, passive_parties: tuple[str, ...]) -> str:
        """Open a session, and return its id. The first call of a job: it waits for a coordinator that is starting."""
        self._health.await_ready()
        request = coordinator_pb2.OpenSessionRequest(
            plan=plan.to_message(), classes=classes, passive_parties=passive_parties
        )
        session_id = self._stub.OpenSession(request, timeout=self._timeout).session_id
        limits.check_session_id(session_id)
        return session_id

    def session_terms(self, session_id: str) -> ProposedTerms:
        """Ask what a session of this party was opened with."""
        request = common_pb2.SessionRequest(session_id=session_id)
        with _naming_an_older_release("tell whose session this is"):
            reply = self._stub.GetSession(request, timeout=self._timeout)
        terms = ProposedTerms.from_message(reply)
        _check_same_session(session_id, terms.session_id)
        return terms

    def join_session(self, session_id: str, party: PartyDescription) -> Agreement:
        """Join a session, and return its terms when every party has joined."""
        request = coordinator_pb2.JoinSessionRequest(session_id=session_id, party=party.to_message())
        # The coordinator itself waits this long for the others, and then says who is missing.
        agreement = Agreement.from_message(self._stub.JoinSession(request, timeout=self._timeout + _JOIN_MARGIN))
        _check_same_session(session_id, agreement.session_id)
        return agreement

    def note_ledger(self, session_id: str, mark: LedgerMark) -> LedgerMark:
        """Note how far one of this party's ledgers is, and return how far it is known to be."""
        message = mark.to_message(session_id)
        with _naming_an_older_release("remember how far this party's counts of what it has answered are"):
            reply = self._health.insisting(lambda: self._stub.NoteLedger(message, timeout=self._timeout))
        latest_mark = LedgerMark.from_message(reply)
        if (reply.session_id, latest_mark.ledger) != (session_id, mark.ledger):
            raise InvalidMessage("The coordinator answers about another ledger than it was told of.")
        return latest_mark

    def submit_partial_scores(self, session_id: str, request_id: int, share: PartialScores) -> int:
        """Send a passive party's share of the scores of a request; returns how many shares of the session have come."""
        message = share.to_message(session_id, request_id)
        reply = self._health.insisting(lambda: self._stub.SubmitPartialScores(message, timeout=self._timeout))
        return reply.submissions

    def score(self, session_id: str, request_id: int, products: Products) -> FloatArray:
        """Send the active party's share of a request, and return confidence scores, (rows, classes).

        Of a learner that forwards: all parties' shares added up, (rows, outputs).
        """
        message = PartialScores(products).to_message(session_id, request_id)
        reply = self._health.insisting(lambda: self._stub.Score(message, timeout=self._timeout))
        limits.check_count(reply.columns, limits.SHARE_VALUES, "columns of confidence scores")
        return matrix_of(reply.rows, reply.columns, reply.values)


@contextmanager
def _naming_an_older_release(lacks: str) -> Iterator[None]:
    """Raise OutOfOrder where the coordinator doesn't know a call at all."""
    try:
        yield
    except grpc.RpcError as error:
        if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.UNIMPLEMENTED:
            raise OutOfOrder(
                f"The coordinator is of an older release, which can't {lacks}: install the same release of Plumbline "
                "at every party."
            ) from error
        raise


def _check_same_session(session_id: str, reply_id: str) -> None:
    if reply_id != session_id:
        raise InvalidMessage("The coordinator answers about another session than it was asked about.")
