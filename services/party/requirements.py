"""What the active and the passive parties alike require of their settings before they start."""

from importlib.util import find_spec

from services.common.identity import Role
from services.common.settings import Settings, SettingsError
from vfl.crypto.kernels import kernel_named


def check_party_settings(settings: Settings) -> None:
    """Raises SettingsError for a party without data or without a coordinator, and for a kernel that can't run."""
    if not settings.data:
        raise SettingsError(
            "PLUMBLINE_DATA is not set: give a .csv or .parquet file, a database URL or a data set's name."
        )
    if Role.COORDINATOR not in settings.peers:
        raise SettingsError("PLUMBLINE_PEERS names no coordinator: add coordinator=HOST:PORT.")
    if settings.kernel == "phe":
        _check_reference(settings)
    if settings.dask:
        _check_cluster(settings)
    if settings.kernel == "native":
        _check_native()


def _check_cluster(settings: Settings) -> None:
    if settings.kernel == "phe":
        raise SettingsError(
            "PLUMBLINE_KERNEL=phe computes in its own process: it contradicts PLUMBLINE_DASK. Drop one."
        )
    from vfl.crypto.cluster import ClusterRefused, check_cluster

    try:
        check_cluster(settings.dask)
    except ClusterRefused as error:
        raise SettingsError(f"PLUMBLINE_DASK: {error}") from error


def _check_native() -> None:
    try:
        kernel_named("native")
    except (RuntimeError, ValueError) as error:
        raise SettingsError(f"PLUMBLINE_KERNEL=native: {error}") from error


def _check_reference(settings: Settings) -> None:
    if settings.packing and settings.plan().is_encrypted:
        raise SettingsError(
            "PLUMBLINE_KERNEL=phe has one value in a ciphertext: set PLUMBLINE_PACKING=off here and at every other "
            "party."
        )
    if find_spec("phe") is None:
        raise SettingsError("PLUMBLINE_KERNEL=phe needs python-paillier: pip install 'plumbline[phe]'.")
