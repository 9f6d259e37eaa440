"""Learners by name: those built in, and those that other packages register under ``plumbline.learners``."""

from typing import Any

from vfl.learning.learner import Learner, LearnerSpec
from vfl.plugin_registry import PluginRegistry


class UnknownLearner(ValueError):
    """No learner has this name; the message lists those there are."""


_BUILT_IN = {
    "linear": "vfl.learning.linear.regression:LinearRegression",
    "installed": "vfl.learning.installed:Installed",
    "network": "vfl.learning.network:Network",
    "boosted_trees": "vfl.learning.trees.boosted_trees:BoostedTrees",
}
_METHODS = ("columns", "outputs", "terms", "tells", "begin", "join", "link")

ENTRY_POINT_GROUP = "plumbline.learners"
# A model that is brought (PLUMBLINE_MODEL) is nothing to train.
REGISTRY = PluginRegistry("learner", ENTRY_POINT_GROUP, _BUILT_IN, UnknownLearner, unlisted=("installed",))

names = REGISTRY.names


def is_built_in(name: str) -> bool:
    """Tell whether a learner is Plumbline's own."""
    return name in _BUILT_IN


def load(name: str, /, **options: Any) -> Learner:
    """Make a learner from its name and options.

    Raises:
        UnknownLearner: for a name that no learner has.
        ValueError: for options that it doesn't take, and where it declares nothing or lacks a method.
    """
    learner = REGISTRY.load(name, **options)
    if not isinstance(getattr(learner, "spec", None), LearnerSpec) or getattr(learner, "name", None) != name:
        raise ValueError(f"{name} is no learner: give its class a spec, a LearnerSpec, and the name {name!r}.")
    if lacking := [method for method in _METHODS if not callable(getattr(learner, method, None))]:
        raise ValueError(f"{name} lacks {', '.join(lacking)}: let its class be a vfl.learning.Learner.")
    spec: LearnerSpec = learner.spec
    if spec.answers != "scores" and not callable(getattr(spec.part, "scores", None)):
        does = "forwards a layer" if spec.forwards else "reaches leaves"
        raise ValueError(f"{name} {does}: give its part, {spec.part.__name__}, a method scores.")
    return learner  # type: ignore[no-any-return]
