"""Settings as the variables of a process: what it loads from them is what they were."""

import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from services.common.agreement import TrainingPlan
from services.common.settings import PREFIX, Settings, load_settings
from vfl.data import ENCODINGS
from vfl.learning.linear.regression import LinearRegression
from vfl.plugin_options import PluginOption, options_of

NAMES = st.text(string.ascii_letters + "_-", min_size=1, max_size=8)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
ADDRESSES = st.builds("{}:{}".format, NAMES, st.integers(1, 65535))
JSON = st.dictionaries(
    NAMES, st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS, max_size=3
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda parts: Path(*parts))
FRACTIONS = st.floats(0, 0.45)


@st.composite
def given_settings(draw: st.DrawFn) -> dict[str, Any]:
    """Some settings that can work together, by field name."""
    attacks, defences = (draw(st.lists(NAMES, unique=True, max_size=3)) for _ in range(2))
    values = {
        "name": TEXTS,
        "listen": ADDRESSES,
        "peers": st.dictionaries(NAMES, ADDRESSES, max_size=3),
        "transport": st.just("mtls"),
        "certs": PATHS,
        "data": TEXTS,
        "data_dir": PATHS,
        "share": st.sampled_from(["", "1/2", "3/3"]),
        "missing_fraction": FRACTIONS,
        "whole_row_unit_norm": st.booleans(),
        "id_column": TEXTS.filter(bool),
        "label_column": TEXTS,
        "columns": st.lists(TEXTS, max_size=3).map(tuple),
        **dict.fromkeys(("drop", "public", "sensitive"), st.lists(TEXTS, max_size=3).map(tuple)),
        "encode": st.dictionaries(TEXTS, st.sampled_from(ENCODINGS), max_size=3),
        "encoder": st.sampled_from(["minmax", "standardise", "unit_norm", "none"]),
        "epochs": st.integers(1, 10**4),
        "batch_size": st.integers(1, 10**6),
        "learning_rate": st.floats(1e-9, 0.5),
        "l2": st.floats(0, 1e9),
        "initialisation": st.sampled_from(["zero", "xavier", "kaiming", "normal"]),
        "validation_fraction": st.floats(0.01, 0.45),
        "test_fraction": FRACTIONS,
        "patience": st.integers(0, 100),
        "seed": st.integers(0, 2**64 - 1),
        "private_seed": st.none() | st.integers(0, 2**128),
        "packing": st.booleans(),
        "rerandomise": st.booleans(),
        "key_bits": st.sampled_from([2048, 3072]),
        "allow_insecure_keys": st.booleans(),
        "feature_fraction_bits": st.sampled_from([4, 32]),
        "residual_fraction_bits": st.sampled_from([8, 32]),
        "residual_integer_bits": st.integers(1, 14),
        "model": st.none() | PATHS,
        "disclose": st.booleans(),
        "attacks": st.just(tuple(attacks)),
        "defences": st.just(tuple(defences)),
        "guard": st.sampled_from(["warn", "refuse", "off"]),
        "allow": st.sampled_from([(), ("linear", "hu"), ("network", "linear", "shared", "hu")]),
        "alignments_per_day": st.integers(1, 10**6),
        "least_ids": st.integers(1, 10**6),
        "most_equations": st.floats(0, 1, exclude_min=True),
        "most_sums": st.floats(0, 1, exclude_min=True),
        "table_megabytes": st.integers(1, 10**6),
        "table_columns": st.integers(1, 10**6),
        "table_cells": st.integers(1, 10**12),
        "auxiliary": TEXTS,
        "known_labels": TEXTS,
        "run_dir": st.none() | PATHS,
        "record_features": st.booleans(),
        "autostart": st.booleans(),
        "step_timeout": st.floats(1e-3, 1e6),
        "log_level": st.sampled_from(["DEBUG", "INFO", "WARNING", "ERROR"]),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(values))))
    made = {name: draw(values[name]) for name in sorted(chosen)}
    for name, known in (("attack", attacks), ("defence", defences)):
        if f"{name}s" in chosen and known:
            made[f"{name}_options"] = draw(st.dictionaries(st.sampled_from(known), JSON, max_size=2))
    if "key_bits" not in chosen and draw(st.booleans()):
        made["cipher"] = "plain"
    return made


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_settings())
@example({"transport": "insecure", "cipher": "plain"})
@example({"columns": ("a, b", "c*"), "drop": ("[x]",), "encode": {"a=b": "onehot", "c ": "drop", "": "date"}})
@example({"peers": {}, "attacks": (), "attack_options": {}, "name": "", "certs": Path()})
def test_a_process_loads_what_its_settings_were(monkeypatch: pytest.MonkeyPatch, chosen: dict[str, Any]) -> None:
    original = Settings(**chosen)
    with monkeypatch.context() as context:
        for name, text in original.environment().items():
            context.setenv(name, text)
        loaded = load_settings()
        assert loaded.model_dump() == original.model_dump()
        assert loaded.plan() == original.plan()
        assert loaded.environment() == original.environment()


def test_a_former_name_is_read_as_the_present_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}MOST_FORMS", "0.5")
    assert load_settings().environment() == {f"{PREFIX}MOST_EQUATIONS": "0.5"}
    monkeypatch.setenv(f"{PREFIX}MOST_EQUATIONS", "0.75")
    assert load_settings().most_equations == 0.75
    assert Settings(most_forms=0.1).most_equations == 0.1  # type: ignore[call-arg]


def test_what_was_not_given_is_left_out() -> None:
    assert load_settings().environment() == {}
    assert load_settings(epochs=40, attacks=("half", "ls"), disclose=False).environment() == {
        f"{PREFIX}ATTACKS": "half,ls",
        f"{PREFIX}DISCLOSE": "false",
        f"{PREFIX}EPOCHS": "40",
    }


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in TrainingPlan.__dataclass_fields__
        if not name.startswith(("learner", "protocol_")) and name != "cipher_options"
    ],
)
def test_a_setting_of_the_plan_has_the_plans_default_and_meaning(name: str) -> None:
    setting, term = Settings.model_fields[name], TrainingPlan.__dataclass_fields__[name]
    # Who is asked for nothing trains as the table asks; a plan that is made by itself is the literature's.
    assert setting.default == (0 if name == "epochs" else term.default)
    assert setting.description == term.metadata["description"]


@pytest.mark.parametrize("option", options_of(LinearRegression), ids=lambda option: option.name)
def test_a_setting_of_the_learner_has_its_options_default_and_meaning(option: PluginOption) -> None:
    setting = Settings.model_fields[option.name]
    if option.name == "steps":
        assert setting.default is None
        assert str(setting.description).startswith(option.meaning)
        return
    default = True if option.name == "calibrated" else option.default
    assert (setting.default, setting.description) == (default, option.meaning)
