"""How a peer is asked whether it is there, and what it may answer. Knows no network."""

from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

# A job's first calls wait so long for a party that has just been started again: longer than it takes to connect, and
# short enough that one which is dead is named soon.
READY_SECONDS = 2.0
# A prediction waits longer: until then the party may have started, read its table and its model.
RESTART_SECONDS = 5.0


class Answer(Enum):
    """What becomes of the question whether a peer knows a session."""

    KNOWS = auto()
    FORGOT = auto()
    ALIVE = auto()  # It is there, and says nothing of the session.
    UNREACHABLE = auto()  # The connection was refused or cut.
    SILENT = auto()


class Heartbeat(Protocol):
    """Asks one peer whether it is there, and whether it knows a session."""

    def ask(self, session_id: str, seconds: float, on_answer: Callable[[Answer], None]) -> None:
        """Ask without waiting. ``on_answer`` is called once, on any thread, within ``seconds``."""
