"""Which plugins a service mounts: those named in its settings that its party can play."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import attacks
from services.common.identity import Role

_log = logging.getLogger(__name__)


def load_attacks(
    names: Sequence[str], options: Mapping[str, Mapping[str, Any]], role: Role
) -> dict[str, attacks.PredictionAttack]:
    """The named attacks that a party of this role can mount; the others are ignored with a line in the log.

    Raises UnknownAttack or ValueError at once, so that a service with a wrong name doesn't start.
    """
    loaded = {name: attacks.load(name, **options.get(name, {})) for name in names}
    for name, attack in loaded.items():
        if attack.spec.adversary != role:
            _log.warning("%s is an attack of the %s party: ignored here.", name, attack.spec.adversary)
    return {name: attack for name, attack in loaded.items() if attack.spec.adversary == role}
