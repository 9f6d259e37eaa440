"""A party's side with an adversary beside it, who hears what the learner asks and how it is answered."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, cast

import numpy as np

from services.common.learner_calls import LearnerCalls
from services.party.side import Side, SideSetting, StepAnswers
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.sharing.shares import Shares
from vfl.learning import Forward, Send
from vfl.learning.hearing import Told
from vfl.learning.learner import OwnRequest, Request


class Listener(Protocol):
    """What is heard beside a side; what peers' messages say is on its tape."""

    def own_share(self, step: int, share: FloatArray) -> None:
        """Compute the party's share of a step, before its own defences change it: (rows, columns) of the residual.

        Where a learner forwards, at a passive party: its products, (rows, h).
        """

    def told(self, step: int, parties: tuple[str, ...], what: Told) -> None:
        """Be told by an answer to a request of the learner's own; ``parties``: names, by their places."""


class Requests(Protocol):
    """What is asked in place of the learner's own requests."""

    def asked(self, step: int, request: OwnRequest) -> OwnRequest:
        """Choose what is asked."""

    def answered(self, step: int, request: OwnRequest, answer: Any) -> Any:
        """Choose what the learner is answered with."""


def listening(setting: SideSetting, side: Side, listener: Listener, requests: Requests | None = None) -> Side:
    """Put an adversary beside a side, who may ask something else than the learner."""
    return cast(Side, _ListeningSide(setting, side, listener, requests))


class _ListeningSide:
    """A side with an adversary beside it.

    Attributes:
        requests: what is asked in place of the learner's own; None for nothing else.
    """

    def __init__(self, setting: SideSetting, side: Side, listener: Listener, requests: Requests | None) -> None:
        self.requests = requests
        self._setting, self._side, self._listener = setting, side, listener
        agreement, learner = setting.agreement, setting.agreement.plan.family
        self._forwards = learner.spec.forwards
        self._is_label_party = setting.name == agreement.active.name
        self._parties = tuple(party.name for party in agreement.parties)
        self._calls = LearnerCalls(learner)
        self._hearing = self._calls(learner.hearing)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._side, name)

    @contextmanager
    def step(self, step: int, batch: IntArray) -> Iterator[StepAnswers]:
        """Begin a step, and hear its requests."""
        with self._side.step(step, batch) as answers:
            yield cast(StepAnswers, _HeardAnswers(self, step, answers))

    def hear(self, step: int, rows: IntArray, request: Request, answer: Any) -> None:
        """Hear a request, and what it was answered with."""
        values: Any
        match request:
            case Send(values) if not isinstance(values, Shares):
                self._listener.own_share(step, np.array(values, dtype=np.float64))
            case Forward(values) if self._forwards and not self._is_label_party and not isinstance(values, Shares):
                self._listener.own_share(step, self._setting.gridded.values[rows] @ values)
        if isinstance(request, OwnRequest):
            for what in self._calls(lambda: tuple(self._hearing.hear(request, answer))):
                self._listener.told(step, self._parties, what)


class _HeardAnswers:
    def __init__(self, side: _ListeningSide, number: int, answers: StepAnswers) -> None:
        self._side, self._number, self._answers = side, number, answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._answers, name)

    def answer(self, request: Request) -> Any:
        """Answer as the side does, or as an adversary has it."""
        requests = self._side.requests if isinstance(request, OwnRequest) else None
        replaced = request if requests is None else requests.asked(self._number, cast(OwnRequest, request))
        answer = self._answers.answer(replaced)
        self._side.hear(self._number, self.rows, replaced, answer)
        return answer if requests is None else requests.answered(self._number, cast(OwnRequest, replaced), answer)
