"""Attacks: one file per family, each a pure function of what its adversary saw.

view = attacks.PredictionView(weights_active=W_a, weights_passive=W_p, bias=b, features_active=Y, scores=C)
estimate = attacks.load("half_star").reconstruct(view)   # (n, d)
"""

from attacks.base import (
    LEVELS,
    AttackSpec,
    BaselinedAttack,
    Extent,
    Json,
    Level,
    PredictionAttack,
    Reconstruction,
    Scenario,
    level_of,
    reconstruct,
    require,
)
from attacks.registry import UnknownAttack, load, load_prediction, load_training, names, spec_of
from attacks.training import (
    HonestFactory,
    ListeningAttack,
    ReplacingAttack,
    SessionMessages,
    SessionTerms,
    TrainingAttack,
    TrainingResult,
)
from attacks.training_views import TrainingView, solve_steps
from attacks.views import AuxiliaryRows, PassiveMoments, PredictionView, ViewError

__all__ = [
    "LEVELS",
    "AttackSpec",
    "AuxiliaryRows",
    "BaselinedAttack",
    "Extent",
    "HonestFactory",
    "Json",
    "Level",
    "ListeningAttack",
    "PassiveMoments",
    "PredictionAttack",
    "PredictionView",
    "Reconstruction",
    "ReplacingAttack",
    "Scenario",
    "SessionMessages",
    "SessionTerms",
    "TrainingAttack",
    "TrainingResult",
    "TrainingView",
    "UnknownAttack",
    "ViewError",
    "level_of",
    "load",
    "load_prediction",
    "load_training",
    "names",
    "reconstruct",
    "require",
    "solve_steps",
    "spec_of",
]
