"""Which attacks an audit mounts when none is named, and what it says of the others."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attacks
from attacks import Scenario
from attacks.registry import REGISTRY
from plumbline.audit.planning.applicable import (
    applicable,
    attack_seconds,
    few_enough,
    installed,
    not_measured,
)
from plumbline.recipe import Recipe, shares_of
from vfl.arrays import FloatArray

SCENARIO = Scenario(passive_features=9)


def reasons(scenario: Scenario) -> dict[str, str]:
    return {one.attack: one.reason for one in applicable(scenario)[1]}


def test_every_attack_is_mounted_or_left_out_with_a_reason() -> None:
    chosen, left_out = applicable(SCENARIO)
    # The auditor's own: no service sees more than one session.
    assert sorted((*chosen, *(one.attack for one in left_out), "many_sessions")) == list(attacks.names())
    assert {"half_star", "gia", "posterior", "label_recovery", "auxiliary_ciphertext"} <= set(chosen)
    assert reasons(SCENARIO) == {
        "imputation": "needs complete records: --auxiliary N",
        "shadow": "needs complete records: --auxiliary N",
        "one_feature": "is for a lone passive feature",
        "randomiser_channel": "is closed: answers carry fresh randomness",
    }


@pytest.mark.parametrize(
    ("scenario", "mounted", "left_out"),
    [
        (replace(SCENARIO, has_records=True), {"imputation", "shadow"}, set()),
        (replace(SCENARIO, passive_features=1), {"one_feature"}, set()),
        (
            replace(SCENARIO, is_white_box=False),
            {"half", "label_recovery"},
            {"half_star", "gia", "posterior", "agnostic"},
        ),
        (
            replace(SCENARIO, model="network", is_trained=False),
            {"gia", "grn"},
            {"ls", "label_recovery", "feature_order"},
        ),
        (replace(SCENARIO, is_encrypted=False), {"half_star", "label_recovery"}, {"auxiliary_ciphertext"}),
        (
            replace(SCENARIO, packing=False, rerandomise=False),
            {"randomiser_channel"},
            {"auxiliary_ciphertext"},
        ),
    ],
)
def test_what_can_apply_follows_from_the_audit(scenario: Scenario, mounted: set[str], left_out: set[str]) -> None:
    chosen = set(applicable(scenario)[0])
    assert mounted <= chosen
    assert not left_out & chosen
    assert left_out <= set(reasons(scenario))


@given(
    st.builds(
        Scenario,
        passive_features=st.integers(1, 60),
        is_white_box=st.booleans(),
        has_records=st.booleans(),
        model=st.sampled_from(["linear", "network", "least_squares"]),
        learner=st.sampled_from(["linear", "least_squares"]),
        is_trained=st.booleans(),
        is_encrypted=st.booleans(),
        packing=st.booleans(),
        rerandomise=st.booleans(),
    )
)
def test_a_party_never_gets_two_attacks_that_send_messages_of_their_own(scenario: Scenario) -> None:
    # The service that mounts them would refuse to start.
    replacing = [name for name in applicable(scenario)[0] if attacks.spec_of(name).conduct == "replaces_messages"]
    assert len(replacing) <= 1
    assert not replacing or scenario.is_encrypted


def test_what_only_ciphertexts_tell_is_never_safe_in_the_clear() -> None:
    clear = replace(SCENARIO, is_encrypted=False)
    (sentence,) = not_measured(clear, applicable(clear)[1])
    assert "auxiliary_ciphertext, randomiser_channel" in sentence
    assert "not measured" in sentence
    assert "--cipher paillier" in sentence
    assert not_measured(SCENARIO, applicable(SCENARIO)[1]) == ()


def test_without_torch_its_attacks_are_left_out_and_not_called_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    original = attacks.spec_of

    def spec_of(name: str) -> attacks.AttackSpec:
        if name == "grn":
            raise ModuleNotFoundError("No module named 'torch'")
        return original(name)

    monkeypatch.setattr(attacks, "spec_of", spec_of)
    left_out = {one.attack: one for one in applicable(SCENARIO)[1]}
    assert "plumbline[lab]" in left_out["grn"].reason
    assert not left_out["grn"].is_safe


@given(tests=st.integers(0, 100_000), features=st.integers(1, 2_000))
def test_wide_records_are_attacked_in_smaller_numbers(tests: int, features: int) -> None:
    chosen = few_enough(tests, features) or tests
    assert chosen <= min(tests, 2_000)
    assert chosen == tests or chosen >= 500
    assert (few_enough(tests, features + 1) or tests) <= chosen


def test_no_attack_on_a_table_like_bank_or_adult_is_thought_to_take_minutes() -> None:
    for features in (9, 50, 100):
        records = few_enough(8_000, features)
        for label in ("gia", "grn", "posterior(prior=mean)", "half_star"):
            assert attack_seconds(label, attacks.Extent(records, features, steps=4_000)) < 20


@dataclass(frozen=True)
class Demanding:
    """A third party's attack that has an option without a default."""

    limit: int
    name: ClassVar[str] = "demanding"
    spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec("active", "prediction", "agnostic", (), "a test")

    def reconstruct(self, view: attacks.PredictionView) -> FloatArray:
        return np.zeros((view.n, view.d))


def test_an_attack_that_lacks_an_option_is_left_out_until_it_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast(dict[str, str], REGISTRY.built_in), "demanding", f"{__name__}:Demanding")
    assert "attack_options" in reasons(SCENARIO)["demanding"]
    assert "demanding" not in installed()
    assert "demanding" in applicable(replace(SCENARIO, options=frozenset({"demanding"})))[0]
    assert "demanding" in installed({"demanding"})


@dataclass(frozen=True)
class Particular:
    """A third party's attack that says itself where it applies, and how long it takes."""

    knows: str = "nothing"
    name: ClassVar[str] = "particular"
    spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec(
        "active",
        "prediction",
        "black_box",
        ("scores",),
        "a test",
        seconds=lambda extent: 3.0 * extent.records + extent.features + extent.steps,
        obstacle=lambda scenario: "is for few features" if scenario.passive_features > 9 else "",
        at_level={"nothing": {"knows": "nothing"}, "records": {"knows": "all"}},
    )

    def reconstruct(self, view: attacks.PredictionView) -> FloatArray:
        return np.zeros((view.n, view.d))


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> Callable[[type], None]:
    """Installs a third party's attack."""
    built_in = cast(dict[str, str], REGISTRY.built_in)
    return lambda attack: monkeypatch.setitem(built_in, cast(Any, attack).name, f"{__name__}:{attack.__name__}")


def test_a_third_partys_attack_says_where_it_applies_and_how_long_it_takes(brought: Callable[[type], None]) -> None:
    brought(Particular)
    assert "particular" in applicable(SCENARIO)[0]
    assert reasons(replace(SCENARIO, passive_features=10))["particular"] == "is for few features"
    assert attack_seconds("particular(knows=all)", attacks.Extent(7, 5, 2)) == 28.0


@pytest.mark.parametrize("answer", [lambda _: float("nan"), lambda _: -1.0, lambda extent: extent.no_such_thing])
def test_a_forecast_that_makes_no_sense_counts_as_none(
    answer: Callable[[attacks.Extent], float], brought: Callable[[type], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    brought(Particular)
    monkeypatch.setattr(Particular, "spec", replace(Particular.spec, seconds=answer))
    assert attack_seconds("particular", attacks.Extent(7, 5, 2)) == attack_seconds("half", attacks.Extent(7, 5, 2))


def test_an_attack_that_fails_to_say_whether_it_applies_is_left_out_and_not_called_safe(
    brought: Callable[[type], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    brought(Particular)
    monkeypatch.setattr(
        Particular, "spec", replace(Particular.spec, obstacle=lambda scenario: cast(Any, scenario).no_such_thing)
    )
    (left_out,) = (one for one in applicable(SCENARIO)[1] if one.attack == "particular")
    assert "no_such_thing" in left_out.reason
    assert not left_out.is_safe


@pytest.mark.parametrize(("is_particular", "first"), [(False, "auxiliary_ciphertext"), (True, "replacing")])
def test_of_two_attacks_that_replace_messages_the_more_particular_one_is_mounted(
    is_particular: bool, first: str, brought: Callable[[type], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    brought(Replacing)
    if is_particular:
        monkeypatch.setattr(Replacing, "spec", replace(Replacing.spec, obstacle=lambda _: ""))
    (second,) = {"auxiliary_ciphertext", "replacing"} - {first}
    assert first in applicable(SCENARIO)[0]
    assert reasons(SCENARIO)[second] == f"takes the same messages as {first}: name it alone"


class Replacing:
    """A third party's attack that sends messages of its own."""

    name: ClassVar[str] = "replacing"
    spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec(
        "either", "training", "agnostic", (), "a test", conduct="replaces_messages"
    )

    def messages(self, terms: object, honest: object) -> None:
        """Never called here."""


def test_a_third_partys_attack_is_mounted_at_each_level_that_it_can_be_played_at(
    brought: Callable[[type], None],
) -> None:
    brought(Particular)
    recipe = Recipe(shares_of("wine", 2), ("particular",), levels=attacks.LEVELS)
    assert recipe.checked().parties["active"].attack_options == {"particular": [{"knows": "nothing"}, {"knows": "all"}]}
