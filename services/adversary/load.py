"""Which attacks a service mounts: those named in its settings that its party can play, each with its options."""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attacks
from services.common.identity import Role
from services.common.settings import AttackOptions

_log = logging.getLogger(__name__)

# Of an attack on training, whose files bear its label.
_FILE_NAME = re.compile(r"[\w(),.=+ -]{1,120}")


def load_attacks(
    names: Sequence[str], options: Mapping[str, AttackOptions], role: Role
) -> tuple[dict[str, attacks.PredictionAttack], dict[str, attacks.TrainingAttack]]:
    """Load the named attacks that a party of this role can mount, on predictions and in training, by their labels.

    Others are ignored, with a line in the log.

    Raises:
        ValueError: for a wrong name or option, at once, so that the service doesn't start.
    """
    prediction: dict[str, attacks.PredictionAttack] = {}
    training: dict[str, attacks.TrainingAttack] = {}
    for name in names:
        spec = attacks.spec_of(name)
        is_played = _is_played(name, spec, role)
        for label, attack_options in instances(name, options.get(name, {})):
            if label in (*prediction, *training):
                raise ValueError(f"{label} is mounted twice: name each attack, and each of its options, once.")
            # An ignored attack is loaded, too: its options are checked wherever it is named.
            if spec.phase == "prediction":
                on_predictions = attacks.load_prediction(name, **attack_options)
                if is_played:
                    prediction[label] = on_predictions
            else:
                if not _FILE_NAME.fullmatch(label):
                    raise ValueError(
                        f"{label[:120]} can't be part of a file's name: give {name} one object of options."
                    )
                in_training = attacks.load_training(name, **attack_options)
                if is_played:
                    training[label] = in_training
    return prediction, training


def instances(name: str, options: AttackOptions) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """List the label and the options of each mounting of an attack: one for an object, or for each of a list."""
    if isinstance(options, Mapping):
        yield name, options
        return
    for variant in options:
        yield labelled(name, **variant), variant


def labelled(label: str, **options: Any) -> str:
    """Write a label with options in parentheses, behind those that it has: ``gia(init=half, distance=kld)``."""
    if not options:
        return label
    option_text = ", ".join(
        f"{option}={value if isinstance(value, str) else json.dumps(value)}" for option, value in options.items()
    )
    return f"{label[:-1]}, {option_text})" if label.endswith(")") else f"{label}({option_text})"


def _is_played(name: str, spec: attacks.AttackSpec, role: Role) -> bool:
    """Tell whether a party of this role can mount an attack. The log says why it can't."""
    if spec.adversary not in (role, "either"):
        _log.warning("%s is an attack of the %s party: ignored here.", name, spec.adversary)
        return False
    if spec.phase == "prediction" and role != Role.ACTIVE:
        _log.warning("%s is an attack on predictions, which only the active party sees: ignored here.", name)
        return False
    return True
