"""Attacks: one file per family, each a pure function of what its adversary saw.

view = attacks.PredictionView(weights_active=W_a, weights_passive=W_p, bias=b, features_active=Y, scores=C)
estimate = attacks.load("half_star").reconstruct(view)   # (n, d)
"""

from attacks.base import AttackSpec, PredictionAttack, require
from attacks.registry import UnknownAttack, load, names
from attacks.views import AuxiliaryRows, PredictionView, ViewError

__all__ = [
    "AttackSpec",
    "AuxiliaryRows",
    "PredictionAttack",
    "PredictionView",
    "UnknownAttack",
    "ViewError",
    "load",
    "names",
    "require",
]
