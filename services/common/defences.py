"""Which defences a service applies: those named in its settings that sit with its role."""

import logging

import defences
from defences import Defence, NoiseSource
from services.common.identity import Role
from services.common.settings import Settings

_log = logging.getLogger(__name__)


def load_defences(settings: Settings, role: Role) -> tuple[Defence, ...]:
    """The named defences that this role applies, in the order given; others get a line in the log.

    Raises UnknownDefence or ValueError at once: a service with a wrong name, option or combination doesn't start.
    """
    chosen = defences.load_all(settings.defences, settings.defence_options)
    for defence in chosen:
        if role not in defence.spec.sits:
            _log.warning("%s is a defence of the %s: ignored here.", defence.name, " and the ".join(defence.spec.sits))
    return tuple(defence for defence in chosen if role in defence.spec.sits)


def noise_source(settings: Settings) -> NoiseSource:
    """The operating system's randomness, unless this party's private seed asks for a run that can be repeated."""
    if settings.private_seed is not None and settings.defences:
        _log.warning("PLUMBLINE_PRIVATE_SEED is set: noise repeats, and whoever knows the seed can take it off.")
    return NoiseSource(settings.private_seed)
