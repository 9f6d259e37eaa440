"""Single records that come while a request is under way are asked about together in the next. Opens no connection.

idle        a record is asked about at once, on its caller's own thread; nobody waits for company
under way   records wait; when the request has ended, all that wait are asked about together, until none waits

What several ask for at once, and what takes long, is one call (``SharedCall``).
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Generic, TypeVar

from services.common.errors import HoldsTooMuch, OutOfOrder, PeerVanished
from services.network.deadlines import answering_within, current_deadline

T = TypeVar("T")

# Registers what is called when a caller has gone; returns False where it has gone already, as gRPC's contexts do.
OnEnd = Callable[[Callable[[], None]], bool]

_LONGEST_WAIT_SECONDS = 1.0
# Requests that all have to be slow before the next one is expected to be.
_LAST_REQUESTS = 8
# Records that were refused alone: so many are remembered.
_SET_APART = 1_024


@dataclass(frozen=True, eq=False)
class _Waiting(Generic[T]):
    """A record that waits for the next request.

    Attributes:
        record: its id.
        deadline: its caller's, in seconds of time.monotonic.
        answer: to a request with this record in it; who didn't answer it; or None where several were refused together.
            Cancelled when its caller leaves. Never an error that was raised: it would keep its callers' frames.
    """

    record: str
    deadline: float
    answer: Future[T | PeerVanished | None]

    def leave(self) -> None:
        """Wait no longer. A record that has been asked about stays so."""
        self.answer.cancel()


def stays(_: Callable[[], None]) -> bool:
    """Stay for a caller that waits to the end."""
    return True


class Coalescing(Generic[T]):
    """Asks about single records, and about those that wait together. Thread-safe.

    Guarantee: every caller gets the answer, or the refusal in its words, that it would get alone. A refusal of several
    is nobody's: each of them is asked about alone. A record that was refused alone stays alone until it is answered, so
    that who insists on it disturbs nobody. A party that doesn't answer costs all who wait for it one deadline.
    """

    def __init__(
        self, ask: Callable[[Sequence[str]], T], *, most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Ask by ``ask``, which takes record ids, ``most`` at once, and may be called from several threads."""
        self._ask = ask
        self._most = most
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="coalescing")
        self._lock = Lock()
        self._waiting: deque[_Waiting[T]] = deque()
        self._apart: OrderedDict[str, None] = OrderedDict()
        self._is_closed = False
        self._begun: float | None = None
        # Seconds that the last requests took.
        self._took = deque([0.0] * _LAST_REQUESTS, maxlen=_LAST_REQUESTS)

    def __call__(self, record: str, on_end: OnEnd = stays) -> T:
        """Answer a request with this record in it, or about it alone.

        Args:
            record: its id.
            on_end: told what to call when the caller has gone. A record that waits then leaves.

        Raises:
            HoldsTooMuch: when it would wait for longer than a second.
            OutOfOrder: when its caller has gone meanwhile, or this party is stopping.
        """
        with self._lock:
            if self._is_closed:
                raise OutOfOrder("The active party is stopping: ask again when it has started.")
            if record in self._apart:
                ask = partial(self._alone, record)
            elif self._begun is None:
                self._begun = self._clock()
                ask = partial(self._at_once, record)
            else:
                self._check_wait()
                request = _Waiting[T](record, current_deadline(), Future())
                self._waiting.append(request)
                ask = partial(self._together, request, on_end)
        return ask()

    def close(self) -> None:
        """Ask nothing any more; who waits is told so."""
        with self._lock:
            self._is_closed = True
            for request in self._waiting:
                request.leave()
            self._waiting.clear()
        self._thread.shutdown(wait=False)

    def _check_wait(self) -> None:
        usual, under_way = min(self._took), self._clock() - (self._begun or 0.0)
        # Of the request under way, which is expected to be late for as long again as it is, and of those in between.
        expected = abs(usual - under_way) + len(self._waiting) // self._most * usual
        if expected > _LONGEST_WAIT_SECONDS:
            waiting = sum(not one.answer.cancelled() for one in self._waiting)
            raise HoldsTooMuch(
                f"The active party is busy: {waiting} records wait for the end of a request that has taken "
                f"{under_way:.1f} s so far. Ask again in a few seconds. `plumbline status` says whether a party is "
                "missing."
            )

    def _together(self, request: _Waiting[T], on_end: OnEnd) -> T:
        if not on_end(request.leave):
            request.leave()
        try:
            answer = request.answer.result()
        except CancelledError:
            raise OutOfOrder("Nobody was asked: the caller has gone, or the active party is stopping.") from None
        if isinstance(answer, PeerVanished):
            raise PeerVanished(str(answer))
        return self._alone(request.record) if answer is None else answer

    def _at_once(self, record: str) -> T:
        try:
            answer = self._alone(record)
            self._note_duration()
            return answer
        finally:
            with self._lock:
                if self._waiting:
                    self._begun = self._clock()
                    self._thread.submit(self._ask_those_who_wait)
                else:
                    self._begun = None

    def _alone(self, record: str) -> T:
        try:
            answer = self._ask([record])
        except PeerVanished:
            raise
        except Exception:
            with self._lock:
                self._apart[record] = None
                if len(self._apart) > _SET_APART:
                    self._apart.popitem(last=False)
            raise
        with self._lock:
            self._apart.pop(record, None)
        return answer

    def _ask_those_who_wait(self) -> None:
        while group := self._next_group():
            answer = self._answer_of(group)
            for request in group:
                request.answer.set_result(answer)

    def _answer_of(self, group: Sequence[_Waiting[T]]) -> T | PeerVanished | None:
        try:
            # None of them has more time than the one who has most; the others leave.
            with answering_within(max(one.deadline for one in group) - time.monotonic()):
                answer = self._ask(list(dict.fromkeys(one.record for one in group)))
        except PeerVanished as vanished:
            return PeerVanished(str(vanished))
        except Exception:
            return None
        self._note_duration()
        return answer

    def _next_group(self) -> list[_Waiting[T]]:
        """Take those who are asked about next, without who has left; empty where nobody waits any more."""
        with self._lock:
            group = list[_Waiting[T]]()
            while self._waiting and len(group) < self._most:
                request = self._waiting.popleft()
                if request.answer.set_running_or_notify_cancel():
                    group.append(request)
            self._begun = self._clock() if group else None
            return group

    def _note_duration(self) -> None:
        self._took.append(self._clock() - (self._begun or 0.0))


class SharedCall(Generic[T]):
    """Runs ``work`` for the first who asks; who comes meanwhile gets the same result, or the same error. Thread-safe.

    So a party that hangs costs all of them one deadline, and not one after the other's.
    """

    def __init__(self, work: Callable[[], T], *, patience: float) -> None:
        """Share ``work``.

        Args:
            work: has deadlines of its own.
            patience: seconds that somebody waits at most for a call that another has begun.
        """
        self._work = work
        self._patience = patience
        self._lock = threading.Lock()
        self._call: Future[T] | None = None

    def __call__(self) -> T:
        """Give the result.

        Raises:
            OutOfOrder: when another's call takes longer than anybody should wait.
        """
        with self._lock:
            call = self._call
            is_own = call is None or call.done()
            if call is None or is_own:
                call = self._call = Future()
        if is_own:
            self._run(call)
        try:
            return call.result(self._patience)
        except TimeoutError:
            if call.done():
                raise
            raise OutOfOrder("Another caller has waited for the same for long: ask again later.") from None

    def forget(self) -> None:
        """Share the call at work with nobody who asks from now on: what it finds may be of before."""
        with self._lock:
            self._call = None

    def _run(self, call: Future[T]) -> None:
        try:
            result = self._work()
        except BaseException as error:
            call.set_exception(error)
        else:
            call.set_result(result)
