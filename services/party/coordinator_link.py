"""The other ends of the wire: Protocol 1 peers and the coordinator as plain Python objects over gRPC."""

from collections.abc import Iterator

import grpc

from protos.v1 import common_pb2, coordinator_pb2, coordinator_pb2_grpc, exchange_pb2, exchange_pb2_grpc
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.errors import InvalidMessage, naming_the_party
from services.common.identity import Role
from services.common.scores import PartialScores, matrix_of
from services.common.wire import END_SECONDS, parts_of
from services.protocol1.cipher import DecryptedVector, PublicKeyShown, WireVector
from vfl.arrays import FloatArray

# Seconds that a call has beyond the wait of whoever answers it.
_JOIN_MARGIN = 5.0


def vector_parts(session_id: str, step: int, vector: WireVector) -> Iterator[common_pb2.CipherVectorPart]:
    """A ciphertext vector as a stream: header, then data."""
    yield common_pb2.CipherVectorPart(
        header=common_pb2.CipherVectorHeader(
            session_id=session_id,
            step=step,
            key_id=vector.key_id,
            count=vector.count,
            width=vector.width,
            exponent=vector.exponent,
        )
    )
    for data in parts_of(vector.data):
        yield common_pb2.CipherVectorPart(data=data)


@naming_the_party
class PeerLink:
    """A peer of Protocol 1 over a channel; no answer within ``timeout`` seconds raises PeerVanished."""

    def __init__(self, name: str, channel: grpc.Channel, timeout: float) -> None:
        self.name = name
        self._stub = exchange_pb2_grpc.GradientExchangeStub(channel)
        self._timeout = timeout

    def send_public_key(self, session_id: str, key: PublicKeyShown) -> None:
        message = exchange_pb2.PublicKeyMessage(
            session_id=session_id, key_id=key.key_id, modulus=key.modulus, proof=key.proof
        )
        self._stub.SendPublicKey(message, timeout=self._timeout)

    def send_residuals(self, session_id: str, step: int, vector: WireVector) -> None:
        self._stub.SendResiduals(vector_parts(session_id, step, vector), timeout=self._timeout)

    def decrypt(self, session_id: str, step: int, vector: WireVector) -> DecryptedVector:
        header: exchange_pb2.DecryptedVectorHeader | None = None
        data = bytearray()
        for reply in self._stub.Decrypt(vector_parts(session_id, step, vector), timeout=self._timeout):
            if reply.WhichOneof("part") == "header":
                header = reply.header
            else:
                data += reply.data
        if header is None:
            raise InvalidMessage(f"{self.name} answered without a header.")
        return DecryptedVector(header.count, header.width, bytes(data))


@naming_the_party
class CoordinatorLink:
    """The coordinator over a channel; no answer within ``timeout`` seconds raises PeerVanished."""

    def __init__(self, channel: grpc.Channel, timeout: float) -> None:
        self.name = str(Role.COORDINATOR)
        self._stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        self._timeout = timeout

    def open_session(self, plan: TrainingPlan, classes: int, passive_parties: tuple[str, ...]) -> str:
        request = coordinator_pb2.OpenSessionRequest(
            plan=plan.to_message(), classes=classes, passive_parties=passive_parties
        )
        return self._stub.OpenSession(request, timeout=self._timeout).session_id

    def join_session(self, session_id: str, party: PartyDescription) -> Agreement:
        """Join; answers when all parties have."""
        request = coordinator_pb2.JoinSessionRequest(session_id=session_id, party=party.to_message())
        # The coordinator itself waits this long for the others, and then says who is missing.
        return Agreement.from_message(self._stub.JoinSession(request, timeout=self._timeout + _JOIN_MARGIN))

    def submit_partial_scores(self, session_id: str, request_id: int, share: PartialScores) -> None:
        self._stub.SubmitPartialScores(share.to_message(session_id, request_id), timeout=self._timeout)

    def score(self, session_id: str, request_id: int, products: FloatArray) -> FloatArray:
        """Confidence scores, (rows, classes)."""
        message = PartialScores(products).to_message(session_id, request_id)
        reply = self._stub.Score(message, timeout=self._timeout)
        return matrix_of(reply.rows, reply.columns, reply.values)

    def end_session(self, session_id: str, reason: str) -> None:
        request = common_pb2.EndSessionRequest(session_id=session_id, reason=reason)
        self._stub.EndSession(request, timeout=min(self._timeout, END_SECONDS))
