"""What the active and the passive parties alike require of their settings before they start."""

from importlib.util import find_spec

from services.common.identity import Role
from services.common.settings import Settings, SettingsError


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


def _check_reference(settings: Settings) -> None:
    if settings.cipher == "paillier" and settings.packing:
        raise SettingsError(
            "PLUMBLINE_KERNEL=phe has one value in a ciphertext: set PLUMBLINE_PACKING=off here and at every other "
            "party."
        )
    if find_spec("phe") is None:
        raise SettingsError("PLUMBLINE_KERNEL=phe needs python-paillier: pip install 'plumbline[phe]'.")
