"""How far the job at work is, and how long its stage may still take at the pace of its steps so far."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from services.active.interfaces import EpochOutcome


@dataclass(frozen=True)
class JobProgress:
    """How far a job is.

    Attributes:
        steps_done: of the stage at work: ids while aligning, attacks while attacking.
        steps_planned: of the stage at work; 0 where it has none.
        epochs_done: trained epochs.
        validation_loss: of the last epoch that was validated, in nats; None before its end.
        seconds_left: until the stage's end; None before its first step.
        at_work: which attack is; empty elsewhere.
    """

    steps_done: int = 0
    steps_planned: int = 0
    epochs_done: int = 0
    validation_loss: float | None = None
    seconds_left: float | None = None
    at_work: str = ""


class ProgressMeter:
    """Watches one job, and tells how far it is. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._progress = JobProgress()
        self._began = self._stepped = clock()

    def stage(self, name: str) -> None:
        """A stage begins: no step of it is done."""
        with self._lock:
            self._progress = replace(self._progress, steps_done=0, steps_planned=0, at_work="")
            self._began = self._stepped = self._clock()

    def step(self, done: int, planned: int, what: str = "") -> None:
        """``done`` of ``planned`` ids, steps or attacks of the stage are over; ``what``: the attack at work."""
        with self._lock:
            self._progress = replace(self._progress, steps_done=done, steps_planned=planned, at_work=what)
            self._stepped = self._clock()

    def epoch(self, outcome: EpochOutcome) -> None:
        """An epoch is over."""
        with self._lock:
            self._progress = replace(self._progress, epochs_done=outcome.epoch + 1)
            if not math.isnan(outcome.validation_loss):
                self._progress = replace(self._progress, validation_loss=outcome.validation_loss)

    def now(self) -> JobProgress:
        """How far the job is now."""
        with self._lock:
            return replace(self._progress, seconds_left=self._seconds_left())

    def _seconds_left(self) -> float | None:
        done, planned = self._progress.steps_done, self._progress.steps_planned
        if not done:
            return None
        at_this_pace = (self._stepped - self._began) / done * (planned - done)
        return max(0.0, at_this_pace - (self._clock() - self._stepped))
