"""Defences by name. Each says where it sits, what it keeps, and what it doesn't stop.

What stands here is public, the other modules are private. ``docs/adding-a-defence.md`` has the contract at length,
``Defence`` what a plugin promises.

Examples:
    >>> import numpy as np
    >>> import defences
    >>> context = defences.ScoreContext(defences.NoiseSource())
    >>> defences.load("score_rounding", decimals=1).protect_scores(np.array([[0.23, 0.77]]), context)
    array([[0.2, 0.8]])
    >>> "score_rounding" in defences.names()
    True
"""

from defences.base import (
    Defence,
    DefenceError,
    DefenceSpec,
    FeatureDefence,
    HiddenDefence,
    LabelDefence,
    LabelledResidualDefence,
    ParameterDefence,
    ResidualDefence,
    ScoreContext,
    ScoreDefence,
    SessionDefence,
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
    "HiddenDefence",
    "LabelDefence",
    "LabelledResidualDefence",
    "NoiseSource",
    "ParameterDefence",
    "ResidualDefence",
    "ScoreContext",
    "ScoreDefence",
    "SessionDefence",
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
