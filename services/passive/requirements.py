"""What a passive party requires of its settings before it starts."""

from services.common.identity import Role, role_of
from services.common.settings import Settings, SettingsError
from services.party.requirements import check_party_settings
from vfl.data import DATASETS


def check_settings(settings: Settings) -> None:
    """Raises SettingsError for settings that don't fit a passive party."""
    if settings.data in DATASETS and (not settings.share or settings.share.startswith("1/")):
        raise SettingsError("PLUMBLINE_SHARE: a passive party takes share 2/N or later; share 1 has the labels.")
    if settings.label_column:
        raise SettingsError(
            "PLUMBLINE_LABEL_COLUMN is the active party's: a passive party never holds labels. Unset it."
        )
    check_party_settings(settings)
    if Role.ACTIVE not in settings.peers:
        raise SettingsError("PLUMBLINE_PEERS names no active party: add active=HOST:PORT.")
    if settings.name and role_of(settings.name) is not Role.PASSIVE:
        raise SettingsError(f"PLUMBLINE_NAME={settings.name} is another role's name. Choose one such as passive-1.")
