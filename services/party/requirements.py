"""What the active and the passive parties alike require of their settings before they start."""

from services.common.identity import Role
from services.common.settings import Settings, SettingsError


def check_party_settings(settings: Settings) -> None:
    """Raises SettingsError for a party without data or without a coordinator."""
    if not settings.data:
        raise SettingsError(
            "PLUMBLINE_DATA is not set: give a .csv or .parquet file, a database URL or a data set's name."
        )
    if Role.COORDINATOR not in settings.peers:
        raise SettingsError("PLUMBLINE_PEERS names no coordinator: add coordinator=HOST:PORT.")
