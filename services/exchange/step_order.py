"""In which step of a session a party is, for its own loop and for its peers' threads at once. Knows no message."""

import threading
from collections.abc import Callable
from typing import TypeVar

from services.common.errors import FederationError, InvalidMessage, OutOfOrder, PeerVanished, Suspended
from services.common.plugin_calls import waiting_for_others

T = TypeVar("T")


class StepOrder(threading.Condition):
    """The lock of what a party's loop and its peers share: where the party is, and why the session has ended.

    Attributes:
        steps: how many the session has.
        step: the one that the party is at. A peer is at most one ahead or behind.
        ended: why the session has ended; None while it goes on.
    """

    def __init__(self, steps: int, timeout: float, step: int = 0) -> None:
        """Begin at a step of a session of so many; who waits does so for ``timeout`` seconds."""
        super().__init__()
        self.steps, self.step = steps, step
        self.ended: FederationError | None = None
        self._timeout = timeout

    def check(self, step: int, *, earliest: int | None = None, latest: int | None = None) -> None:
        """Raise InvalidMessage for a step that no session has, OutOfOrder for one that isn't this one or the next.

        Args:
            step: a message's.
            earliest: may be another than the party's own.
            latest: may be another than the one behind it.
        """
        self.refuse_if_ended()
        if not 0 <= step < self.steps:
            raise InvalidMessage(f"Expected a step from 0 to {self.steps - 1}, got {step}.")
        earliest, latest = self.step if earliest is None else earliest, self.step + 1 if latest is None else latest
        if not earliest <= step <= latest:
            raise OutOfOrder(f"Step {step} is out of order: this party is at step {self.step}.")

    def refuse_if_ended(self) -> None:
        """Raise why the session has ended, if it has."""
        if self.ended is not None:
            # Each thread its own: one that is raised twice keeps both callers' frames.
            raise type(self.ended)(*self.ended.args)

    def await_value(self, value: Callable[[], T | None], what: str) -> T:
        """Wait, within the lock, until there is a value; raises PeerVanished without one, and why the session ends."""
        with waiting_for_others():
            self.wait_for(lambda: self.ended is not None or value() is not None, self._timeout)
        self.refuse_if_ended()
        if (awaited := value()) is None:
            raise PeerVanished(f"Waited {self._timeout:g} s for {what}; the session ends here.")
        return awaited

    def end(self, reason: str) -> None:
        """End the session: whoever waits, or asks from now on, is told ``reason``."""
        self._end(OutOfOrder(f"The session has ended: {reason}"))

    def suspend(self, reason: str) -> None:
        """End it, and tell whoever waits or asks that another exchange will go on with the training."""
        self._end(Suspended(reason))

    def _end(self, error: FederationError) -> None:
        with self:
            self.ended = self.ended or error
            self.notify_all()


def check_same(known: object, message: object, what: str) -> None:
    """Raise OutOfOrder where a message comes again as another."""
    if known != message:
        raise OutOfOrder(f"Different {what} were received already; a step is answered once.")
