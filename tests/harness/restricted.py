"""What a process is denied by the kernel itself: room on disk, and folders that it may not write. Needs no mount."""

import ctypes
import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable

# From linux/prctl.h and linux/capability.h: what lets root write where modes forbid it.
_PR_CAPBSET_DROP = 24
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2


def no_room_for_files(most: int = 0) -> None:
    """Let this process write no file beyond ``most`` bytes, as on a disk that fills in the middle of a write."""
    # Python ignores the signal; the write then fails with EFBIG.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def modes_bind() -> None:
    """Make a folder's mode bind the program that this child will run, though it be root's."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
        if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_CAPBSET_DROP)")


# Restricts itself, then becomes the program: between a fork and a program gRPC's threads of other tests may trip.
_RESTRICTED = """
import os, pickle, sys
pickle.loads(bytes.fromhex(sys.argv[1]))()
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[2:]])
"""


def run_restricted(restriction: Callable[[], None], program: str, *arguments: str) -> str:
    """Run a Python program under a restriction; returns what it printed. It must end well."""
    done = subprocess.run(
        [sys.executable, "-c", _RESTRICTED, pickle.dumps(restriction).hex(), program, *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
