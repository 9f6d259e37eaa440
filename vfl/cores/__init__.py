"""The cores of this machine, and of a cluster that a party owns: one way to give work to all of them."""

from collections.abc import Sequence

from vfl.cores.cores import Cores, OneCore, available_cores
from vfl.cores.own_children import OwnChildrenOnly
from vfl.cores.processes import PATIENCE_SECONDS, ProcessCores
from vfl.cores.threads import ThreadCores

__all__ = ["Cores", "OneCore", "OwnChildrenOnly", "ProcessCores", "ThreadCores", "available_cores", "cores_for"]


def cores_for(
    count: int, *, releases_gil: bool, patience: float = PATIENCE_SECONDS, preload: Sequence[str] = ()
) -> Cores:
    """Make some cores of this machine: threads for work that releases the interpreter's lock, otherwise processes.

    Make processes before other threads run. They get the ``patience``, in seconds, and load the modules
    ``preload`` (see `ProcessCores`).
    """
    if count == 1:
        return OneCore()
    return ThreadCores(count) if releases_gil else ProcessCores(count, patience, preload)
