"""The cores that a party's settings give it."""

from services.common.settings import Settings
from vfl.cores import Cores, available_cores, cores_for

_MOST_WORKERS = 256  # as in the settings
# Found out within two patiences, two stopped workers in a row leave half of the time to the work itself.
_PATIENCES_OF_A_STEP = 8
# What its workers compute with.
_WORK = ("vfl.crypto.engine", "vfl.crypto.curve25519")


def own_cores(settings: Settings) -> Cores:
    """Make processes for what holds the interpreter's lock: as many as the settings say, or as this process may use.

    Call it before gRPC has threads. It takes milliseconds; workers are started when there is work for them.
    """
    count = settings.workers or min(available_cores(), _MOST_WORKERS)
    return cores_for(count, releases_gil=False, patience=settings.step_timeout / _PATIENCES_OF_A_STEP, preload=_WORK)
