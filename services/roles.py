"""What each role requires of its settings: for whoever starts services of any role."""

from services.common.identity import Role
from services.common.settings import Settings


def check_role(settings: Settings, role: Role) -> None:
    """Raises SettingsError for settings that don't fit the role."""
    # Imported late, so that a coordinator doesn't load what a party's data need.
    if role is Role.COORDINATOR:
        from services.coordinator import requirements as coordinator

        coordinator.check_settings(settings)
    elif role is Role.ACTIVE:
        from services.active import requirements as active

        active.check_settings(settings)
    else:
        from services.passive import requirements as passive

        passive.check_settings(settings)
