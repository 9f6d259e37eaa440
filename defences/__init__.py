"""Defences by name. Each says where it sits, what it keeps, and what it doesn't stop.

defence = defences.load("class_label")
delivered = defence.protect_scores(scores, defences.ScoreContext(defences.NoiseSource()))   # (n, k)
"""

from defences.base import (
    Defence,
    DefenceError,
    DefenceSpec,
    FeatureDefence,
    ParameterDefence,
    ResidualDefence,
    ScoreContext,
    ScoreDefence,
    TrainingTerms,
    UpdateDefence,
)
from defences.noise import NoiseSource
from defences.registry import UnknownDefence, load, load_all, names

__all__ = [
    "Defence",
    "DefenceError",
    "DefenceSpec",
    "FeatureDefence",
    "NoiseSource",
    "ParameterDefence",
    "ResidualDefence",
    "ScoreContext",
    "ScoreDefence",
    "TrainingTerms",
    "UnknownDefence",
    "UpdateDefence",
    "load",
    "load_all",
    "names",
]
