"""Clocks of processes that somebody sets while they run: Debian's libfaketime tells them the time."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

# Debian's package faketime, on whatever processor; the one for programs with threads.
_LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")
# Python sleeps until a moment of the monotonic clock, which libfaketime 0.9.10 refuses: EINVAL, whatever the clock.
_SLEEP = """import threading, time
time.sleep = lambda seconds: threading.Event().wait(seconds) and None
"""


def fake_time_library() -> Path | None:
    """The library of libfaketime; None where it isn't installed."""
    return next((path for pattern in _LIBRARIES for path in Path("/").glob(pattern[1:])), None)


class Clock:
    """The clock of one process. Only the time of day moves: a step of it leaves durations as they are."""

    def __init__(self, file: Path, library: Path | None) -> None:
        """Tell the time of this machine; ``file`` holds by how much it is off, and no library leaves it so."""
        self._file, self._library = file, library
        self._python = file.with_suffix(".python")
        self._python.mkdir()
        (self._python / "sitecustomize.py").write_text(_SLEEP)
        self.set(0)

    def set(self, seconds: int) -> None:
        """Be so much later than this machine's clock, from within a second on."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}\n")
        fresh.replace(self._file)

    @contextmanager
    def given(self) -> Iterator[None]:
        """Processes that start within the block have this clock."""
        with patch.dict(os.environ, self._variables):
            yield

    @property
    def _variables(self) -> Mapping[str, str]:
        if self._library is None:
            return {}
        return {
            "LD_PRELOAD": str(self._library),
            "PYTHONPATH": os.pathsep.join([str(self._python), os.environ.get("PYTHONPATH", "")]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # What it does for old systems makes each of gRPC's waits take its whole time.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }
