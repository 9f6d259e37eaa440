"""What a worker process does before its first task, and how it runs one. Nothing here holds a secret at rest."""

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from multiprocessing.connection import wait
from typing import Any

_PR_SET_DUMPABLE = 4  # linux/prctl.h


def prepare() -> None:
    """Make this process a worker: it outlives its party by nothing, and leaves no picture of its memory behind."""
    # Ctrl-C reaches a whole terminal. The party decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _leave_no_core_dump()
    threading.Thread(target=_end_with_the_party, name="party watch", daemon=True).start()


def run_packed(packed: bytes) -> Any:
    """Run a packed (function, task)."""
    function, task = pickle.loads(packed)  # noqa: S301 - from this worker's own parent
    return function(task)


def _leave_no_core_dump() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        # A core_pattern that pipes dumps to a program doesn't ask for the limit.
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _end_with_the_party() -> None:
    """End this process when its party's has, however that ended."""
    party = multiprocessing.parent_process()
    if party is not None:
        wait([party.sentinel])
        os._exit(1)
