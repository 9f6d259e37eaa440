"""One certificate, one process at a time: which process of a party may act here. Knows no network."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from services.common.errors import NotAllowed, one_line
from services.common.identity import Caller, Role
from services.network.log_quota import LogQuota

_log = logging.getLogger(__name__)

# A process that is at work asks for its session's health far more often (services.party.peer_watch).
SILENT_SECONDS = 2.5
_PEERS = (Role.ACTIVE, Role.PASSIVE)


@dataclass
class _Occupant:
    """The process of one party that was let in last, and when it was last heard."""

    instance: str
    address: str
    heard_at: float


class Occupancy:
    """Lets in one process of each active and passive party at a time. Thread-safe.

    A second process with the same certificate could end the first one's jobs. So while the first is heard, the second
    is refused. When the first has been silent for ``SILENT_SECONDS`` it counts as dead, and the second, which waits so
    long in its first call, takes its place. Operators may be many.

    It does not tell which of two processes is the honest one: who comes second, while the first is silent, is let in.

    Attributes:
        own_name: the party whose server this is.
    """

    def __init__(
        self,
        own_name: str = "",
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[threading.Condition, float], object] = threading.Condition.wait,
    ) -> None:
        """Keep the place of each peer of the party ``own_name``, whose own calls are always let in."""
        self.own_name = own_name
        self._clock = clock
        self._pause = pause
        self._condition = threading.Condition()
        # By name, of which a federation has few: an instance is the caller's choice, of which there are any number.
        self._occupants: dict[str, _Occupant] = {}
        # One line a minute, whatever a process calls itself.
        self._log_quota = LogQuota(clock, lines=1)

    def heard(self, caller: Caller) -> None:
        """Note that a process lives, if it is the one that was let in."""
        with self._condition:
            occupant = self._occupants.get(caller.name)
            if occupant is not None and occupant.instance == caller.instance:
                occupant.heard_at = self._clock()
                self._condition.notify_all()

    def is_let_in(self, caller: Caller) -> bool:
        """Tell whether this process is the one of its party that acts here, or one of those that may be many."""
        if self._may_be_many(caller):
            return True
        with self._condition:
            occupant = self._occupants.get(caller.name)
            return occupant is not None and occupant.instance == caller.instance

    def admit(self, caller: Caller, address: str, waiting: AbstractContextManager[object] | None = None) -> None:
        """Let a call in, after a wait for the silence of another process of the same party.

        Args:
            caller: who calls.
            address: where from.
            waiting: entered for the time of the wait, if there is one. What it raises ends the wait.

        Raises:
            NotAllowed: when that other process is heard meanwhile.
        """
        if self._may_be_many(caller):
            return
        with self._condition:
            occupant = self._occupants.get(caller.name)
            if occupant is not None and occupant.instance != caller.instance:
                occupant = self._succeed(occupant, caller, address, waiting or nullcontext())
            if occupant is None:
                self._occupants[caller.name] = _Occupant(caller.instance, address, self._clock())
            else:
                occupant.heard_at = self._clock()
            self._condition.notify_all()

    def tell_the_rest(self) -> None:
        """Write how many processes came in the last minutes of which the log says nothing yet."""
        self._log_quota.tell_the_rest()

    def _may_be_many(self, caller: Caller) -> bool:
        return caller.role not in _PEERS or caller.name == self.own_name

    def _succeed(
        self, occupant: _Occupant, caller: Caller, address: str, waiting: AbstractContextManager[object]
    ) -> _Occupant | None:
        """Wait until the occupant counts as dead. Its place is free then (None), or the caller's process has it."""
        if self._seconds_left(occupant) > 0:
            with waiting:
                self._await_silence(occupant, caller, address)
        present = self._occupants[caller.name]
        if present is occupant:
            if self._log_quota.admits(f"new processes of {one_line(caller.name)} that took a silent one's place"):
                _log.warning(
                    "A new process of %s (%s) takes the place of one that is silent (%s).",
                    caller.name,
                    address,
                    occupant.address,
                )
            return None
        if present.instance != caller.instance:
            self._refuse(present, caller, address)
        return present

    def _await_silence(self, occupant: _Occupant, caller: Caller, address: str) -> None:
        came = self._clock()
        while (remaining := self._seconds_left(occupant)) > 0:
            if occupant.heard_at > came:
                self._refuse(occupant, caller, address)
            self._pause(self._condition, remaining)

    def _seconds_left(self, occupant: _Occupant) -> float:
        """Until the occupant counts as dead, if it isn't heard meanwhile."""
        return occupant.heard_at + SILENT_SECONDS - self._clock()

    def _refuse(self, occupant: _Occupant, caller: Caller, address: str) -> None:
        if self._log_quota.admits(f"calls refused to a second process of {one_line(caller.name)}"):
            _log.warning(
                "A second process (%s) holds the certificate of %s, which is at work from %s: refused.",
                address,
                caller.name,
                occupant.address,
            )
        raise NotAllowed(
            f"This session belongs to another process that holds this certificate: one process of {caller.name} at a "
            f"time. Stop one of them, or wait until the other has been silent for {SILENT_SECONDS:g} s."
        )
