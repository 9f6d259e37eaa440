"""What of a run could not be written: nobody's work fails for a record, and everybody is told that one is missing."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from services.common.errors import log_unexpected

_log = logging.getLogger(__name__)


class LostRecords:
    """Collects what one party could not write of its session, in sentences for its operator. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sentences: list[str] = []

    @property
    def sentences(self) -> tuple[str, ...]:
        """One per kind of record that is missing, in the order in which they were lost."""
        with self._lock:
            return tuple(self._sentences)

    def forget(self) -> None:
        """Start over: another session begins."""
        with self._lock:
            self._sentences = []

    @contextmanager
    def noting(self, what: str) -> Iterator[None]:
        """Go on when ``what`` can't be written, whatever the reason, and note it: in the log and for the operator."""
        try:
            yield
        except OSError as error:
            self._note(f"{what} could not be written: {error.strerror or error}. Make room, or mend the folder.")
        except Exception as error:  # ours to mend: all the more nobody's model may be lost for it
            log_unexpected(error)
            self._note(f"{what} could not be written: {type(error).__name__}. The log has the rest.")

    def _note(self, sentence: str) -> None:
        _log.error("%s", sentence)
        with self._lock:
            if sentence not in self._sentences:
                self._sentences.append(sentence)
