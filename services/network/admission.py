"""Who is inside: the calls that a server works on, how many each caller may have there, and who is cut off.

A call holds a thread. It may do so for as long as this party works on it, but only for a bounded time while it waits
for its caller: for the next message, or until an answer is read. One thread of the server looks through all calls
twice a second, so that a call costs no timer of its own.
"""

import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from services.common.errors import HoldsTooMuch
from services.network.call_limits import CALLS_PER_CALLER, CallLimits

_SECONDS_BETWEEN_LOOKS = 0.5
# A caller with too many calls loses those first that have waited for it this long.
_IDLE_SECONDS = 0.5

Clock = Callable[[], float]
T = TypeVar("T")


class CallCut(Exception):
    """This party has ended the call: its caller kept it waiting, or has too many."""


class HeldCall:
    """One call inside: whether it waits for its caller, and how to end it.

    Attributes:
        limits: of its method.
        method: /package.Service/Method.
        why_cut: the sentence it was cut off with, empty while it wasn't.
    """

    def __init__(self, method: str, limits: CallLimits, end: Callable[[str], None], clock: Clock) -> None:
        self.method = method
        self.limits = limits
        self.why_cut = ""
        self._end = end
        self._clock = clock
        self._begin = clock()
        self._waits_since: float | None = None
        self._reads = False

    def next_of(self, messages: Iterator[T]) -> T:
        """Wait for the caller's next message, for which it has as long as the limits say.

        Raises:
            StopIteration: when the caller has said that there is none.
            CallCut: when the call was cut off meanwhile.
        """
        self._reads, self._waits_since = True, self._clock()
        try:
            return next(messages)
        except Exception as error:
            # What gRPC makes of a call that is cut off: an error, or the end of the stream, as if all were there.
            if self.why_cut:
                raise CallCut(self.why_cut) from error
            raise
        finally:
            self._reads, self._waits_since = False, None

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Time the wait until an answer fits into the connection and the next is asked for."""
        self._waits_since = self._clock()
        try:
            yield
        finally:
            self._waits_since = None

    def waited(self) -> float:
        """Count the seconds that the caller has kept this call waiting now."""
        since = self._waits_since
        return 0.0 if since is None else self._clock() - since

    def complaint(self) -> str:
        """Say why the caller is too slow; empty while it isn't."""
        if self.waited() > self.limits.patience:
            what = "No message came" if self._reads else "Nobody read the answer"
            return f"{what} for {self.limits.patience:g} s: the call was ended. Call again."
        is_late = self.limits.reading is not None and self._clock() - self._begin > self.limits.reading
        if self._reads and is_late:
            return f"The request wasn't complete after {self.limits.reading:g} s: the call was ended. Call again."
        return ""

    def cut(self, why: str) -> None:
        """End the call with this sentence; its thread is free as soon as it notices."""
        self.why_cut = why
        self._end(why)


class Admission:
    """Lets calls in, up to each caller's limits, and cuts off those whose caller keeps them waiting. Thread-safe."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._inside: defaultdict[Hashable, set[HeldCall]] = defaultdict(set)

    @contextmanager
    def held(self, caller: Hashable, method: str, limits: CallLimits, end: Callable[[str], None]) -> Iterator[HeldCall]:
        """Let a call of ``caller`` in until this context ends.

        A caller that has too many inside loses the one that waits for it longest, if any does.

        Args:
            caller: whose places the call takes: all callers without an identity are one.
            method: /package.Service/Method.
            limits: of the method.
            end: ends the call from another thread, with a sentence for the caller.

        Raises:
            HoldsTooMuch: when the caller has as many calls at work as it may.
        """
        call = HeldCall(method, limits, end, self._clock)
        idle = self._let_in(caller, call)
        try:
            if idle is not None:
                idle.cut("This caller made more calls than it may have at once, and this one was idle.")
            yield call
        finally:
            with self._lock:
                self._inside[caller].discard(call)
                if not self._inside[caller]:
                    del self._inside[caller]

    def _let_in(self, caller: Hashable, call: HeldCall) -> HeldCall | None:
        """Count the call in; returns the one that makes room for it, counted out."""
        with self._lock:
            inside = self._inside[caller]
            crowd = _crowd(inside, call)
            idle = max(crowd, key=HeldCall.waited, default=None)
            if idle is not None and idle.waited() < _IDLE_SECONDS:
                raise HoldsTooMuch(
                    f"This caller has {len(crowd)} calls at work here, as many as it may: wait until one has ended."
                )
            if idle is not None:
                inside.remove(idle)
            inside.add(call)
            return idle

    def inside(self) -> int:
        """Count the calls that are held now."""
        with self._lock:
            return sum(len(calls) for calls in self._inside.values())

    def cut_the_slow(self) -> None:
        """Cut off every call whose caller has kept it waiting for too long."""
        with self._lock:
            calls = [call for inside in self._inside.values() for call in inside if not call.why_cut]
        for call in calls:
            if why := call.complaint():
                call.cut(why)


def _crowd(inside: Iterable[HeldCall], call: HeldCall) -> list[HeldCall]:
    """List the calls that leave no place for one more of this method; empty when there is place."""
    alike = [other for other in inside if other.method == call.method]
    if len(alike) >= call.limits.at_once:
        return alike
    neighbours = [other for other in inside if other.limits.pool is call.limits.pool]
    return neighbours if len(neighbours) >= CALLS_PER_CALLER else []


def call_regularly(look: Callable[[], None]) -> None:
    """Call a bound method twice a second on a thread of its own, for as long as its object lives."""
    method = weakref.WeakMethod(look)

    def run() -> None:
        while (look := method()) is not None:
            look()
            del look
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    threading.Thread(target=run, name="gate", daemon=True).start()
