"""Which answers a party still owes: each peer has one right to an answer for each step, whatever becomes of its key.

A masked question hides which vector it is about, so that nobody can tell whether an answer is about a step's residuals.
What can be kept is the number: no peer gets more answers than steps whose residuals it was sent. A right is spent
before the answer leaves, and never given back: not for another key, another process, nor for progress that is undone.
"""

import hashlib
from dataclasses import dataclass
from typing import Protocol

from services.common.errors import OutOfOrder
from services.exchange.vectors import DecryptedVector, VectorHeader, WireVector


@dataclass(frozen=True)
class Answered:
    """The answer to one peer's masked sums of a step, and what tells that question from every other.

    Attributes:
        header: the question's.
        digest: SHA-256 of the question's values, in hexadecimal.
        answer: what was given, or is about to be.
    """

    header: VectorHeader
    digest: str
    answer: DecryptedVector

    @classmethod
    def of(cls, question: WireVector, answer: DecryptedVector) -> "Answered":
        """Keep an answer that was just found."""
        return cls(question.header, hashlib.sha256(question.data).hexdigest(), answer)

    def again(self, question: WireVector, step: int) -> DecryptedVector:
        """Give the same answer to the same question; raises OutOfOrder for another one."""
        if (question.header, hashlib.sha256(question.data).hexdigest()) != (self.header, self.digest):
            raise OutOfOrder(f"Different sums of step {step} were answered already; a step is answered once.")
        return self.answer


class Rights(Protocol):
    """Remembers rights beyond one exchange: beyond its keys, and perhaps its process."""

    def answered(self, peer: str, step: int) -> Answered | None:
        """Find what a peer was answered in a step that may be done again; None for nothing."""

    def check_right(self, peer: str, step: int) -> None:
        """Raise OutOfOrder where a peer that wasn't answered has no right to it any more."""

    def spend(self, peer: str, step: int, answered: Answered) -> None:
        """Keep an answer before it is given, and with it that the right is spent.

        Raises:
            OutOfOrder: where there is no right.
            StateNotKept: where it can't be written. In both cases it must not be given.
        """


class RightsOfOneTry:
    """Of a training that can't be interrupted: the exchange itself remembers as long as it lasts."""

    def answered(self, peer: str, step: int) -> Answered | None:
        """Find nothing."""
        return None

    def check_right(self, peer: str, step: int) -> None:
        """Leave it to the order of steps."""

    def spend(self, peer: str, step: int, answered: Answered) -> None:
        """Keep nothing."""
