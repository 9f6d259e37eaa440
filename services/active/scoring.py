"""Scores of aligned records: every party's share goes to the coordinator, which answers the active party."""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Executor, Future, wait
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np

from services.active.interfaces import PassiveParty
from services.common.limits import PREDICTION_ROWS, SHARE_VALUES
from services.common.protocols import Asking
from services.common.scores import check_confidence_scores
from services.network.deadlines import carrying_the_deadline
from services.party.context import Coordinator
from services.party.party_model import PartyModel
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import Engine


def first_failure(futures: Iterable[Future[Any]]) -> None:
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

    def places(self, record_ids: Sequence[str]) -> IntArray:
        """Find the row of ``scores`` of each id that was asked for, (len(record_ids),); -1 where there is none."""
        return np.fromiter(map(self._place_of.get, record_ids, repeat(-1)), dtype=np.int64, count=len(record_ids))

    def __getitem__(self, record: str) -> FloatArray:
        record_scores: FloatArray = self.scores[self._place_of[record]]
        return record_scores

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def _place_of(self) -> Mapping[str, int]:
        return dict(zip(self.ids, range(len(self.ids)), strict=True))


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows whose shares the passive parties are sending, by name; and what was asked of them."""

    rows: Sequence[int]
    request_id: int
    sending: Mapping[str, Future[bytes]]
    asked: Asking


class Scoring:
    """Asks all parties for their shares of the scores, and the coordinator for their sum. Thread-safe.

    Rows are asked about part by part. While the coordinator adds up one, the passive parties send their shares of the
    next. Not where scores are defended: what was asked for and isn't answered when a process dies stays unanswered.
    """

    def __init__(
        self, coordinator: Coordinator, passive_parties: Mapping[str, PassiveParty], executor: Executor, engine: Engine
    ) -> None:
        self._coordinator = coordinator
        self._passive_parties = passive_parties
        self._executor = executor
        self._engine = engine

    def scores(self, model: PartyModel, rows: Sequence[int]) -> FloatArray:
        """Score rows of the common order, (len(rows), classes); raises FederationError."""
        return model.scores_of(self.answers(model, rows), len(rows))

    def answers(self, model: PartyModel, rows: Sequence[int]) -> FloatArray:
        """Give what this party is told: confidence scores, or sums of a forwarded layer, (len(rows), outputs).

        Raises:
            FederationError: where there is none, or one that can't be.
        """
        at_most = SHARE_VALUES // model.agreement.outputs
        most = model.agreement.serving.most_records(min(at_most, PREDICTION_ROWS))
        starts = range(0, len(rows), most)
        parts = (self._begin(model, rows[start : start + most]) for start in starts)
        ordered = parts if model.agreement.score_defences else _one_ahead(parts)
        classes = model.agreement.classes
        is_scored = model.agreement.answers == "scores"
        columns = classes if is_scored else model.agreement.plan.calls.told(classes)
        return np.vstack([np.empty((0, columns)), *(self._finish(model, part) for part in ordered)])

    def _begin(self, model: PartyModel, rows: Sequence[int]) -> _Part:
        """Have the passive parties send their shares of some rows."""
        session_id = model.agreement.session_id
        # Not counted: the coordinator may remember requests from before this process began.
        request_id = secrets.randbits(63)
        question = model.agreement.serving.ask(model, rows, self._engine)
        sending = {
            name: self._executor.submit(
                carrying_the_deadline(party.contribute_scores, session_id, request_id, rows, masked)
            )
            for name, party in self._passive_parties.items()
            for masked in [question.masked_for(name)]
        }
        return _Part(rows, request_id, sending, question)

    def _finish(self, model: PartyModel, part: _Part) -> FloatArray:
        """Wait for the shares of a part, and have the coordinator add them up."""

        def answers() -> dict[str, bytes]:
            first_failure(part.sending.values())
            return {name: sent.result() for name, sent in part.sending.items()}

        products = part.asked.products(answers)
        answer = part.asked.read(self._coordinator.score(model.agreement.session_id, part.request_id, products))
        scores, shape = model.scores_of(answer, len(part.rows)), (len(part.rows), model.agreement.classes)
        check_confidence_scores(scores, shape, are_defended=bool(model.agreement.score_defences))
        return answer


def _one_ahead(parts: Iterator[_Part]) -> Iterator[_Part]:
    """Give the parts, each when the one after it has begun."""
    before: _Part | None = None
    for part in parts:
        if before is not None:
            yield before
        before = part
    if before is not None:
        yield before
