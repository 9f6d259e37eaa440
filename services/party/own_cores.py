"""The cores that a party's settings give it."""

from services.common.settings import Settings
from vfl.cores import Cores, available_cores, cores_for

_MOST_WORKERS = 256  # as in the settings


def own_cores(settings: Settings) -> Cores:
    """Make processes for what holds the interpreter's lock: as many as the settings say, or as this process may use.

    Call it before gRPC has threads. It takes milliseconds; workers are started when there is work for them.
    """
    return cores_for(settings.workers or min(available_cores(), _MOST_WORKERS), releases_gil=False)
