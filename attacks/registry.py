"""The registry of attacks: an explicit dict, plus whatever other packages offer under ``plumbline.attacks``."""

from vfl.plugin_registry import PluginRegistry


class UnknownAttack(ValueError):
    """A name that no attack has; the message lists those there are."""


_BUILT_IN = {
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
REGISTRY = PluginRegistry("attack", ENTRY_POINT_GROUP, _BUILT_IN, UnknownAttack)

names = REGISTRY.names
attack_class = REGISTRY.class_of
load = REGISTRY.load
