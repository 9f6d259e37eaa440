"""The passive parties as plain Python objects over gRPC."""

from collections.abc import Iterable, Iterator, Sequence

import grpc
import numpy as np

from protos.v1 import common_pb2, passive_pb2, passive_pb2_grpc
from services.common.alignment import ALIGNMENT_VERSION, check_alignment_version
from services.common.errors import InvalidMessage, OutOfOrder, PeerRefused
from services.common.health import holds_session
from services.common.scores import matrix_of
from services.common.statuses import naming, naming_the_party
from services.common.wire import END_SECONDS
from vfl.data import BlindedIds
from vfl.data.psi import MOST_IDS
from vfl.learning.networks import DenseNetwork, activation_named

_IDS_PER_PART = 1_000
# Seconds beyond the wait of whoever answers.
_MARGIN = 5.0
# Upper limit of what the set intersection takes per id and message.
_ALIGNMENT_SECONDS_PER_ID = 0.0005


@naming_the_party
class PassiveLink:
    """One passive party over a channel, ``timeout`` seconds for each answer.

    Every method raises PeerVanished when no answer comes, and PeerRefused with the other's words when it refuses.
    """

    def __init__(self, name: str, channel: grpc.Channel, timeout: float) -> None:
        self.name = name
        self._channel = channel
        self._stub = passive_pb2_grpc.PassiveStub(channel)
        self._timeout = timeout

    def set_up_alignment(self, session_id: str, client_count: int) -> BlindedIds:
        """The party's blinded ids as they arrive.

        Raises:
            InvalidMessage: where it aligns by another version.
        """
        request = passive_pb2.AlignmentSetupRequest(
            session_id=session_id, client_count=client_count, version=ALIGNMENT_VERSION
        )
        # Its table may be larger by far than this party's.
        timeout = self._timeout + MOST_IDS * _ALIGNMENT_SECONDS_PER_ID
        replies = self._stub.SetUpAlignment(request, timeout=timeout)
        header = next(replies, passive_pb2.AlignmentPart())
        try:
            check_alignment_version(self.name, header.version)
        except InvalidMessage:
            replies.cancel()
            raise
        return BlindedIds(header.count, self._data_of(replies), replies.cancel)

    def align(self, session_id: str, request: Iterable[bytes], client_count: int) -> BlindedIds:
        """The ids that were asked about, blinded by the party as well, as they arrive."""

        def parts() -> Iterator[passive_pb2.AlignmentPart]:
            for data in request:
                yield passive_pb2.AlignmentPart(session_id=session_id, data=data)

        timeout = self._timeout + client_count * _ALIGNMENT_SECONDS_PER_ID
        replies = self._stub.Align(parts(), timeout=timeout)
        return BlindedIds(client_count, self._data_of(replies), replies.cancel)

    def _data_of(self, replies: Iterable[passive_pb2.AlignmentPart]) -> Iterator[bytes]:
        with naming(self.name):
            for part in replies:
                yield part.data

    def fix_order(self, session_id: str, common_ids: Sequence[str]) -> None:
        """Send the common ids in the order of rows that every party takes."""

        def parts() -> Iterator[passive_pb2.CommonIds]:
            for start in range(0, len(common_ids), _IDS_PER_PART):
                yield passive_pb2.CommonIds(session_id=session_id, ids=common_ids[start : start + _IDS_PER_PART])

        self._stub.FixOrder(parts(), timeout=self._timeout)

    def join(self, session_id: str) -> None:
        """Have the party join the session; returns when it has its terms and its key."""
        # The passive party joins at the coordinator, which waits for the others as long as the timeout says.
        self._stub.Join(common_pb2.SessionRequest(session_id=session_id), timeout=self._timeout + 2 * _MARGIN)

    def show_public_key(self, session_id: str) -> None:
        """Have the party send its public key to every peer."""
        self._stub.ShowPublicKey(common_pb2.SessionRequest(session_id=session_id), timeout=self._timeout)

    def run_epoch(self, session_id: str, epoch: int) -> None:
        """Returns when the epoch is done. No deadline: every step has one, and a lost connection ends the call."""
        for _ in self._stub.RunEpoch(passive_pb2.RunEpochRequest(session_id=session_id, epoch=epoch)):
            pass

    def finish_training(self, session_id: str, kept_epoch: int) -> None:
        """Have the party keep the weights of one epoch and end its training."""
        request = passive_pb2.FinishTrainingRequest(session_id=session_id, kept_epoch=kept_epoch)
        self._stub.FinishTraining(request, timeout=self._timeout)

    def contribute_scores(self, session_id: str, request_id: int, rows: Sequence[int]) -> None:
        """Have the party send its partial scores of some rows to the coordinator."""
        request = passive_pb2.PartialScoresRequest(session_id=session_id, request_id=request_id, rows=rows)
        self._stub.ContributeScores(request, timeout=self._timeout)

    def disclose_parameters(self, session_id: str) -> DenseNetwork | None:
        """The party's share of the model, None when it discloses nothing (black box)."""
        request = common_pb2.SessionRequest(session_id=session_id)
        try:
            with naming(self.name):
                reply = self._stub.DiscloseParameters(request, timeout=self._timeout)
        except PeerRefused as refused:
            if refused.kind is OutOfOrder:
                return None
            raise
        return DenseNetwork(
            tuple(matrix_of(layer.inputs, layer.outputs, layer.weights) for layer in reply.layers),
            tuple(np.array(layer.biases) for layer in reply.layers),
            activation_named(reply.activation),
        )

    def end_session(self, session_id: str, reason: str) -> None:
        """Tell the party that the session has ended, and why."""
        request = common_pb2.EndSessionRequest(session_id=session_id, reason=reason)
        self._stub.EndSession(request, timeout=min(self._timeout, END_SECONDS))

    def serve_model(self, session_id: str) -> None:
        """Have the party answer with a session's model from now on, in place of the one before."""
        self._stub.ServeModel(common_pb2.SessionRequest(session_id=session_id), timeout=self._timeout)

    def holds_session(self, session_id: str) -> bool:
        """Whether the party would answer for a session; raises PeerVanished when it doesn't say so soon."""
        return holds_session(self._channel, session_id)
