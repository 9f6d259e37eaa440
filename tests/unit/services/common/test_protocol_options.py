"""Options of protocols: checked by the protocol's own types, wherever a plan is read."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from services.common.agreement import TrainingPlan
from services.common.earlier_plans import plan_content
from services.common.errors import InvalidMessage
from services.common.settings import SettingsError, load_settings


def test_a_plan_says_how_many_bits_are_opened() -> None:
    for protocol in ("hu", "shared"):
        with pytest.raises(SettingsError, match="Expected opening_bits to be from 18 to 24, got 25"):
            load_settings(protocol=protocol, opening_bits=25)
    plan = load_settings(protocol="shared", opening_bits=18).plan()
    assert plan.protocol_options == {"serving": "opened", "opening_bits": 18}
    assert plan.terms["opening_bits"] == 18
    assert TrainingPlan.from_message(plan.to_message()) == plan
    assert load_settings(opening_bits=18).plan().protocol_options == {}


@pytest.mark.parametrize(
    ("protocol", "options", "words"),
    [
        ("shared", {"openings": 3}, r"shared can't take openings. Its options: serving, opening_bits. Did you mean"),
        ("hu", {"serving": "opened"}, r"hu can't take serving. Its options: none."),
        ("shared", {"opening_bits": 25}, r"Expected opening_bits to be from 18 to 24, got 25"),
        ("shared", {"opening_bits": 24.0}, r"shared: expected opening_bits to be a whole number, got 24.0"),
        ("shared", {"opening_bits": True}, r"shared: expected opening_bits to be a whole number, got True"),
        ("shared", {"serving": "burnt"}, r"shared: expected serving to be one of opened, shared, got 'burnt'"),
        ("shared", {"serving": ["opened"]}, r"shared: expected serving to be one of opened, shared, got \['opened'\]"),
    ],
)
def test_options_of_a_protocol_are_checked_by_its_own_types(protocol: str, options: dict[str, Any], words: str) -> None:
    """At who proposes them and at every party that reads them."""
    plan = TrainingPlan(epochs=2, batch_size=8, protocol=protocol, protocol_options=options)
    with pytest.raises(InvalidMessage, match=words):
        plan.check()
    message = TrainingPlan(epochs=2, batch_size=8, protocol=protocol).to_message()
    message.protocol_options = json.dumps(options)
    with pytest.raises(InvalidMessage, match=words):
        TrainingPlan.from_message(message)


@pytest.mark.parametrize("options", ["5", "[]", "{", '{"opening_bits": NaN}', " " * 4_097, "[" * 4_096])
def test_options_of_a_protocol_are_a_small_object(options: str) -> None:
    message = TrainingPlan(epochs=2, batch_size=8, protocol="shared").to_message()
    message.protocol_options = options
    with pytest.raises(InvalidMessage):
        TrainingPlan.from_message(message)


def test_options_follow_the_protocol_that_is_named() -> None:
    plan = TrainingPlan().changed(protocol="shared", opening_bits=20)
    assert plan.protocol_options == {"serving": "opened", "opening_bits": 20}
    assert plan.changed(serving="shared").protocol_options == {"serving": "shared", "opening_bits": 20}
    assert plan.changed(protocol="hu").protocol_options == {}
    network = TrainingPlan().changed(learner="network", backward="shared", opening_bits=20)
    assert (network.protocol, network.protocol_options["opening_bits"]) == ("shared", 20)
    settings = load_settings(learner="network", backward="shared", opening_bits=20)
    assert settings.plan().protocol_options == network.protocol_options


@pytest.mark.parametrize("protocol", ["hu", "shared"])
def test_a_plan_from_before_protocols_had_options_is_read(protocol: str) -> None:
    stored = asdict(TrainingPlan(protocol=protocol))
    del stored["protocol_options"]
    stored |= {"serving": "shared" if protocol == "shared" else "opened", "opening_bits": 20}
    read = TrainingPlan(**plan_content(stored, TrainingPlan.__dataclass_fields__))
    read.check()
    assert read.protocol_options == ({"serving": "shared", "opening_bits": 20} if protocol == "shared" else {})
