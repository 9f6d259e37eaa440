"""Defences by name: those built in, and those that other packages register under ``plumbline.defences``."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from defences.base import DECLARATIONS, METHODS, Defence, DefenceSpec
from vfl.plugin_registry import PluginRegistry


class UnknownDefence(ValueError):
    """No defence has this name; the message lists those there are.

    Examples:
        >>> load("score_roundin")
        Traceback (most recent call last):
            ...
        defences.registry.UnknownDefence: Unknown defence 'score_roundin'. Known: ... Did you mean 'score_rounding'?
    """


# In the order in which an audit tries them: first what costs no accuracy, as far as that is known.
_BUILT_IN = {
    "response_truncation": "defences.response_truncation:ResponseTruncation",
    "dp_noise": "defences.dp_noise:DpNoise",
    "parameter_rotation": "defences.parameter_rotation:ParameterRotation",
    "feature_transform": "defences.feature_transform:FeatureTransform",
    "class_label": "defences.score_distortion:ClassLabel",
    "score_rounding": "defences.score_distortion:ScoreRounding",
    "score_noise": "defences.score_distortion:ScoreNoise",
    "score_scheme1": "defences.score_schemes:ScoreScheme1",
    "score_scheme2": "defences.score_schemes:ScoreScheme2",
    "score_scheme3": "defences.score_schemes:ScoreScheme3",
    "purification": "defences.purification:Purification",
    "hidden_rounding": "defences.hidden_distortion:HiddenRounding",
    "hidden_noise": "defences.hidden_distortion:HiddenNoise",
    "discrete_gradients": "defences.discrete_gradients:DiscreteGradients",
    "marvell": "defences.marvell:Marvell",
    "max_norm": "defences.max_norm:MaxNorm",
    "label_randomised_response": "defences.label_randomised_response:LabelRandomisedResponse",
    "dp_sgd": "defences.dp_sgd:DpSgd",
}

ENTRY_POINT_GROUP = "plumbline.defences"
REGISTRY = PluginRegistry("defence", ENTRY_POINT_GROUP, _BUILT_IN, UnknownDefence)

names = REGISTRY.names
defence_class = REGISTRY.class_of


def spec_of(name: str) -> DefenceSpec:
    """Look up what a defence declares, with its default options where these decide; raises as ``load`` does."""
    spec = getattr(defence_class(name), "spec", None)
    return spec if isinstance(spec, DefenceSpec) else load(name).spec


def candidates() -> Mapping[str, DefenceSpec]:
    """List the usable defences that say what they stop, those of other packages last."""
    specs = {}
    for name in dict.fromkeys((*_BUILT_IN, *REGISTRY.usable())):
        with suppress(ValueError):  # one that can't be made without options
            specs[name] = spec_of(name)
    return {name: spec for name, spec in specs.items() if spec.stops}


def load(name: str, /, **options: Any) -> Any:
    """Make a defence from its name and options.

    Raises:
        UnknownDefence: for a name that no defence has.
        ValueError: for options that it doesn't take, and where it declares nothing or lacks a method that its stages
            call for.

    Examples:
        >>> load("score_rounding", decimals=1) == defence_class("score_rounding")(decimals=1)
        True
    """
    defence = REGISTRY.load(name, **options)
    if not isinstance(getattr(defence, "spec", None), DefenceSpec) or not isinstance(
        getattr(defence, "name", None), str
    ):
        raise ValueError(f"{name} is no defence: give its class a spec, a defences.DefenceSpec, and a name.")
    called = [method for stage in defence.spec.stages for method in METHODS.get(stage, ())]
    if lacking := [method for method in called if not callable(getattr(defence, method, None))]:
        raise ValueError(
            f"{name} works on {', '.join(defence.spec.stages)} and lacks {', '.join(lacking)}, which its service calls."
        )
    for declared in {DECLARATIONS[stage] for stage in defence.spec.stages if stage in DECLARATIONS}:
        if not callable(getattr(defence, declared, lambda: None)):
            raise ValueError(
                f"{name} has {declared}, which is no method: it says what all parties know of the defence."
            )
    return defence


def load_all(selection: Sequence[str], options: Mapping[str, Mapping[str, Any]]) -> tuple[Defence, ...]:
    """Make several defences, in the order given.

    Raises:
        UnknownDefence: for a name that no defence has.
        ValueError: for options of a defence that isn't chosen, a name that comes twice, or two defences that contradict
            each other.

    Examples:
        >>> load_all(["score_rounding", "dp_noise"], {"score_rounding": {"decimals": 1}})[0]
        ScoreRounding(decimals=1)
    """
    if unused := [name for name in options if name not in selection]:
        raise ValueError(
            f"Options for {', '.join(unused)}, which is not among the defences: add the name or drop them."
        )
    if len(set(selection)) != len(selection):
        raise ValueError(f"Each defence is named once: got {', '.join(selection)}.")
    defences = tuple(load(name, **options.get(name, {})) for name in selection)
    replaced: dict[str, str] = {}
    for defence in defences:
        target = defence.spec.replaces
        if target in replaced:
            raise ValueError(f"{replaced[target]} and {defence.name} both replace the {target}: choose one of them.")
        if target:
            replaced[target] = defence.name
    return defences
