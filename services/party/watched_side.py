"""Watches another package's side of a protocol: what it does wrong ends the session, with the protocol's name."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from services.common import protocols
from services.common.meters import StageTimer
from services.common.protocol_calls import ProtocolCalls, Watched
from services.exchange.peer import Inbox
from services.party.side import Side, SideSetting, StepAnswers
from services.party.turned_columns import Turn
from vfl.arrays import IntArray
from vfl.crypto.sharing.shares import Shares
from vfl.learning import Ask, BatchSchedule, BlockSchedule, Forward, Send
from vfl.learning.learner import Request


def watched(setting: SideSetting, side: Side) -> Side:
    """Watch a side where its protocol is another package's."""
    plan = setting.agreement.plan
    if protocols.is_built_in(plan.protocol):
        return side
    timeout = setting.means.timeout
    # A request may wait for every peer in turn.
    calls = ProtocolCalls(plan.protocol, timeout, timeout * len(setting.agreement.parties))
    if not _has("step", "part")(calls(lambda: side.half)):
        raise calls.refused("has no half of the learner")
    return cast(Side, _WatchedSide(setting, side, calls))


def _has(*methods: str) -> Callable[[Any], bool]:
    return lambda value: all(callable(getattr(value, method, None)) for method in methods)


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


_ATTRIBUTES: Mapping[str, Callable[[Any], bool]] = {
    **{name: _is(bool) for name in ("goes_back_anew", "counts_redone", "left_range", "has_ended")},
    **{name: _is(float, type(None)) for name in ("sent_step", "validated_loss")},
    "turn": _is(Turn),
    "schedule": _is(BatchSchedule, BlockSchedule),
    # Messages reach no other.
    "exchange": _is(Inbox),
    "part": lambda value: value is None or _has("shares", "arrays")(value),
    "weights": lambda value: value is not None,
}
_RESULTS: Mapping[str, Callable[[Any], bool]] = {"must_end": _is(bool), "asked": _is(frozenset)}
_ANSWERS: Mapping[str, Callable[[Any], bool]] = {
    "timer": _is(StageTimer),
    "is_passed_over": _is(bool),
    "rows": lambda value: isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iu",
}


class _WatchedSide(Watched):
    has, gives = _ATTRIBUTES, _RESULTS

    def __init__(self, setting: SideSetting, side: Side, calls: ProtocolCalls) -> None:
        super().__init__(calls, side)
        self._setting = setting

    @contextmanager
    def step(self, step: int, batch: IntArray) -> Iterator[StepAnswers]:
        """Begin a step; an error of the learner's, or of what it was answered, is nothing that a side may pass over."""
        manager = self._calls(lambda: self._thing.step(step, batch))
        answers = self._calls(manager.__enter__)
        try:
            yield cast(StepAnswers, _WatchedAnswers(self._setting, answers, self._calls))
        except BaseException as error:
            raised = error
            self._calls(lambda: manager.__exit__(type(raised), raised, raised.__traceback__))
            raise
        else:
            self._calls(lambda: manager.__exit__(None, None, None))


class _WatchedAnswers(Watched):
    has = _ANSWERS

    def __init__(self, setting: SideSetting, answers: StepAnswers, calls: ProtocolCalls) -> None:
        super().__init__(calls, answers)
        self._setting = setting

    def answer(self, request: Request) -> Any:
        """Answer a request with numbers of the shape that the learner's contract says; opaque shares have their own."""
        values = self._calls(lambda: self._thing.answer(request))
        features = self._setting.gridded.values.shape[1]
        match request:
            case Forward(weights) if not isinstance(values, Shares):
                return self._calls.checked_numbers(values, (len(self.rows), weights.shape[-1]), "products")
            case Ask() if not isinstance(values, Shares):
                columns = self._setting.agreement.residual_columns
                return self._calls.checked_numbers(values, (features, columns), "sums")
            case Send() if values is not None:
                raise self._calls.refused("answers what is only sent")
        return values
