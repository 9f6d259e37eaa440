"""What was drawn for a request, for who asks it again."""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from services.common.errors import OutOfOrder
from vfl.crypto.sharing.frozen_weights import Residues

# Twice as many as an active party has on their way.
_REMEMBERED_REQUESTS = 128
# As much as the coordinator keeps of shares that wait for their sum: answers without theirs are of no use.
_REMEMBERED_BYTES = 64 << 20


class AskedOnce:
    """Keeps what was drawn for the latest requests: the same one again gets the same. Thread-safe."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, int], tuple[object, Future[tuple[bytes, Residues]]]] = {}

    def __call__(
        self, request: tuple[str, int], content: object, draw: Callable[[], tuple[bytes, Residues]]
    ) -> tuple[bytes, Residues]:
        """Find what was drawn for a request, or draw it now.

        Raises:
            OutOfOrder: for other content than the first time.
        """
        answer: Future[tuple[bytes, Residues]] = Future()
        with self._lock:
            former_content, former_answer = self._answers.setdefault(request, (content, answer))
        if former_content != content:
            raise OutOfOrder(f"Request {request[1]} was for other records; ask again under another number.")
        if former_answer is answer:
            try:
                answer.set_result(draw())
            except BaseException as error:
                with self._lock:
                    self._answers.pop(request, None)
                answer.set_exception(error)
            self._forget_oldest()
        return former_answer.result()

    def _forget_oldest(self) -> None:
        """Forget what is beyond the bounds; the newest stays, whatever it holds."""
        with self._lock:
            size = sum(_size_of(one) for _, one in self._answers.values())
            while len(self._answers) > _REMEMBERED_REQUESTS or (size > _REMEMBERED_BYTES and len(self._answers) > 1):
                size -= _size_of(self._answers.pop(next(iter(self._answers)))[1])


def _size_of(answer: Future[tuple[bytes, Residues]]) -> int:
    """Measure what an answer holds; one that is being drawn holds nothing yet."""
    if not answer.done():
        return 0
    masked, residues = answer.result()
    return len(masked) + residues.nbytes
