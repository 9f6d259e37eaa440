"""Which plugins a service mounts: those named in its settings that its party can play."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import attacks
from services.common.identity import Role

_log = logging.getLogger(__name__)


def load_prediction_attacks(
    names: Sequence[str], options: Mapping[str, Mapping[str, Any]], role: Role
) -> dict[str, attacks.PredictionAttack]:
    """The named attacks on predictions that a party of this role can mount; others are ignored with a line in the log.

    Raises UnknownAttack or ValueError at once, so that a service with a wrong name doesn't start.
    """
    mounted: dict[str, attacks.PredictionAttack] = {}
    for name in names:
        attack = attacks.load(name, **options.get(name, {}))
        if attack.spec.adversary not in (role, "either"):
            _log.warning("%s is an attack of the %s party: ignored here.", name, attack.spec.adversary)
        elif attack.spec.phase != "prediction":
            _log.warning("%s needs a training transcript, which services don't record: ignored here.", name)
        else:
            mounted[name] = attack
    return mounted
