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
    channel_of,
    disclosure_of,
)
from defences.noise import NoiseSource
from defences.registry import UnknownDefence, defence_class, load, load_all, names

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
    "channel_of",
    "defence_class",
    "disclosure_of",
    "load",
    "load_all",
    "names",
]
