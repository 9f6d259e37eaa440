"""Which defences a service applies: those named in its settings that sit with its role."""

import logging
from collections.abc import Mapping

import defences
from defences import Defence, NoiseSource
from defences.base import Stage
from services.common.identity import Role
from services.common.settings import Settings

_log = logging.getLogger(__name__)

# What each role's service calls a defence for.
APPLIED: Mapping[Role, tuple[Stage, ...]] = {
    Role.ACTIVE: ("labels", "residuals", "labelled_residuals", "updates", "answers"),
    Role.PASSIVE: ("residuals", "hidden", "updates", "answers", "features", "parameters"),
    Role.COORDINATOR: ("scores",),
}


def load_defences(settings: Settings, role: Role) -> tuple[Defence, ...]:
    """Load the named defences that this role applies, in the order given. Others get a line in the log.

    Raises:
        ValueError: for a wrong name, option or combination, and for a defence that nothing here would call. It is
            raised at once, so that the service doesn't start.
    """
    loaded = defences.load_all(settings.defences, settings.defence_options)
    for defence in loaded:
        if role not in defence.spec.sits:
            _log.warning("%s is a defence of the %s: ignored here.", defence.name, " and the ".join(defence.spec.sits))
    here = tuple(defence for defence in loaded if role in defence.spec.sits)
    for defence in here:
        if not set(defence.spec.stages) & set(APPLIED[role]):
            raise ValueError(
                f"{defence.name} sits at the {role} and works on {', '.join(defence.spec.stages)}, and that service "
                f"applies defences of {', '.join(APPLIED[role])} only: drop it, or correct its spec."
            )
        _log.info("Defends with %r.", defence)
    return here


def noise_source(settings: Settings, secret: bytes | None = None) -> NoiseSource:
    """Take the operating system's randomness, unless this party's private seed asks for a run that can be repeated.

    ``secret`` is behind all that must be the same after a restart; None draws one for this process.
    """
    if settings.private_seed is None:
        return NoiseSource(key=secret)
    if settings.defences:
        _log.warning("PLUMBLINE_PRIVATE_SEED is set: noise repeats, and whoever knows the seed can take it off.")
    return NoiseSource(settings.private_seed)
