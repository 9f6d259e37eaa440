"""Which plugins a service mounts: those named in its settings that its party can play."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import attacks
from attacks.training_views import TrainingAttack
from services.common.identity import Role

_log = logging.getLogger(__name__)


def load_attacks(
    names: Sequence[str], options: Mapping[str, Mapping[str, Any]], role: Role
) -> tuple[dict[str, attacks.PredictionAttack], dict[str, TrainingAttack]]:
    """The named attacks that a party of this role can mount, on predictions and in training; others are ignored.

    Each ignored one gets a line in the log. Raises UnknownAttack or ValueError at once, so that a service with a wrong
    name doesn't start.
    """
    prediction: dict[str, attacks.PredictionAttack] = {}
    training: dict[str, TrainingAttack] = {}
    for name in names:
        attack = attacks.load(name, **options.get(name, {}))
        if attack.spec.adversary not in (role, "either"):
            _log.warning("%s is an attack of the %s party: ignored here.", name, attack.spec.adversary)
        elif attack.spec.phase == "prediction":
            prediction[name] = attack
        else:
            training[name] = attack
    return prediction, training
