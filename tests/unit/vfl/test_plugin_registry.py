"""Options of every built-in attack and defence: what their annotations say passes, anything else is one sentence."""

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args, get_type_hints

import numpy as np
import pytest

pytest.importorskip("torch")

import attacks
import defences
from attacks.registry import REGISTRY as ATTACKS
from defences.registry import REGISTRY as DEFENCES
from vfl.arrays import FloatArray
from vfl.plugin_registry import PluginRegistry

if TYPE_CHECKING:
    from fractions import Fraction

BUILT_IN = [(registry, name) for registry in (ATTACKS, DEFENCES) for name in registry.built_in]
OPTIONS = [
    (registry, name, field.name, get_type_hints(registry.class_of(name))[field.name])
    for registry, name in BUILT_IN
    for field in fields(registry.class_of(name))
]

# What JSON, or a script's arithmetic, may give in place of a value of each kind.
EVERYTHING = [1, 2.5, True, math.nan, math.inf, -math.inf, "5", "false", [0.5], ["a"], {"a": 1}, 10**400, None]


def allowed(hint: Any, value: object) -> bool:
    """Whether a value is of an option's kind, decided without pydantic."""
    if hint is int:
        return type(value) is int
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    if hint in (bool, str):
        return type(value) is hint
    if hint is type(None):
        return value is None
    if hint == tuple[int, ...]:
        return isinstance(value, list) and all(allowed(int, one) for one in value)
    choices = get_args(hint)
    assert choices, f"A kind of option that this test doesn't know: {hint}"
    if any(isinstance(choice, int | str) for choice in choices):
        return any(type(value) is type(choice) and value == choice for choice in choices)
    return any(allowed(choice, value) for choice in choices)


@pytest.mark.parametrize(("registry", "name"), BUILT_IN, ids=[name for _, name in BUILT_IN])
def test_every_default_loads_when_it_is_given(registry: PluginRegistry, name: str) -> None:
    defaults = {field.name: field.default for field in fields(registry.class_of(name)) if field.default is not MISSING}
    assert registry.load(name, **defaults) == registry.load(name)


@pytest.mark.parametrize("value", EVERYTHING, ids=[repr(value)[:8] for value in EVERYTHING])
@pytest.mark.parametrize(
    ("registry", "name", "option", "hint"), OPTIONS, ids=[f"{name}-{option}" for _, name, option, _ in OPTIONS]
)
def test_the_wrong_kind_of_every_option_is_refused_with_its_name(
    registry: PluginRegistry, name: str, option: str, hint: Any, value: object
) -> None:
    if allowed(hint, value):
        return
    with pytest.raises(ValueError, match=rf"\b({option}|Unknown attack|{name} needs)\b") as refused:
        registry.load(name, **{option: value})
    assert "not supported between" not in str(refused.value)
    assert len(str(refused.value)) < 300 + len(str(value))


@pytest.mark.parametrize(
    ("name", "option", "value", "said"),
    [
        ("dp_noise", "steps", 1.5, "dp_noise: expected steps to be a whole number or none, got 1.5."),
        ("dp_noise", "steps", True, "dp_noise: expected steps to be a whole number or none, got True."),
        ("dp_noise", "sigma", "5", "dp_noise: expected sigma to be a finite number or none, got '5'."),
        ("dp_noise", "sigma", True, "dp_noise: expected sigma to be a finite number or none, got True."),
        ("parameter_rotation", "relative", "false", "expected relative to be true or false, got 'false'."),
        ("parameter_rotation", "relative", [0.5], "expected relative to be true or false, got [0.5]."),
        ("purification", "epochs", math.nan, "purification: expected epochs to be a whole number, got nan."),
        ("purification", "scores", 3, "purification: expected scores to be a text, got 3."),
        ("dp_sgd", "batch_size", 1.5, "dp_sgd: expected batch_size to be a whole number, got 1.5."),
        ("score_scheme1", "sign", True, "score_scheme1: expected sign to be one of 1, -1, got True."),
        ("score_scheme1", "alpha", True, "score_scheme1: expected alpha to be a finite number, got True."),
        ("grn", "hidden", [1.5], "grn: expected hidden to be a list, each entry a whole number, got [1.5]."),
        ("gia", "learning_rate", math.inf, "gia: expected learning_rate to be a finite number, got inf."),
    ],
)
def test_the_sentence_says_what_was_expected_and_what_was_given(name: str, option: str, value: Any, said: str) -> None:
    registry = ATTACKS if name in ATTACKS.built_in else DEFENCES
    with pytest.raises(ValueError, match="expected") as refused:
        registry.load(name, **{option: value})
    assert str(refused.value).endswith(said)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gia", {"init": "half", "distance": "kld", "steps": 10}),
        ("grn", {"hidden": [8, 4]}),
        ("shadow", {"hidden": [], "activation": "tanh"}),
        ("agnostic", {"base": "rcc2", "refine": "labels", "training": "converged", "l2": 0}),
        ("one_feature", {"case": 3, "omega_sign": "negative"}),
        ("auxiliary_ciphertext", {"iota": 76, "most_copies": 2}),
        ("auxiliary_ciphertext", {"most_copies": None}),
        ("label_recovery", {"squared_norm": 2}),
        ("dp_noise", {"sigma": 5}),
        ("dp_noise", {"epsilon": 0.2, "calibration": "printed", "steps": 30}),
        ("feature_transform", {"at": "training", "kind": "negate"}),
        ("parameter_rotation", {"epsilon": None, "relative": False, "secret": "sign"}),
        ("score_rounding", {"decimals": 0}),
        ("score_scheme1", {"alpha": 16, "sign": -1}),
        ("score_scheme2", {"delta": 1e-3}),
        ("purification", {"hidden": None, "seed": 2**64 - 1}),
        ("dp_sgd", {"epsilon": 1, "delta": None}),
    ],
)
def test_documented_options_load(name: str, options: Mapping[str, Any]) -> None:
    loaded = (attacks if name in ATTACKS.built_in else defences).load(name, **options)
    for option, value in options.items():
        got = getattr(loaded, option)
        assert (list(got) if isinstance(got, tuple) else got) == value


class Model(StrEnum):
    TREES = "trees"


def test_scripts_may_give_numpy_numbers_enums_tuples_and_paths(tmp_path: Path) -> None:
    assert defences.load("dp_noise", sigma=np.float64(2), steps=np.int64(30)).steps == 30
    assert defences.load("score_scheme1", alpha=np.float32(2), sign=np.int64(-1)).sign == -1
    assert attacks.load("grn", hidden=(np.int64(8),)).hidden == (8,)
    assert attacks.load("grn", hidden=np.array([8, 4])).hidden == (8, 4)
    assert attacks.load("regression", model=Model.TREES).model == "trees"
    np.save(tmp_path / "history.npy", np.full((4, 2), 0.5))
    assert defences.load("purification", scores=tmp_path / "history.npy").scores == tmp_path / "history.npy"
    for bad in (np.float64(1.5), np.bool_(True), np.float64("nan")):
        with pytest.raises(ValueError, match=r"expected steps to be a whole number"):
            defences.load("dp_noise", steps=bad)


# --- classes of other packages -------------------------------------------------------------------------------------


class Opaque:
    """What pydantic knows nothing of."""


@dataclass(frozen=True)
class Everything:
    """An option of every kind that another package may think of."""

    name: ClassVar[str] = "everything"

    weights: Mapping[str, float] | None = None
    pairs: tuple[tuple[int, float], ...] = ()
    array: FloatArray | None = None
    opaque: Opaque | None = None
    choice: Literal["a", "b"] = "a"
    call: Callable[[float], float] = abs
    folder: Path = Path()
    bare: list = ()  # type: ignore[type-arg,assignment]


@dataclass(frozen=True)
class Unresolvable:
    """An annotation that exists for a type checker only."""

    ratio: "Fraction | None" = None
    steps: int = 1


@dataclass(frozen=True)
class Raising:
    """Looks into its option before anyone said what it is."""

    table: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if self.table is not None and not self.table.keys():
            raise ValueError("Expected an entry.")


REGISTRY = PluginRegistry(
    "test",
    "plumbline.nothing",
    {one.__name__: f"{__name__}:{one.__name__}" for one in (Everything, Unresolvable, Raising)},
    ValueError,
)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """With importlib's import mode, this module isn't found by its own name."""
    monkeypatch.setattr(PluginRegistry, "class_of", lambda self, name: globals().get(name) or _class_of(self, name))


_class_of = PluginRegistry.class_of


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("weights", {"a": 1}, ""),
        ("weights", {"a": "1"}, "an object or none"),
        ("weights", [1], "an object or none"),
        ("pairs", [[1, 2.5], [2, 3]], ""),
        ("pairs", [[1.5, 2.5]], "a list"),
        ("array", [1.0], ""),
        ("array", "anything", ""),
        ("opaque", Opaque(), ""),
        ("opaque", 5, ""),
        ("choice", "b", ""),
        ("choice", "c", "one of a, b"),
        ("call", math.sqrt, ""),
        ("call", 3, "Callable"),
        ("folder", "data", ""),
        ("folder", Path("data"), ""),
        ("folder", 3, "Path"),
        ("bare", [object()], ""),
        ("bare", 3, "a list"),
    ],
)
def test_annotations_of_other_packages_are_checked_where_they_can_be(option: str, value: object, words: str) -> None:
    if not words:
        assert getattr(REGISTRY.load("Everything", **{option: value}), option) is value
        return
    with pytest.raises(ValueError, match=rf"Everything: expected {option} to be {words}"):
        REGISTRY.load("Everything", **{option: value})


def test_annotations_that_cant_be_read_check_nothing() -> None:
    assert REGISTRY.load("Unresolvable", steps=1.5, ratio=3) == Unresolvable(3, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Unresolvable can't take power.*Its options: ratio, steps"):
        REGISTRY.load("Unresolvable", power=1)


def test_a_class_that_fails_on_the_wrong_kind_is_no_crash_and_one_that_refuses_says_why() -> None:
    with pytest.raises(ValueError, match=r"Raising: expected table to be an object or none, got 5"):
        REGISTRY.load("Raising", table=5)
    with pytest.raises(ValueError, match="Expected an entry"):
        REGISTRY.load("Raising", table={})


@pytest.mark.parametrize("option", ["name", "self", "spec"])
def test_words_that_loading_uses_itself_are_unknown_options_like_others(option: str) -> None:
    with pytest.raises(ValueError, match=f"dp_noise can't take {option}"):
        defences.load("dp_noise", **{option: "other"})
