"""What peers ask one party to decrypt, each step once, and what they are answered. Knows no network."""

from collections.abc import Callable
from dataclasses import dataclass

from services.ciphers.cipher import Cipher
from services.common.errors import InvalidMessage, Suspended
from services.exchange.answers import Answered, Rights
from services.exchange.step_order import StepOrder, check_same
from services.exchange.vectors import DecryptedVector, VectorHeader, WireVector


@dataclass
class _Question:
    """A peer's masked sums of a step, and the answer as soon as it is decrypted."""

    sums: WireVector
    answer: DecryptedVector | None = None


class PeerQuestions:
    """Answers peers' masked sums under this party's own key. Thread-safe.

    Attributes:
        rights: what was answered before, and is from now on.
        encrypted_step: the last whose residuals are all encrypted, so that they may be asked about.
    """

    def __init__(
        self,
        cipher: Cipher,
        order: StepOrder,
        rights: Rights,
        *,
        answering: Callable[[str, int], object],
        anchoring: Callable[[], object],
    ) -> None:
        """Begin at the step of ``order``. The last two are told of answers, as a ``Beginning`` says."""
        self.rights, self.encrypted_step = rights, order.step - 1
        self._cipher, self._order = cipher, order
        self._answering, self._anchoring = answering, anchoring
        self._first_step = order.step
        self._asked: dict[tuple[str, int], _Question] = {}

    def header(self, peer: str, step: int) -> VectorHeader:
        """Say which header a peer's question of a step has to have; raises OutOfOrder where it may ask none."""
        with self._order:
            former_answer = self.rights.answered(peer, step)
            if former_answer is None:
                self._check(peer, step)
        # Perhaps asked under a key that was given up since.
        return self._cipher.sums_header(peer) if former_answer is None else former_answer.header

    def answer(self, peer: str, step: int, vector: WireVector) -> DecryptedVector:
        """Decrypt a peer's masked sums of a step, once. The same again gets the same answer."""
        answer = self._answered(peer, step, vector)
        # Without the lock: it asks another party, and what is waited for must be suspended meanwhile.
        self._anchoring()
        return answer

    def _answered(self, peer: str, step: int, vector: WireVector) -> DecryptedVector:
        """Find the answer to a question, or decrypt it and spend the peer's right to it."""
        with self._order:
            self._order.refuse_if_ended()
            if (former_answer := self.rights.answered(peer, step)) is not None:
                return former_answer.again(vector, step)
            self._check(peer, step)
            # Taken before it is answered: decryption takes long, and a second question must not overtake the first.
            question = self._asked.setdefault((peer, step), _Question(vector))
            check_same(question.sums, vector, f"sums of step {step}")
            if question.answer is not None:
                return question.answer
        try:
            answer = self._cipher.decrypt(step, peer, vector)
        except InvalidMessage:
            with self._order:
                # Nothing was decrypted of it, and the right one may follow.
                if self._asked.get((peer, step)) is question and question.answer is None:
                    del self._asked[peer, step]
            raise
        with self._order:
            if isinstance(self._order.ended, Suspended):
                # What this party has answered is agreed on by now: nothing may be added to it.
                self._order.refuse_if_ended()
            if question.answer is None:
                self.rights.spend(peer, step, Answered.of(vector, answer))
                self._answering(peer, answer.count)
                question.answer = answer
            self._order.notify_all()
            return question.answer

    def answered(self, peer: str, step: int) -> object:
        """Find what a peer was answered in a step, perhaps before the training was interrupted; None for nothing."""
        question = self._asked.get((peer, step))
        return self.rights.answered(peer, step) or (question and question.answer)

    def forget(self, step: int) -> None:
        """Forget what was asked before a step: no peer can ask it again."""
        self._asked = {key: question for key, question in self._asked.items() if key[1] >= step}

    def _check(self, peer: str, step: int) -> None:
        self._order.check(step, earliest=max(self._order.step - 1, self._first_step), latest=self.encrypted_step)
        self.rights.check_right(peer, step)
