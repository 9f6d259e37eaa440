"""Which attacks a service mounts: those named in its settings that its party can play."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import attacks
from services.common.identity import Role

_log = logging.getLogger(__name__)


def load_attacks(
    names: Sequence[str], options: Mapping[str, Mapping[str, Any]], role: Role
) -> tuple[dict[str, attacks.PredictionAttack], dict[str, attacks.TrainingAttack]]:
    """The named attacks that a party of this role can mount, on predictions and in training.

    Others are ignored, with a line in the log.

    Raises:
        ValueError: for a wrong name or option, at once, so that the service doesn't start.
    """
    prediction: dict[str, attacks.PredictionAttack] = {}
    training: dict[str, attacks.TrainingAttack] = {}
    for name in names:
        spec, chosen = attacks.spec_of(name), options.get(name, {})
        is_played = _is_played(name, spec, role)
        # An ignored attack is loaded, too: its options are checked wherever it is named.
        if spec.phase == "prediction":
            on_predictions = attacks.load_prediction(name, **chosen)
            if is_played:
                prediction[name] = on_predictions
        else:
            in_training = attacks.load_training(name, **chosen)
            if is_played:
                training[name] = in_training
    return prediction, training


def _is_played(name: str, spec: attacks.AttackSpec, role: Role) -> bool:
    """Whether a party of this role can mount an attack. The log says why it can't."""
    if spec.adversary not in (role, "either"):
        _log.warning("%s is an attack of the %s party: ignored here.", name, spec.adversary)
        return False
    if spec.phase == "prediction" and role != Role.ACTIVE:
        _log.warning("%s is an attack on predictions, which only the active party sees: ignored here.", name)
        return False
    return True
