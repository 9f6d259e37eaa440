"""Settings that the active party proposes to all: the plan's terms, and the options of what is trained."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_settings import NoDecode

from services.common.agreement import TrainingPlan
from services.common.opening_options import OpeningOptions
from services.common.party_settings import PartySettings
from services.common.setting_texts import read_options
from vfl.learning.linear.initialisation import Initialisation
from vfl.learning.linear.regression import LinearRegression, Steps
from vfl.learning.network.split_network import Backward, Network
from vfl.plugin_options import PluginOption, expected_of, options_of

# What the plan asks of settings by the same name; the learner's options have several.
TERMS = tuple(name for name in TrainingPlan.__dataclass_fields__ if not name.startswith(("learner", "protocol_")))
LINEAR = {one.name: one for one in options_of(LinearRegression)}
_OPENING = {one.name: one for one in options_of(OpeningOptions)}
_NETWORK = {one.name: one for one in options_of(Network)}
# Options of learners that are settings of their own, by what stands for the learners that have them.
OF_LEARNERS = {**dict.fromkeys(LINEAR, LinearRegression.name), "backward": Network.name}

# Options of a plugin, as JSON.
JsonOptions: TypeAlias = Annotated[dict[str, Any], NoDecode, BeforeValidator(read_options)]


def _term(name: str, **default: Any) -> Any:
    """Declare a setting that the active party proposes to all: default and meaning are those of the plan's field."""
    field = TrainingPlan.__dataclass_fields__[name]
    return Field(**{"default": field.default, **default}, description=field.metadata["description"])


def _option(name: str, options: Mapping[str, PluginOption] = LINEAR) -> Any:
    """Declare a setting that is an option of a learner: default and meaning are the learner's."""
    return Field(options[name].default, description=options[name].meaning)


class PlanSettings(PartySettings):
    """What the active party has trained, and how."""

    epochs: int = _term("epochs", default=0)
    batch_size: int = _term("batch_size")
    batches: str = _term("batches")
    protocol: str = _term("protocol")
    serving: Literal["opened", "shared"] = _option("serving", _OPENING)
    opening: Literal["guarded", "always"] = Field(
        "guarded",
        description="With protocol=shared. guarded: weights stay shared after training where, opened, they could carry "
        "more than 5 % of the labels or of a record. always: this party lets them be opened all the same.",
    )
    opening_bits: int = _option("opening_bits", _OPENING)
    protocol_options: JsonOptions = Field(
        default_factory=dict, description="Options of another package's protocol as JSON; those of ours are settings."
    )
    learner: str = Field("linear", description="What the active party has trained, by name; the plan tells others.")
    learner_options: JsonOptions = Field(
        default_factory=dict,
        description='Its options as JSON: {"hidden": 32}; each of linear is a setting, too.',
    )
    backward: Backward = _option("backward", _NETWORK)
    learning_rate: float = _option("learning_rate")
    l2: float = _option("l2")
    initialisation: Initialisation = _option("initialisation")
    steps: Steps | None = Field(
        None,
        description=f"{LINEAR['steps'].meaning} Default: own_moments; plain with dp_noise, whose proof is of "
        "these, and with protocol=shared where batch_size or l2 is given.",
    )
    calibrated: bool = Field(True, description=LINEAR["calibrated"].meaning)
    validation_fraction: float = _term("validation_fraction")
    test_fraction: float = _term("test_fraction")
    patience: int = _term("patience")
    seed: int = _term("seed")
    private_seed: int | None = Field(
        None, ge=0, description="This party's initial weights and noise; default: the operating system's randomness."
    )

    cipher: str = _term("cipher")
    cipher_options: JsonOptions = Field(
        default_factory=dict, description="Options of another package's cipher as JSON; those of ours are settings."
    )
    packing: bool = _term("packing")
    rerandomise: bool = _term("rerandomise")
    key_bits: int = _term("key_bits")
    allow_insecure_keys: bool = Field(False, description="Needed for keys under 2048 bits.")
    feature_fraction_bits: int = _term("feature_fraction_bits")
    residual_fraction_bits: int = _term("residual_fraction_bits")
    residual_integer_bits: int = _term("residual_integer_bits")

    @field_validator(*TERMS)
    @classmethod
    def _check_term(cls, value: Any, info: ValidationInfo) -> Any:
        if expected := expected_of(TrainingPlan.__dataclass_fields__[str(info.field_name)], value):
            raise ValueError(f"expected {expected}, got {value!r}")
        return value

    @field_validator("learning_rate", "l2")
    @classmethod
    def _check_option(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        try:
            LinearRegression(**{name: value})
        except ValueError as error:
            raise ValueError(str(error).replace(f"Expected {name} to be", "expected")) from error
        return value
