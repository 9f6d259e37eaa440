"""Calls a learner, whose code may be another package's: whatever it does wrong ends its session, with its name."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from services.common.errors import FederationError, OutOfOrder
from vfl.arrays import FloatArray
from vfl.learning import Ask, Forward, Learner, LearnerError, Send, registry
from vfl.learning.learner import Request, Step

_log = logging.getLogger(__name__)

T = TypeVar("T")


class LearnerFailed(OutOfOrder):
    """A learner has raised, hangs, or has asked for what no learner may."""


@dataclass(frozen=True)
class LearnerCalls:
    """Calls one learner's code.

    Attributes:
        learner: whose.
        timeout: seconds that a call may take; only another package's is watched.
    """

    learner: Learner
    timeout: float

    def __call__(self, work: Callable[[], T]) -> T:
        """What ``work`` gives.

        Raises:
            LearnerFailed: for whatever it raises, in the learner's own words where it has some, and after the timeout.
        """
        try:
            return work() if registry.is_built_in(self.learner.name) else _within(self.timeout, work)
        except LearnerError as error:
            raise LearnerFailed(f"learner {self.learner.name}: {error}") from error
        except FederationError:
            raise
        except _Hangs as hangs:
            raise LearnerFailed(
                f"learner {self.learner.name} takes longer than the {self.timeout:g} s of a step's timeout."
            ) from hangs
        except (Exception, SystemExit) as error:
            _log.exception("Learner %s failed.", self.learner.name)
            raise LearnerFailed(f"learner {self.learner.name} failed with {type(error).__name__}.") from error

    def next_request(self, step: Step, answer: FloatArray | None = None) -> Request | None:
        """What a step asks for next, after the answer to the last; None at its end."""

        def asked() -> Request | None:
            try:
                return step.send(answer)
            except StopIteration:
                return None

        request = self(asked)
        if request is not None and not isinstance(request, Forward | Send | Ask):
            raise self.refused("yields something else than Forward, Send or Ask")
        return request

    def checked(self, values: FloatArray, shape: tuple[int | None, ...], what: str) -> FloatArray:
        """The learner's values, once they are what the contract says; None stands for any length.

        Raises:
            LearnerFailed: for anything else.
        """
        if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.ndim != len(shape):
            raise self.refused(f"gives {what} that are no {len(shape)}-dimensional float64 array")
        if any(expected not in (None, found) for found, expected in zip(values.shape, shape, strict=True)):
            expected = " x ".join("any" if length is None else str(length) for length in shape)
            raise self.refused(f"gives {what} of shape {' x '.join(map(str, values.shape))}, expected {expected}")
        return values

    def refused(self, why: str) -> LearnerFailed:
        """The error of a learner that has done what none may."""
        return LearnerFailed(f"learner {self.learner.name} {why}.")


class _Hangs(Exception):
    """A call isn't over in time."""


def _within(seconds: float, work: Callable[[], T]) -> T:
    """Do work on a thread that is left alone when it takes longer; raises _Hangs then, else what the work raises."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="learner", daemon=True).start()
    if not wait([done], seconds).done:
        raise _Hangs
    return done.result()
