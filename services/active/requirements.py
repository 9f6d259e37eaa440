"""What the active party requires of its settings before it starts."""

from services.common.identity import Role
from services.common.settings import Settings, SettingsError
from services.party.requirements import check_party_settings


def check_settings(settings: Settings) -> None:
    """Raises SettingsError for settings that don't fit the active party."""
    if settings.share and not settings.share.startswith("1/"):
        raise SettingsError("PLUMBLINE_SHARE: the active party takes share 1/N, which has the labels.")
    check_party_settings(settings)
    if not settings.passive_peers():
        raise SettingsError("PLUMBLINE_PEERS names no passive party: add NAME=HOST:PORT for each.")
    if settings.name not in ("", Role.ACTIVE):
        raise SettingsError("PLUMBLINE_NAME: the active party is called active. Unset it.")
