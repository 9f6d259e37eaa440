"""Which room checks the settings of which role: for whoever starts services of any role."""

from services.active import requirements as active
from services.common.identity import Role
from services.common.settings import Settings
from services.coordinator import requirements as coordinator
from services.passive import requirements as passive

_CHECKS = {
    Role.ACTIVE: active.check_settings,
    Role.COORDINATOR: coordinator.check_settings,
    Role.PASSIVE: passive.check_settings,
}


def check_role(settings: Settings, role: Role) -> None:
    """Raises SettingsError for settings that don't fit the role."""
    _CHECKS[role](settings)
