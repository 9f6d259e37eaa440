"""How far the job at work is, and whether the others answer: what an operator is shown. Knows no network."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from services.active.interfaces import EpochOutcome, JobObserver
from services.common.alignment import LoggedProgress
from services.common.heartbeat import Answer, Heartbeat
from services.party.ending import Ending
from vfl.crypto.curve25519 import COORDINATE_BYTES
from vfl.data import BlindedIds

_log = logging.getLogger(__name__)


class AlignmentProgress:
    """Counts the blinded ids that one job's alignments have received and sent, and tells how many are to come.

    With each passive party its ids arrive once, and this party's travel there and back. How many a party has is known
    when it answers: until then it counts as having as many as this one.
    """

    def __init__(self, tell: Callable[[int, int], None], own_ids: int, parties: int) -> None:
        """Begin to count.

        Args:
            tell: is told (done, planned) ids after every chunk.
            own_ids: of this party's table.
            parties: how many passive parties it aligns with, in turn.
        """
        self._tell = tell
        self._left_parties = parties
        self._done = 0
        self._begun = 0  # planned for the parties that have been turned to
        self._remaining = own_ids
        self._log = LoggedProgress("Aligning: %s of %s blinded ids.")

    def setup_of(self, setup: BlindedIds, remaining: int) -> BlindedIds:
        """Count the next party's ids as they arrive. ``remaining``: how many ids this party still asks about."""
        self._remaining = remaining
        self._left_parties -= 1
        self._begun += setup.count + 2 * self._remaining
        return replace(setup, chunks=self.counted(setup.chunks))

    def counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Count each chunk once the next is asked for: it has been worked on by then, or is at work."""
        for chunk in chunks:
            yield chunk
            self._count(len(chunk) // COORDINATE_BYTES)

    def _count(self, ids: int) -> None:
        self._done += ids
        planned = max(self._done, self._begun + 3 * self._remaining * self._left_parties)
        self._tell(self._done, planned)
        self._log.note(self._done, planned)


# Who asks for the status wants it soon.
_SECONDS = 2.0
_ABSENT = frozenset({Answer.UNREACHABLE, Answer.SILENT})


class Reachability:
    """Asks all other parties at once whether they are there. Who asks meanwhile shares the answers. Takes no thread."""

    def __init__(self, heartbeats: Mapping[str, Heartbeat]) -> None:
        self._heartbeats = dict(heartbeats)
        self._lock = threading.Lock()
        self._asked: Future[dict[str, bool]] | None = None

    def ask(self) -> "Future[dict[str, bool]]":
        """Ask without waiting: whether each party answers, by name, is there in about two seconds at most."""
        with self._lock:
            if self._asked is not None and not self._asked.done():
                return self._asked
            question = self._asked = Future()
        answers: dict[str, bool] = {}
        if not self._heartbeats:
            question.set_result(answers)
        for name, heartbeat in self._heartbeats.items():
            # About no session: what it says is no matter, only that it says something.
            heartbeat.ask("", _SECONDS, partial(self._note, question, answers, name))
        return question

    def _note(self, question: "Future[dict[str, bool]]", answers: dict[str, bool], name: str, answer: Answer) -> None:
        with self._lock:
            answers[name] = answer not in _ABSENT
            is_complete = len(answers) == len(self._heartbeats)
        if is_complete:
            question.set_result(answers)


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
        waiting_for: names of the parties that an interrupted training waits for.
        waiting_since: when it was interrupted, in seconds of the wall's clock; None while it goes on.
        interruptions: after which it has gone on.
    """

    steps_done: int = 0
    steps_planned: int = 0
    epochs_done: int = 0
    validation_loss: float | None = None
    seconds_left: float | None = None
    at_work: str = ""
    waiting_for: tuple[str, ...] = ()
    waiting_since: float | None = None
    interruptions: int = 0


class Observers:
    """A job's observers, who hear no more of it once it was interrupted."""

    def __init__(self, ending: Ending, observers: Sequence[JobObserver]) -> None:
        self._ending, self._observers = ending, observers

    def stage(self, name: str) -> None:
        """Begin a stage."""
        with self._ending.while_open():
            for observer in self._observers:
                observer.stage(name)

    def step(self, done: int, planned: int, what: str = "") -> None:
        """``done`` of ``planned`` ids, steps or attacks of the stage are over; ``what``: the attack at work."""
        with self._ending.while_open():
            for observer in self._observers:
                observer.step(done, planned, what)

    def epoch(self, outcome: EpochOutcome) -> None:
        """Note that an epoch is over."""
        with self._ending.while_open():
            for observer in self._observers:
                observer.epoch(outcome)


class LogObserver:
    """Watches a job that nobody asked for over the wire (autostart)."""

    def __init__(self) -> None:
        self._stage, self._twentieths = "", 0

    def stage(self, name: str) -> None:
        """Begin a stage."""
        self._stage, self._twentieths = name, 0

    def step(self, done: int, planned: int, what: str = "") -> None:
        """Log every twentieth of a stage."""
        twentieths = 20 * done // planned
        # An alignment has a log of its own, in ids.
        if twentieths > self._twentieths and self._stage != "aligning":
            _log.info("Step %d of %d.", done, planned)
        self._twentieths = twentieths

    def epoch(self, outcome: EpochOutcome) -> None:
        """Log an epoch."""
        loss = "" if math.isnan(outcome.validation_loss) else f"validation loss {outcome.validation_loss:.4f}, "
        _log.info("Epoch %d: %s%.1f s.", outcome.epoch, loss, outcome.seconds)


class ProgressMeter:
    """Watches one job, and tells how far it is. Thread-safe."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, tell_stage: Callable[[str], object] = lambda _: None
    ) -> None:
        """Begin; ``tell_stage`` is told of stages as they begin."""
        self._clock, self._tell_stage = clock, tell_stage
        self._lock = threading.Lock()
        self._progress = JobProgress()
        self._began = self._stepped = clock()

    def stage(self, name: str) -> None:
        """Begin a stage: no step of it is done."""
        with self._lock:
            self._progress = replace(self._progress, steps_done=0, steps_planned=0, at_work="")
            self._began = self._stepped = self._clock()
        self._tell_stage(name)

    def step(self, done: int, planned: int, what: str = "") -> None:
        """``done`` of ``planned`` ids, steps or attacks of the stage are over; ``what``: the attack at work."""
        with self._lock:
            self._progress = replace(self._progress, steps_done=done, steps_planned=planned, at_work=what)
            self._stepped = self._clock()

    def epoch(self, outcome: EpochOutcome) -> None:
        """Note that an epoch is over."""
        with self._lock:
            self._progress = replace(self._progress, epochs_done=outcome.epoch + 1)
            if not math.isnan(outcome.validation_loss):
                self._progress = replace(self._progress, validation_loss=outcome.validation_loss)

    def now(self) -> JobProgress:
        """Tell how far the job is now."""
        with self._lock:
            return replace(self._progress, seconds_left=self._seconds_left())

    def _seconds_left(self) -> float | None:
        done, planned = self._progress.steps_done, self._progress.steps_planned
        if not done:
            return None
        at_this_pace = (self._stepped - self._began) / done * (planned - done)
        return max(0.0, at_this_pace - (self._clock() - self._stepped))
