"""A service's log: one record is one line, whoever chose its words. As text, or as JSON (PLUMBLINE_LOG_FORMAT=json).

Guarantee: nothing that a peer sends can make a second line, move a terminal's cursor, or fill a disk with one record.
Further lines of a traceback begin with a bar, which no record does; in JSON they are a field of the record.
"""

import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from services.common.settings import Settings
from services.common.words import escaped

_log = logging.getLogger(__name__)

# Of a record's message: our longest sentences have a quarter of it.
_MOST_OF_A_MESSAGE = 4_000
_MOST_OF_A_LINE = 500
# Of a traceback: the last ones, where the error is.
_MOST_LINES = 60
_BAR = "    | "
_UNCAUGHT = "Unexpected error"

# What is known of the call or the step at work, for the JSON form.
_facts: ContextVar[Mapping[str, str | int]] = ContextVar("_facts", default=MappingProxyType({}))


@contextmanager
def log_context(*, session: str | None = None, step: int | None = None, caller: str | None = None) -> Iterator[None]:
    """Name the session, the step or the caller in every record that this thread logs inside.

    What is None stays as it is outside. Another thread has a context of its own.
    """
    facts = {"session": session, "step": step, "caller": caller}
    before = _facts.set({**_facts.get(), **{name: value for name, value in facts.items() if value is not None}})
    try:
        yield
    finally:
        # A generator may end on another thread than it began on: what that one is at stays as it is.
        with suppress(ValueError):
            _facts.reset(before)


class TextLines(logging.Formatter):
    """``12:00:00 passive INFO message``, in local time."""

    def __init__(self, party: str) -> None:
        super().__init__(datefmt="%H:%M:%S")
        self._party = escaped(party, _MOST_OF_A_LINE)

    def format(self, record: logging.LogRecord) -> str:
        """Write one line, and one with a bar for each line of a traceback."""
        head = f"{self.formatTime(record, self.datefmt)} {self._party} {record.levelname} {_message(record)}"
        return "\n".join([head, *(_BAR + line for line in _trace(record))])


class JsonLines(logging.Formatter):
    """An object a line: time (UTC), level, party, logger, message; session, step, caller and traceback where known."""

    def __init__(self, party: str) -> None:
        super().__init__()
        self._party = escaped(party, _MOST_OF_A_LINE)

    def format(self, record: logging.LogRecord) -> str:
        """Write one line of ASCII."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        content: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "party": self._party,
            "logger": record.name,
            "message": _message(record),
        }
        for name, value in _facts.get().items():
            content[name] = escaped(value, _MOST_OF_A_LINE) if isinstance(value, str) else value
        if lines := _trace(record):
            content["traceback"] = lines
        return json.dumps(content)


def configure_log(settings: Settings, name: str) -> None:
    """Log to standard error as the settings say. Warnings and uncaught errors go the same way, never around it."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(name) if settings.log_format == "json" else TextLines(name))
    logging.basicConfig(level=settings.log_level, handlers=[handler])
    logging.captureWarnings(True)
    sys.excepthook = lambda _kind, error, _trace: _log.critical(_UNCAUGHT, exc_info=error)
    sys.unraisablehook = lambda found: _log.error(_UNCAUGHT, exc_info=found.exc_value)
    threading.excepthook = lambda found: _log.error(_UNCAUGHT, exc_info=found.exc_value)


def _message(record: logging.LogRecord) -> str:
    try:
        message = record.getMessage()
    except Exception:  # a wrong number of arguments must not take the record away
        message = f"{record.msg!r} {record.args!r}"
    return escaped(message, _MOST_OF_A_MESSAGE)


def _trace(record: logging.LogRecord) -> list[str]:
    """List the lines of a record's traceback and stack, each one harmless."""
    text = "".join(traceback.format_exception(record.exc_info[1])) if record.exc_info and record.exc_info[1] else ""
    lines = f"{text}{record.stack_info or ''}".rstrip("\n").split("\n")
    return [escaped(line, _MOST_OF_A_LINE) for line in lines[-_MOST_LINES:] if line]
