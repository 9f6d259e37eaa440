"""Attacks: one file per family, each a pure function of what its adversary saw.

What stands here is public, with ``attacks.prediction.adaptive.undo``; the other modules are private.
``docs/adding-an-attack.md`` has the contract at length, ``PredictionAttack`` and ``TrainingAttack`` what a plugin
promises.

Examples:
    >>> import numpy as np
    >>> import attacks
    >>> view = attacks.PredictionView(
    ...     weights_active=np.array([[-1.0], [1.0]]),   # (k, d_a)
    ...     weights_passive=np.array([[-1.0], [1.0]]),  # (k, d)
    ...     bias=np.zeros(2),
    ...     features_active=np.array([[0.25]]),         # (n, d_a)
    ...     scores=np.array([[0.2, 0.8]]),              # (n, k)
    ... )
    >>> attacks.load("half_star").reconstruct(view).round(3)
    array([[0.443]])
    >>> "half_star" in attacks.names()
    True
"""

from attacks.base import (
    AttackSpec,
    BaselinedAttack,
    Extent,
    Json,
    PredictionAttack,
    Reconstruction,
    Scenario,
    level_of,
    reconstruct,
    require,
)
from attacks.registry import UnknownAttack, load, load_prediction, load_training, names, spec_of
from attacks.training_attack import (
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
from vfl.adversary_words import LEVELS, Conduct, Level

__all__ = [
    "LEVELS",
    "AttackSpec",
    "AuxiliaryRows",
    "BaselinedAttack",
    "Conduct",
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
