"""What was said while a tree grew is said once: a tree that is grown again has the same messages, or none.

A label party could have a tree begun again with other derivatives, and read sums of the same rows once more; a passive
party could send other sums, and read another choice. So each party notes what it has taken and sent, on disk before it
says anything that follows from it. Of a tree that grows again it sends the same bytes, and takes no others.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.common.errors import OutOfOrder
from services.exchange.mailbox import Mailbox
from services.party.training_log import TrainingLog


class SaidOnce:
    """A party's messages of trees, in this try of the training and those before."""

    def __init__(self, mailbox: Mailbox, log: TrainingLog, anchor: Callable[[], object]) -> None:
        """Send by a mailbox, note in a log, and have its notes known outside before anything is answered."""
        self._mailbox, self._log, self._anchor = mailbox, log, anchor
        self._has_new_notes = False

    def take(self, kind: str, step: int, sender: str) -> NDArray[Any]:
        """Take a message; raises OutOfOrder for another one than in the try before, and as `Mailbox.take`."""
        values = self._mailbox.take(kind, step)[sender]
        self.check(step, kind, values.tobytes(), f"{sender} says something else in tree {step} than before")
        return values

    def check(self, step: int, kind: str, content: bytes, otherwise: str) -> None:
        """Note what a message says; raises OutOfOrder, with these words, where it is another than was noted."""
        if not self._log.is_kept:
            return
        digest = sha256(content).digest()
        noted = self._log.notes.of(step, kind)
        if noted not in (None, digest):
            raise OutOfOrder(f"{otherwise} the interruption, and what is said in a tree is said once: train again.")
        if noted is None:
            self._log.notes.note(step, kind, digest)
            self._has_new_notes = True

    def answer(self, kind: str, step: int) -> NDArray[np.uint8] | None:
        """Find the answer that was given in the try before, which is given again; None for none."""
        noted = self._log.notes.of(step, kind) if self._log.is_kept else None
        return None if noted is None else np.frombuffer(noted, dtype=np.uint8)

    def send_answer(self, kind: str, values: NDArray[np.uint8], step: int) -> None:
        """Send an answer that was drawn at random, and keep it before: nobody is given another."""
        if self._log.is_kept and self.answer(kind, step) is None:
            self._log.notes.note(step, kind, values.tobytes())
            self._has_new_notes = True
        self._send(kind, values, step)

    def send(self, kind: str, values: NDArray[Any], step: int) -> None:
        """Send what follows from messages and own numbers; raises OutOfOrder where that isn't what was sent before."""
        self.check(step, kind, values.tobytes(), "This party would say something else in a tree than before")
        self._send(kind, values, step)

    def pass_on(self, kind: str, values: NDArray[Any], step: int) -> None:
        """Send what tells its receivers of nothing but others' messages; raises as ``send``, and keeps it later."""
        self.check(step, kind, values.tobytes(), "This party would say something else in a tree than before")
        self._mailbox.send(kind, values, step)

    def _send(self, kind: str, values: NDArray[Any], step: int) -> None:
        if self._has_new_notes:
            self._log.keep_notes()
            self._has_new_notes = False
            # A copy that was put back would say something else in this tree.
            self._anchor()
        self._mailbox.send(kind, values, step)
