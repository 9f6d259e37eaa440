"""How far a ledger is: a file of a party's state whose writes must not be undone, such as a count of what was told."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from protos.v1 import coordinator_pb2
from services.common import limits
from services.common.errors import InvalidMessage
from vfl.data.faults import counted

_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class LedgerMark:
    """How far one ledger is.

    Attributes:
        ledger: 32 hexadecimal digits, drawn when its file was made; of a training the session's id.
        generation: how often it was written; 0 for one that isn't on disk yet.
        attempt: of a training, which try of it is at work; 0 for what is no training.
        step: of a training, the highest step that was begun in that try.
    """

    ledger: str
    generation: int
    attempt: int = 0
    step: int = 0

    @classmethod
    def of_header(cls, header: Mapping[str, Any]) -> "LedgerMark":
        """Read the mark of a file's header; one that an earlier release wrote has none, and a new one is drawn.

        Raises ValueError or TypeError for what ``header`` can't have made.
        """
        if "ledger" not in header:
            return cls.drawn()
        mark = cls(header["ledger"], header["generation"])
        if not _ID.fullmatch(mark.ledger) or mark.generation < 1:
            raise ValueError("a ledger has an id, and was written")
        return mark

    @classmethod
    def drawn(cls) -> "LedgerMark":
        """Draw the mark of a ledger that isn't on disk yet."""
        return cls(secrets.token_hex(16), 0)

    @classmethod
    def from_message(cls, message: coordinator_pb2.LedgerMark) -> "LedgerMark":
        """Read what ``to_message`` made; raises InvalidMessage for what it can't have made."""
        if not _ID.fullmatch(message.ledger):
            raise InvalidMessage("Expected a ledger's id of 32 hexadecimal digits.")
        limits.check_count(message.generation, limits.LEDGER_WRITES, "writes of a ledger", least=1)
        return cls(message.ledger, message.generation, message.attempt, message.step)

    def to_message(self, session_id: str) -> coordinator_pb2.LedgerMark:
        """Make the message that notes it in a session."""
        return coordinator_pb2.LedgerMark(session_id=session_id, **vars(self))

    def __str__(self) -> str:
        """Say how far it is, for a sentence."""
        place = f", the last in step {self.step} of try {self.attempt}" if self.attempt or self.step else ""
        return f"{counted(self.generation, 'write')}{place}"

    @property
    def header(self) -> dict[str, Any]:
        """What the file's header holds of it."""
        return {"ledger": self.ledger, "generation": self.generation}

    def next(self) -> "LedgerMark":
        """Give the mark of the next write."""
        return replace(self, generation=self.generation + 1)

    def is_behind(self, latest: "LedgerMark") -> bool:
        """Tell whether this is of an older copy of the same ledger."""
        return (self.attempt, self.step) < (latest.attempt, latest.step) or self.generation < latest.generation
