"""Scores of aligned records: every party's share goes to the coordinator, which answers the active party."""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Executor, Future, wait
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Protocol

import numpy as np

from services.active.interfaces import PassiveParty
from services.common.agreement import Agreement
from services.common.limits import PREDICTION_ROWS
from services.common.scores import check_confidence_scores
from services.network.deadlines import carrying_the_deadline
from services.party.context import Coordinator
from vfl.arrays import FloatArray, IntArray


def first_failure(futures: Iterable[Future[None]]) -> None:
    """Wait for all, or for the first that fails: its error is raised, and nobody waits for the others."""
    futures = list(futures)
    wait(futures, return_when=FIRST_EXCEPTION)
    for future in futures:
        if future.done():
            future.result()


@dataclass(frozen=True, eq=False)
class Predictions(Mapping[str, FloatArray]):
    """The confidence scores of some records, (classes,) each, by id; as one array for whoever asks for many.

    Attributes:
        ids: each once, in the order of the first question for it.
        scores: (len(ids), classes).
    """

    ids: Sequence[str]
    scores: FloatArray

    def places(self, asked: Sequence[str]) -> IntArray:
        """The row of ``scores`` of each id that was asked for, (len(asked),); -1 where there is none."""
        return np.fromiter(map(self._place_of.get, asked, repeat(-1)), dtype=np.int64, count=len(asked))

    def __getitem__(self, record: str) -> FloatArray:
        found: FloatArray = self.scores[self._place_of[record]]
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def _place_of(self) -> Mapping[str, int]:
        return dict(zip(self.ids, range(len(self.ids)), strict=True))


class Scored(Protocol):
    """This party's share of the scores: a training's between epochs, or a finished model's."""

    @property
    def agreement(self) -> Agreement:
        """The session's public terms."""

    def partial_scores(self, rows: Sequence[int]) -> FloatArray:
        """Its share for rows of the common order, (len(rows), columns)."""


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows whose shares the passive parties are sending."""

    rows: Sequence[int]
    request_id: int
    sending: Sequence[Future[None]]


class Scoring:
    """Asks all parties for their shares of the scores, and the coordinator for their sum. Thread-safe.

    Rows are asked about part by part. While the coordinator adds up one, the passive parties send their shares of the
    next. Not where scores are defended: what was asked for and isn't answered when a process dies stays unanswered.
    """

    def __init__(
        self, coordinator: Coordinator, passive_parties: Mapping[str, PassiveParty], executor: Executor
    ) -> None:
        self._coordinator = coordinator
        self._passive_parties = tuple(passive_parties.values())
        self._executor = executor

    def scores(self, own: Scored, rows: Sequence[int]) -> FloatArray:
        """Confidence scores of rows of the common order, (len(rows), classes); raises FederationError."""
        starts = range(0, len(rows), PREDICTION_ROWS)
        parts = (self._begin(own, rows[start : start + PREDICTION_ROWS]) for start in starts)
        ordered = parts if own.agreement.score_defences else _one_ahead(parts)
        return np.vstack([np.empty((0, own.agreement.classes)), *(self._finish(own, part) for part in ordered)])

    def _begin(self, own: Scored, rows: Sequence[int]) -> _Part:
        """Have the passive parties send their shares of some rows."""
        session_id = own.agreement.session_id
        # Not counted: the coordinator may remember requests from before this process began.
        request_id = secrets.randbits(63)
        sending = [
            self._executor.submit(carrying_the_deadline(party.contribute_scores, session_id, request_id, rows))
            for party in self._passive_parties
        ]
        return _Part(rows, request_id, sending)

    def _finish(self, own: Scored, part: _Part) -> FloatArray:
        """Wait for the shares of a part, and have the coordinator add them up."""
        products = own.partial_scores(part.rows)
        first_failure(part.sending)
        scores = self._coordinator.score(own.agreement.session_id, part.request_id, products)
        shape = (len(part.rows), own.agreement.classes)
        check_confidence_scores(scores, shape, are_defended=bool(own.agreement.score_defences))
        return scores


def _one_ahead(parts: Iterator[_Part]) -> Iterator[_Part]:
    """The parts, each when the one after it has begun."""
    before: _Part | None = None
    for part in parts:
        if before is not None:
            yield before
        before = part
    if before is not None:
        yield before
