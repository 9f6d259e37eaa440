"""One certificate, one process at a time: which process of a party may act here. Knows no network."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from services.common.errors import NotAllowed
from services.common.identity import Caller, Role

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
    refused: str = ""


class Occupancy:
    """Lets in one process of each active and passive party at a time. Thread-safe.

    A second process with the same certificate could end the first one's jobs. So while the first is heard, the second
    is refused. When the first has been silent for ``SILENT_SECONDS`` it counts as dead, and the second, which waits so
    long in its first call, takes its place. Operators may be many.

    It does not tell which of two processes is the honest one: who comes second, while the first is silent, is let in.
    """

    def __init__(
        self,
        own_name: str = "",
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[threading.Condition, float], object] = threading.Condition.wait,
    ) -> None:
        """Keep the place of each peer of the party ``own_name``, whose own calls are always let in."""
        self._own_name = own_name
        self._clock = clock
        self._pause = pause
        self._condition = threading.Condition()
        self._occupants: dict[str, _Occupant] = {}

    def heard(self, caller: Caller) -> None:
        """Note that a process lives, if it is the one that was let in."""
        with self._condition:
            occupant = self._occupants.get(caller.name)
            if occupant is not None and occupant.instance == caller.instance:
                occupant.heard_at = self._clock()
                self._condition.notify_all()

    def admit(self, caller: Caller, address: str) -> None:
        """Let a call in, after a wait for the silence of another process of the same party.

        Raises:
            NotAllowed: when that other process is heard meanwhile.
        """
        if caller.role not in _PEERS or caller.name == self._own_name:
            return
        with self._condition:
            occupant = self._occupants.get(caller.name)
            if occupant is not None and occupant.instance != caller.instance:
                occupant = self._succeed(occupant, caller, address)
            if occupant is None:
                self._occupants[caller.name] = _Occupant(caller.instance, address, self._clock())
            else:
                occupant.heard_at = self._clock()
            self._condition.notify_all()

    def _succeed(self, occupant: _Occupant, caller: Caller, address: str) -> _Occupant | None:
        """Wait until the occupant counts as dead. Its place is free then (None), or the caller's process has it."""
        came = self._clock()
        while (left := occupant.heard_at + SILENT_SECONDS - self._clock()) > 0:
            if occupant.heard_at > came:
                self._refuse(occupant, caller, address)
            self._pause(self._condition, left)
        present = self._occupants[caller.name]
        if present is occupant:
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

    @staticmethod
    def _refuse(occupant: _Occupant, caller: Caller, address: str) -> None:
        if occupant.refused != caller.instance:
            occupant.refused = caller.instance
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
