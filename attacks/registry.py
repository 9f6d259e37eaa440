"""The registry of attacks: an explicit dict, plus whatever other packages offer under ``plumbline.attacks``."""

from dataclasses import fields
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

# name -> module:class. Modules are imported when an attack is loaded: some need torch, which services don't.
_BUILT_IN: dict[str, str] = {
    "zero": "attacks.baselines:Zero",
    "random_guess": "attacks.baselines:RandomGuess",
    "half": "attacks.baselines:Half",
    "ls": "attacks.equation_solving:LeastSquares",
    "half_star": "attacks.equation_solving:HalfStar",
    "clamped_ls": "attacks.equation_solving:ClampedLeastSquares",
    "cls": "attacks.equation_solving:ConstrainedLeastSquares",
    "rcc1": "attacks.chebyshev:RelaxedChebyshevCentre1",
    "rcc2": "attacks.chebyshev:RelaxedChebyshevCentre2",
    "gia": "attacks.gradient_inversion:GradientInversion",
    "grn": "attacks.generative:GenerativeRegression",
    "one_feature": "attacks.one_feature:OneFeature",
    "shadow": "attacks.shadow:ShadowModel",
    "agnostic": "attacks.agnostic:Agnostic",
    "feature_order": "attacks.feature_order:FeatureOrder",
    "label_recovery": "attacks.label_recovery:LabelRecovery",
    "auxiliary_ciphertext": "attacks.auxiliary_ciphertext:AuxiliaryCiphertext",
    "randomiser_channel": "attacks.randomiser_channel:RandomiserChannel",
}

ENTRY_POINT_GROUP = "plumbline.attacks"


class UnknownAttack(ValueError):
    """A name that no attack has; the message lists those there are."""


def names() -> tuple[str, ...]:
    """Names of all attacks, built in and installed, sorted."""
    return tuple(sorted({*_BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))}))


def attack_class(name: str) -> Any:
    """The class behind a name; raises UnknownAttack."""
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        return getattr(import_module(module), attribute)
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.name == name:
            return point.load()
    raise UnknownAttack(f"Unknown attack {name!r}. Known: {', '.join(names())}.")


def load(name: str, **options: Any) -> Any:
    """An attack by name, with its options; raises UnknownAttack, or ValueError for an option it doesn't have."""
    chosen = attack_class(name)
    try:
        return chosen(**options)
    except TypeError as error:
        known = ", ".join(field.name for field in fields(chosen)) or "none"
        raise ValueError(f"{name} can't take {', '.join(options)}: {error}. Its options: {known}.") from error
