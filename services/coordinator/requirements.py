"""What the coordinator requires of its settings before it starts."""

from services.common.identity import Role
from services.common.settings import Settings, SettingsError


def check_settings(settings: Settings) -> None:
    """Raises SettingsError for settings that don't fit the coordinator."""
    if settings.data:
        raise SettingsError("PLUMBLINE_DATA is a party's: the coordinator holds no data. Unset it.")
    if settings.name not in ("", Role.COORDINATOR):
        raise SettingsError("PLUMBLINE_NAME: the coordinator is called coordinator. Unset it.")
