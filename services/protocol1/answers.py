"""What a party has answered in the steps that may be done again: a step is answered once, whatever becomes of it."""

import hashlib
from dataclasses import dataclass
from typing import Protocol

from services.common.errors import OutOfOrder
from services.protocol1.vectors import DecryptedVector, VectorHeader, WireVector


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


class AnswerLog(Protocol):
    """Remembers answers beyond one exchange: beyond its keys, and perhaps its process."""

    def answered(self, peer: str, step: int) -> Answered | None:
        """Find what a peer was answered in a step; None for nothing."""

    def keep_answer(self, peer: str, step: int, answered: Answered) -> None:
        """Keep an answer before it is given. Raises StateNotKept, and then it must not be given."""


class NoLog:
    """Of a training that can't be interrupted: the exchange itself remembers as long as it lasts."""

    def answered(self, peer: str, step: int) -> Answered | None:
        """Find nothing."""
        return None

    def keep_answer(self, peer: str, step: int, answered: Answered) -> None:
        """Keep nothing."""
