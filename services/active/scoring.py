"""Scores of aligned records: every party's share goes to the coordinator, which answers the active party."""

import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Protocol

import numpy as np

from services.active.interfaces import PassiveParty
from services.active.waiting import first_failure
from services.common.agreement import Agreement
from services.common.limits import PREDICTION_ROWS
from services.common.scores import check_confidence_scores
from services.party.context import Coordinator
from vfl.arrays import FloatArray


class Scored(Protocol):
    """This party's share of the scores: a training's between epochs, or a finished model's."""

    @property
    def agreement(self) -> Agreement:
        """The session's public terms."""

    def partial_scores(self, rows: Sequence[int]) -> FloatArray:
        """Its share for rows of the common order, (len(rows), columns)."""


class Scoring:
    """Asks all parties for their shares of the scores, and the coordinator for their sum. Thread-safe."""

    def __init__(
        self, coordinator: Coordinator, passive_parties: Mapping[str, PassiveParty], executor: Executor
    ) -> None:
        self._coordinator = coordinator
        self._passive_parties = tuple(passive_parties.values())
        self._executor = executor

    def scores(self, own: Scored, rows: Sequence[int]) -> FloatArray:
        """Confidence scores of rows of the common order, (len(rows), classes); raises FederationError."""
        parts = [np.empty((0, own.agreement.classes))]
        for start in range(0, len(rows), PREDICTION_ROWS):
            parts.append(self._scores_of_part(own, rows[start : start + PREDICTION_ROWS]))
        return np.vstack(parts)

    def _scores_of_part(self, own: Scored, rows: Sequence[int]) -> FloatArray:
        session_id = own.agreement.session_id
        # Not counted: the coordinator may remember requests from before this process began.
        request_id = secrets.randbits(63)
        first_failure(
            [
                self._executor.submit(party.contribute_scores, session_id, request_id, rows)
                for party in self._passive_parties
            ]
        )
        scores = self._coordinator.score(session_id, request_id, own.partial_scores(rows))
        shape = (len(rows), own.agreement.classes)
        check_confidence_scores(scores, shape, are_defended=bool(own.agreement.score_defences))
        return scores
