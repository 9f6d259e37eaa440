"""How many alignments a passive party answers in a day: each lets its caller test as many ids as it declares."""

import json
import logging
import math
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from services.common.errors import OutOfOrder
from services.common.state_folder import State, StateInMemory

_log = logging.getLogger(__name__)

_DAY_SECONDS = 24 * 60 * 60
_NAME = "alignments.json"
_VERSION = 1


def check_declared(caller: str, count: int, least: int) -> None:
    """Refuse an alignment about few ids, which would ask about single persons. Raises OutOfOrder."""
    # None at all is refused with what is no number of ids.
    if 0 < count < least:
        raise OutOfOrder(
            f"{caller} asks about {count} ids, and this party answers about {least} or more at once: fewer would ask "
            "about single persons. Bring more records (of several passive parties, more that those before have as "
            "well), or have this party's owner lower PLUMBLINE_LEAST_IDS."
        )


class AlignmentQuota:
    """Counts the alignments that each caller was answered; safe to call from any thread.

    A clock that is set back frees nothing: what was answered later than now counts as answered now.
    """

    def __init__(self, per_day: int, state: State | None = None, clock: Callable[[], float] = time.time) -> None:
        """Allow each caller ``per_day`` alignments in any 24 hours.

        Args:
            per_day: at least 1.
            state: where the count is kept. In memory by default: it then ends with this process.
            clock: seconds since 1970.
        """
        self._per_day = per_day
        self._state = StateInMemory() if state is None else state
        self._clock = clock
        self._lock = threading.Lock()

    def take(self, caller: str) -> None:
        """Count one alignment of ``caller``, and keep the count before it is answered.

        Raises:
            OutOfOrder: when the caller has had all of a day's, or where the count can't be read or kept.
        """
        with self._lock:
            now = self._clock()
            alignments = _recent(self._read(), now)
            own_times = alignments.setdefault(caller, [])
            if is_allowed := len(own_times) < self._per_day:
                own_times.append(now)
            self._write(alignments)
            if not is_allowed:
                raise OutOfOrder(
                    f"{caller} has had {self._per_day} alignments within 24 hours, as many as this party answers. The "
                    f"next one is possible at {_moment(own_times[-self._per_day] + _DAY_SECONDS)}. Its owner may raise "
                    "PLUMBLINE_ALIGNMENTS_PER_DAY."
                )

    def _read(self) -> dict[str, list[float]]:
        try:
            content = self._state.read(_NAME)
            return {} if content is None else _parsed(content)
        except (OSError, ValueError) as error:
            # Not an empty count: who can break the file could ask without end.
            raise self._refusal("read", error) from error

    def _write(self, alignments: dict[str, list[float]]) -> None:
        content = json.dumps({"version": _VERSION, "answered": alignments}).encode()
        try:
            self._state.write(_NAME, content)
        except (OSError, ValueError) as error:
            raise self._refusal("write", error) from error

    @staticmethod
    def _refusal(verb: str, error: Exception) -> OutOfOrder:
        _log.error(
            "Cannot %s %s in the state folder (%s): no alignment is answered. Repair it; deleting it forgets how many "
            "were answered today.",
            verb,
            _NAME,
            error,
        )
        return OutOfOrder("This party can't count its alignments and answers none: its log tells its owner why.")


def _parsed(content: bytes) -> dict[str, list[float]]:
    """Read what ``_write`` wrote; raises ValueError for anything else."""
    facts = json.loads(content)
    if not isinstance(facts, dict) or facts.get("version") != _VERSION or not isinstance(facts.get("answered"), dict):
        raise ValueError(f"expected version {_VERSION} of a count of alignments")
    for times in facts["answered"].values():
        if not isinstance(times, list) or not all(isinstance(one, float) and math.isfinite(one) for one in times):
            raise ValueError("expected the times of alignments in seconds")
    return dict(facts["answered"])


def _recent(alignments: dict[str, list[float]], now: float) -> dict[str, list[float]]:
    """List the times of the last 24 hours, in order; later ones than now become now."""
    recent = {
        caller: sorted(min(one, now) for one in times if one > now - _DAY_SECONDS)
        for caller, times in alignments.items()
    }
    return {caller: times for caller, times in recent.items() if times}


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(math.ceil(seconds / 60) * 60, UTC):%Y-%m-%d %H:%M} UTC"
