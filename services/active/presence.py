"""Whether the other parties answer now: what an operator is shown beside each name."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial

from services.common.pulse import Answer, Pulse

# Who asks for the status wants it soon.
_SECONDS = 2.0
_ABSENT = frozenset({Answer.UNREACHABLE, Answer.SILENT})


class Presence:
    """Asks all other parties at once whether they are there. Who asks meanwhile shares the answers. Takes no thread."""

    def __init__(self, pulses: Mapping[str, Pulse]) -> None:
        self._pulses = dict(pulses)
        self._lock = threading.Lock()
        self._asked: Future[dict[str, bool]] | None = None

    def ask(self) -> "Future[dict[str, bool]]":
        """Ask without waiting: whether each party answers, by name, is there in about two seconds at most."""
        with self._lock:
            if self._asked is not None and not self._asked.done():
                return self._asked
            asked = self._asked = Future()
        answers: dict[str, bool] = {}
        if not self._pulses:
            asked.set_result(answers)
        for name, pulse in self._pulses.items():
            # About no session: what it says is no matter, only that it says something.
            pulse.ask("", _SECONDS, partial(self._note, asked, answers, name))
        return asked

    def _note(self, asked: "Future[dict[str, bool]]", answers: dict[str, bool], name: str, answer: Answer) -> None:
        with self._lock:
            answers[name] = answer not in _ABSENT
            is_complete = len(answers) == len(self._pulses)
        if is_complete:
            asked.set_result(answers)
