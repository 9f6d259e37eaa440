"""Which attacks an audit mounts when none is named, and what it says of the others."""

from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attacks
from attacks.registry import REGISTRY
from plumbline.audit.planning.applicable import (
    Scene,
    applicable,
    attack_seconds,
    few_enough,
    installed,
    not_measured,
)
from vfl.arrays import FloatArray

SCENE = Scene(passive_features=9)


def reasons(scene: Scene) -> dict[str, str]:
    return {one.attack: one.reason for one in applicable(scene)[1]}


def test_every_attack_is_mounted_or_left_out_with_a_reason() -> None:
    chosen, left_out = applicable(SCENE)
    # The auditor's own: no service sees more than one session.
    assert sorted((*chosen, *(one.attack for one in left_out), "many_sessions")) == list(attacks.names())
    assert {"half_star", "gia", "posterior", "label_recovery", "auxiliary_ciphertext"} <= set(chosen)
    assert reasons(SCENE) == {
        "imputation": "needs complete records: --auxiliary N",
        "shadow": "needs complete records: --auxiliary N",
        "one_feature": "is for a lone passive feature",
        "randomiser_channel": "is closed: answers carry fresh randomness",
    }


@pytest.mark.parametrize(
    ("scene", "mounted", "left_out"),
    [
        (replace(SCENE, has_records=True), {"imputation", "shadow"}, set()),
        (replace(SCENE, passive_features=1), {"one_feature"}, set()),
        (replace(SCENE, is_white_box=False), {"half", "label_recovery"}, {"half_star", "gia", "posterior", "agnostic"}),
        (replace(SCENE, is_network=True, is_trained=False), {"gia", "grn"}, {"ls", "label_recovery", "feature_order"}),
        (replace(SCENE, is_encrypted=False), {"half_star", "label_recovery"}, {"auxiliary_ciphertext"}),
        (
            replace(SCENE, packing=False, rerandomise=False),
            {"randomiser_channel"},
            {"auxiliary_ciphertext"},
        ),
    ],
)
def test_what_can_apply_follows_from_the_audit(scene: Scene, mounted: set[str], left_out: set[str]) -> None:
    chosen = set(applicable(scene)[0])
    assert mounted <= chosen
    assert not left_out & chosen
    assert left_out <= set(reasons(scene))


@given(
    st.builds(
        Scene,
        passive_features=st.integers(1, 60),
        is_white_box=st.booleans(),
        has_records=st.booleans(),
        is_network=st.booleans(),
        is_trained=st.booleans(),
        is_encrypted=st.booleans(),
        packing=st.booleans(),
        rerandomise=st.booleans(),
    )
)
def test_a_party_never_gets_two_attacks_that_send_messages_of_their_own(scene: Scene) -> None:
    # The service that mounts them would refuse to start.
    replacing = [name for name in applicable(scene)[0] if attacks.spec_of(name).conduct == "replaces_messages"]
    assert len(replacing) <= 1
    assert not replacing or scene.is_encrypted


def test_what_only_ciphertexts_tell_is_never_safe_in_the_clear() -> None:
    clear = replace(SCENE, is_encrypted=False)
    (sentence,) = not_measured(clear, applicable(clear)[1])
    assert "auxiliary_ciphertext, randomiser_channel" in sentence
    assert "not measured" in sentence
    assert "--cipher paillier" in sentence
    assert not_measured(SCENE, applicable(SCENE)[1]) == ()


def test_without_torch_its_attacks_are_left_out_and_not_called_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    original = attacks.spec_of

    def spec_of(name: str) -> attacks.AttackSpec:
        if name == "grn":
            raise ModuleNotFoundError("No module named 'torch'")
        return original(name)

    monkeypatch.setattr(attacks, "spec_of", spec_of)
    left_out = {one.attack: one for one in applicable(SCENE)[1]}
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
            assert attack_seconds(label, records, features, steps=4_000) < 20


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
    assert "attack_options" in reasons(SCENE)["demanding"]
    assert "demanding" not in installed()
    assert "demanding" in applicable(replace(SCENE, options=frozenset({"demanding"})))[0]
    assert "demanding" in installed({"demanding"})
