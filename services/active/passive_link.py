"""The passive parties as plain Python objects over gRPC."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray

from protos.v1 import common_pb2, passive_pb2, passive_pb2_grpc
from services.active.interfaces import ToldBatches
from services.common import limits
from services.common.alignment import ALIGNMENT_VERSION, check_alignment_version
from services.common.errors import InvalidMessage, OutOfOrder, PeerRefused
from services.common.scores import matrix_of
from services.network.serving_link import ServingLink
from services.network.statuses import naming, naming_the_party
from services.party.resumption import MOST_STEPS, Place, Resumption
from vfl.data import BlindedIds
from vfl.data.id_array import IdArray
from vfl.data.psi import MOST_IDS, PsiError

# Seconds beyond the wait of whoever answers.
_MARGIN = 5.0
# Upper limit of what the set intersection takes per id and message.
_ALIGNMENT_SECONDS_PER_ID = 0.0005
# And of what a party takes to find one of the common ids in its table.
_ORDER_SECONDS_PER_ID = 0.00005


@naming_the_party
class PassiveLink(ServingLink):
    """One passive party over a channel."""

    _stub: passive_pb2_grpc.PassiveStub

    def __init__(self, name: str, channel: grpc.Channel, timeout: float) -> None:
        super().__init__(name, channel, passive_pb2_grpc.PassiveStub(channel), timeout)

    def set_up_alignment(self, session_id: str, client_count: int) -> BlindedIds:
        """Get the party's blinded ids as they arrive. The first call of a job: it waits for a party that is starting.

        Raises:
            InvalidMessage: where it aligns by another version.
        """
        self._health.await_ready()
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
        """Get the ids that were asked about, blinded by the party as well, as they arrive."""

        def parts() -> Iterator[passive_pb2.AlignmentPart]:
            # A thread of gRPC's draws these, and would log a traceback where an alignment has ended: it is cut short.
            with suppress(PsiError):
                for data in request:
                    yield passive_pb2.AlignmentPart(session_id=session_id, data=data)

        timeout = self._timeout + client_count * _ALIGNMENT_SECONDS_PER_ID
        replies = self._stub.Align(parts(), timeout=timeout)
        return BlindedIds(client_count, self._data_of(replies), replies.cancel)

    def _data_of(self, replies: Iterable[passive_pb2.AlignmentPart]) -> Iterator[bytes]:
        with naming(self.name):
            for part in replies:
                yield part.data

    def toss(self, session_id: str, commitments: Sequence[bytes] = (), contributions: Sequence[bytes] = ()) -> bytes:
        """Toss for the key of records' names: returns a commitment, for those of all the contribution, then nothing."""
        request = passive_pb2.TossRequest(session_id=session_id, commitments=commitments, contributions=contributions)
        return self._stub.Toss(request, timeout=self._timeout).value

    def fix_order(self, session_id: str, common_ids: IdArray, told: ToldBatches) -> None:
        """Send the common ids in the order of rows that every party takes, and in which batch each is."""

        def parts() -> Iterator[passive_pb2.CommonIds]:
            roster = None if told.roster is None else common_pb2.Roster(**vars(told.roster))
            for part in common_ids.parts(limits.IDS_PER_PART):
                yield passive_pb2.CommonIds(session_id=session_id, ids=part, name_key=told.key, roster=roster)
                roster = None

        self._stub.FixOrder(parts(), timeout=self._timeout + len(common_ids) * _ORDER_SECONDS_PER_ID)

    def join(self, session_id: str) -> None:
        """Have the party join the session; returns when it has its terms and its key."""
        # The passive party joins at the coordinator, which waits for the others as long as the timeout says.
        self._stub.Join(common_pb2.SessionRequest(session_id=session_id), timeout=self._timeout + 2 * _MARGIN)

    def show_public_key(self, session_id: str) -> None:
        """Have the party send its public key to every peer."""
        # Each of them has as long as the timeout says.
        self._stub.ShowPublicKey(common_pb2.SessionRequest(session_id=session_id), timeout=self._timeout + _MARGIN)

    def stop_training(self, session_id: str) -> Place:
        """Have the party stop after an interruption; returns how far it is.

        Raises:
            InvalidMessage: for what is no place in a training.
        """
        # It may wait for an answer itself, as long as the timeout says.
        request, timeout = common_pb2.SessionRequest(session_id=session_id), self._timeout + _MARGIN
        reply = self._stub.StopTraining(request, timeout=timeout)
        limits.check_count(reply.answered, MOST_STEPS, "steps with answers")
        # One that is passed over, and those which it has agreed to pass over.
        limits.check_count(reply.skipped, MOST_STEPS + 1, "steps that were passed over")
        for names in (reply.asked, *(one.peers for one in reply.answered)):
            limits.check_count(names, limits.PASSIVE_PARTIES, "parties")
        return Place(
            reply.completed,
            {one.step: frozenset(one.peers) for one in reply.answered},
            frozenset(reply.asked),
            frozenset(reply.skipped),
            reply.attempt,
        )

    def resume_training(self, session_id: str, resumption: Resumption) -> None:
        """Have the party go on from a step that all have."""
        request = passive_pb2.ResumeTrainingRequest(
            session_id=session_id,
            step=resumption.step,
            skipped=sorted(resumption.skipped),
            answered_by=sorted(resumption.answered_by),
            attempt=resumption.attempt,
        )
        self._stub.ResumeTraining(request, timeout=self._timeout)

    def run_epoch(self, session_id: str, epoch: int, steps: int, first: int = 0, attempt: int = 0) -> None:
        """Return when the epoch is done. No deadline: every step has one, and a lost connection ends the call.

        Raises:
            InvalidMessage: for a report of anything but the epoch's next step.
        """
        expected = iter(range(max(first, epoch * steps), (epoch + 1) * steps))
        reports = self._stub.RunEpoch(passive_pb2.RunEpochRequest(session_id=session_id, epoch=epoch, attempt=attempt))
        try:
            for report in reports:
                if report.step != next(expected, None):
                    raise InvalidMessage(f"{self.name} reports another step than the next one of epoch {epoch}.")
        finally:
            reports.cancel()

    def finish_training(self, session_id: str, kept_epoch: int, slope_step: int = 0) -> tuple[float, ...]:
        """Have the party keep the weights of one epoch, scaled where scores are calibrated, and end its training.

        Returns:
            What its products had added while columns were centred, for the label party's bias; empty if they weren't.
        """
        request = passive_pb2.FinishTrainingRequest(session_id=session_id, kept_epoch=kept_epoch, slope_step=slope_step)
        # Where weights are opened now, the party waits for a peer's word as long as the timeout says.
        return tuple(self._stub.FinishTraining(request, timeout=self._timeout + _MARGIN).constants)

    def contribute_scores(self, session_id: str, request_id: int, rows: Sequence[int], masked: bytes = b"") -> bytes:
        """Have the party send its partial scores of some rows to the coordinator; returns its masked products."""
        request = passive_pb2.PartialScoresRequest(
            session_id=session_id, request_id=request_id, rows=rows, masked=masked
        )
        # The party asks the coordinator, which has as long as the timeout says.
        timeout = self._timeout + _MARGIN
        return self._health.insisting(lambda: self._stub.ContributeScores(request, timeout=timeout)).masked

    def disclose_parameters(self, session_id: str) -> Mapping[str, NDArray[Any]] | None:
        """Get the arrays of the party's part of the model, None when it discloses nothing (black box).

        Raises:
            InvalidMessage: for numbers that no model has.
        """
        request = common_pb2.SessionRequest(session_id=session_id)
        try:
            with naming(self.name):
                reply = self._stub.DiscloseParameters(request, timeout=self._timeout)
        except PeerRefused as refused:
            if refused.kind is OutOfOrder:
                return None
            raise
        limits.check_count(reply.arrays, limits.PART_ARRAYS, f"arrays of {self.name}'s part", least=1)
        return {one.name: _array_of(one) for one in reply.arrays}


def _array_of(message: passive_pb2.PartArray) -> NDArray[Any]:
    """Read an array of one or two axes, or a word; raises InvalidMessage."""
    limits.check_name(message.name)
    if message.word:
        limits.check_name(message.word)
        return np.array(message.word)
    if not 1 <= len(message.shape) <= 2:
        raise InvalidMessage("Expected arrays of one or two axes.")
    if not message.values and message.shape[0] == 0 and max(message.shape) <= limits.PART_ARRAYS:
        return np.zeros(tuple(message.shape))
    return matrix_of(math.prod(message.shape[:-1]), message.shape[-1], message.values).reshape(tuple(message.shape))
