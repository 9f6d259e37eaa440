"""What an audit decides before it does anything, with calibrations that are given."""

import io
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import attacks
from attacks import Scenario
from attacks.registry import REGISTRY
from plumbline.audit import plan as module
from plumbline.audit.forecast import Calibration, CipherSeconds
from plumbline.audit.plan import (
    PATIENCE_SECONDS,
    AuditPlan,
    applicable,
    asked_cipher,
    attack_seconds,
    candidates,
    chosen_cipher,
    few_enough,
    installed,
    not_measured,
    plan_audit,
    plan_facts,
)
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import print_plan
from plumbline.audit.tables import JoinedTables
from plumbline.recipe import Recipe, shares_of
from vfl.arrays import FloatArray

SCENARIO = Scenario(passive_features=9)
ON_NETWORKS = (
    "gradient_direction",
    "batch_inversion",
    "hidden_space",
    "binary_columns",
    "gram_space",
    "chosen_share",
    "replacement_backdoor",
)


def reasons(scenario: Scenario) -> dict[str, str]:
    return {one.attack: one.reason for one in applicable(scenario)[1]}


def test_every_attack_is_mounted_or_left_out_with_a_reason() -> None:
    chosen, left_out = applicable(SCENARIO)
    # The auditor's own: no service sees more than one session.
    assert sorted((*chosen, *(one.attack for one in left_out), "many_sessions")) == list(attacks.names())
    assert {"half_star", "gia", "posterior", "label_recovery", "auxiliary_ciphertext"} <= set(chosen)
    assert reasons(SCENARIO) == {
        "imputation": "needs complete records: --auxiliary N",
        "regression": "needs complete records: --auxiliary N",
        "shadow": "needs complete records: --auxiliary N",
        "single_shares": "needs complete records: --auxiliary N",
        **dict.fromkeys(("reached_leaves", "disclosed_thresholds"), "is for boosted_trees models"),
        "one_feature": "is for a lone passive feature",
        "randomiser_channel": "is closed: answers carry fresh randomness",
        "opening_code": "reads what protocol=shared opens",
        **dict.fromkeys(
            ("chosen_gradients", "chosen_sums", "leaf_labels", "named_bins"), "is on sessions that train boosted_trees"
        ),
        **dict.fromkeys(ON_NETWORKS, "is on sessions that train network"),
    }


@pytest.mark.parametrize(
    ("scenario", "mounted", "left_out"),
    [
        (replace(SCENARIO, has_records=True), {"imputation", "regression", "shadow"}, set()),
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
            replace(SCENARIO, protocol="shared", rerandomise=False, packing=False),
            {"half_star", "label_recovery", "own_part"},
            {"auxiliary_ciphertext", "randomiser_channel"},
        ),
        (replace(SCENARIO, protocol="shared", knows_own_weights=False), {"label_recovery"}, {"own_part"}),
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


def test_of_two_that_ask_otherwise_one_is_mounted_and_the_other_said_not_to_be_measured() -> None:
    scenario = replace(SCENARIO, learner="boosted_trees", model="boosted_trees", has_weights=False, protocol="trees")
    names, left_out = applicable(scenario)
    assert "chosen_gradients" in names
    assert "chosen_sums" not in names
    for encrypted in (True, False):
        (sentence,) = not_measured(replace(scenario, is_encrypted=encrypted), left_out)
        assert sentence.startswith("What chosen_sums")
        assert sentence.endswith("can tell was not measured: name it alone (--attacks).")


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
    spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec("active", "prediction", (), "a test")

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
        ("scores",),
        "a test",
        knowledge="black_box",
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
    (sentence,) = not_measured(SCENARIO, applicable(SCENARIO)[1])
    assert "training" not in sentence
    assert second in sentence
    assert sentence.endswith("can tell was not measured: name it alone (--attacks).")


class Replacing:
    """A third party's attack that sends messages of its own."""

    name: ClassVar[str] = "replacing"
    spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec(
        "either", "training", (), "a test", conduct="replaces_messages"
    )

    def messages(self, terms: object, honest: object) -> None:
        """Never called here."""


def test_a_third_partys_attack_is_mounted_at_each_level_that_it_can_be_played_at(
    brought: Callable[[type], None],
) -> None:
    brought(Particular)
    recipe = Recipe(shares_of("wine", 2), ("particular",), levels=attacks.LEVELS)
    assert recipe.checked().parties["active"].attack_options == {"particular": [{"knows": "nothing"}, {"knows": "all"}]}


FAST = Calibration(55e-6, 40e-6, cores=2, cipher=CipherSeconds(0.1, 1e-4, 1e-6, 1e-3))
SLOW = replace(FAST, cipher=CipherSeconds(0.1, 0.05, 0.05, 1.0))


def planned(monkeypatch: pytest.MonkeyPatch, calibration: Calibration, **asked: Any) -> AuditPlan:
    """The plan of an audit of wine on a machine of this speed."""
    monkeypatch.setattr(module, "usual_calibration", lambda _: calibration)
    request = AuditRequest.of(data="wine", **{"attacks": ("all",), **asked})
    recipe = candidates(request).recipe(request.tables.party_settings).checked()
    return plan_audit(request, recipe, JoinedTables(recipe.parties))


def test_the_same_tables_have_the_same_plan_whatever_a_clock_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan() -> AuditPlan:
        request = AuditRequest.of(data="wine", attacks=("all",))
        recipe = candidates(request).recipe(request.tables.party_settings).checked()
        return plan_audit(request, recipe, JoinedTables(recipe.parties))

    first = plan()
    # Whatever is timed takes an hour now.
    hours = itertools.count(step=3600)
    for clock in ("perf_counter", "process_time", "thread_time", "time"):
        monkeypatch.setattr(time, clock, lambda: float(next(hours)))
    again = plan()
    assert again.request == first.request
    assert plan_facts(again) == plan_facts(first)
    assert shown(again) == shown(first)


def shown(plan: AuditPlan) -> str:
    console = Console(file=io.StringIO(), width=300)
    print_plan(console, plan)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_where_paillier_is_quick_it_is_used_and_ciphertexts_are_attacked(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(monkeypatch, FAST)
    assert {settings.cipher for settings in plan.recipe.parties.values()} == {"paillier"}
    assert "auxiliary_ciphertext" in plan.recipe.parties["active"].attacks
    assert plan.not_measured == ()
    assert "INSECURE" not in shown(plan)
    assert "Cipher paillier: training takes" in shown(plan)


def test_attacks_that_send_other_messages_are_planned_in_a_session_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = planned(monkeypatch, FAST)
    words = "In a session of its own, for it sends other messages than the protocol's: auxiliary_ciphertext."
    assert plan.workload.malicious == ("auxiliary_ciphertext",)
    assert words in shown(plan)
    assert plan_facts(plan)["amounts"]["malicious session"] == "for auxiliary_ciphertext"
    for other in (planned(monkeypatch, SLOW), planned(monkeypatch, FAST, attacks=("own_part",))):
        assert words not in shown(other)
        assert "malicious session" not in plan_facts(other)["amounts"]
    with pytest.raises(ValueError, match="both replace messages: mount one of them"):
        planned(monkeypatch, FAST, attacks=("auxiliary_ciphertext", "single_shares"), auxiliary=20)


def test_where_paillier_is_slow_the_plan_says_so_in_red_and_in_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(monkeypatch, SLOW)
    assert {settings.cipher for settings in plan.recipe.parties.values()} == {"plain"}
    assert "auxiliary_ciphertext" not in plan.recipe.parties["active"].attacks
    (sentence,) = plan.not_measured
    assert "not measured (auxiliary_ciphertext, randomiser_channel)" in sentence
    facts = plan_facts(plan)
    assert facts["cipher"] == "plain"
    assert facts["why"].startswith("INSECURE: it trains in the clear")
    assert facts["not_measured"] == [sentence]
    assert facts["why"] in shown(plan)
    assert sentence in shown(plan)


@pytest.mark.parametrize(
    ("asked", "cipher"),
    [
        ({"cipher": "paillier"}, "paillier"),
        ({"settings": {"cipher": "paillier"}}, "paillier"),
        ({"settings": {"key_bits": 512, "allow_insecure_keys": True}}, "paillier"),
        ({"settings": {"protocol": "shared"}}, "paillier"),
        ({"cipher": "plain"}, "plain"),
        ({}, "plain"),
    ],
)
def test_a_cipher_that_is_asked_for_is_used_however_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], cipher: str
) -> None:
    assert planned(monkeypatch, SLOW, **asked).cipher.cipher == cipher


def test_shared_weights_without_ciphertexts_or_with_defences_of_answers_are_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = {"settings": {"protocol": "shared"}}
    with pytest.raises(ValueError, match="protocol=shared has no messages in the clear"):
        planned(monkeypatch, FAST, cipher="plain", **shared)
    for defence in ("response_truncation", "dp_noise"):
        with pytest.raises(ValueError, match=f"{defence} protects what protocol=shared doesn't send"):
            planned(monkeypatch, FAST, defences=(defence,), **shared)
    with pytest.raises(ValueError, match="KERNEL=phe"):
        planned(monkeypatch, FAST, settings={"protocol": "shared", "kernel": "phe", "packing": False})


@pytest.mark.parametrize(
    "settings",
    [{"opening": "always"}, {}, {"opening": "always", "serving": "shared"}],
    ids=["opened", "guarded", "asked"],
)
def test_weights_that_stay_shared_are_attacked_as_a_black_box(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    """Nobody has parameters to disclose, so attacks that take them aren't mounted, and those of scores alone are."""
    plan = planned(monkeypatch, FAST, settings={"protocol": "shared", **settings})
    is_opened = settings == {"opening": "always"}
    assert ("half_star" in plan.request.adversary.attacks) == is_opened
    assert "method_of_moments" in plan.request.adversary.attacks
    words = {one.attack: one.reason for one in plan.left_out}.get("half_star")
    assert words == (None if is_opened else "needs parameters, and weights stay shared: nobody has them")


def test_a_cipher_of_the_environment_counts_as_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_CIPHER", "plain")
    plan = planned(monkeypatch, FAST)
    assert (plan.cipher.cipher, plan.cipher.is_asked) == ("plain", True)


def test_a_named_attack_on_ciphertexts_is_not_called_safe_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(monkeypatch, SLOW, attacks=("half_star", "auxiliary_ciphertext"))
    assert plan.request.adversary.attacks == ("half_star", "auxiliary_ciphertext")
    (sentence,) = plan.not_measured
    assert "(auxiliary_ciphertext)" in sentence
    assert planned(monkeypatch, FAST, attacks=("half_star", "auxiliary_ciphertext")).not_measured == ()


@pytest.mark.parametrize(("attack", "twice"), [("auxiliary_ciphertext", True), ("label_recovery", False)])
def test_trials_are_encrypted_too_where_an_attack_replaces_messages(
    monkeypatch: pytest.MonkeyPatch, attack: str, twice: bool
) -> None:
    words = shown(planned(monkeypatch, FAST, attacks=(attack,), try_defences=True))
    assert "defences are tried afterwards" in words
    assert ("they train under Paillier as well" in words) == twice


def test_a_plan_repeats_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    # A folder's request has every choice made: on a slower machine it asks for the same.
    first = planned(monkeypatch, FAST)
    monkeypatch.setattr(module, "usual_calibration", lambda _: SLOW)
    recipe = candidates(first.request).recipe(first.recipe.tables).checked()
    again = plan_audit(first.request, recipe, JoinedTables(recipe.parties))
    assert again.request == first.request
    assert again.recipe.parties == first.recipe.parties


def test_named_attacks_are_on_all_test_records_and_all_of_them_on_as_many_as_no_attack_takes_minutes_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "few_enough", lambda tests, features: 10)
    tests = planned(monkeypatch, FAST).test_records
    assert planned(monkeypatch, FAST).recipe.parties["active"].attacked_records == 10
    assert f"They reconstruct 10 of the {tests} test records" in shown(planned(monkeypatch, FAST))
    named = planned(monkeypatch, FAST, attacks=("half_star",))
    assert (named.attacked, named.recipe.parties["active"].attacked_records) == (tests, 0)
    asked = planned(monkeypatch, FAST, settings={"attacked_records": 7})
    assert (asked.attacked, asked.recipe.parties["active"].attacked_records) == (7, 7)


def test_every_mounted_attack_has_its_time_by_its_label(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(monkeypatch, FAST, attacks=("posterior", "label_recovery", "half"))
    assert set(plan.workload.attacks) == {
        "posterior(prior=half)",
        "posterior(prior=mean)",
        "posterior(prior=covariance)",
        "label_recovery",
        "half",
    }


def test_an_installed_model_is_not_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(monkeypatch, FAST, hidden=(4,))
    assert [stage.name for stage in plan.forecast.stages] == ["starting", "aligning", "attacking", "judging"]
    assert "label_recovery" not in plan.request.adversary.attacks
    assert plan.not_measured == ()


@given(encrypted=st.floats(0, 1e6), plain=st.floats(0, 1e3))
def test_paillier_is_chosen_below_three_minutes_and_only_there(encrypted: float, plain: float) -> None:
    choice = chosen_cipher(encrypted, plain)
    assert (choice.cipher == "paillier") == (encrypted < PATIENCE_SECONDS)
    assert choice.why.startswith("INSECURE") == (choice.cipher == "plain")
    assert not choice.is_asked


def test_in_the_clear_it_says_why_what_stays_the_same_and_what_encryption_would_take() -> None:
    why = chosen_cipher(2_400.0, 24.2).why
    assert why == (
        "INSECURE: it trains in the clear, over the same services and messages, in 13 to 42 s. Scores and gradients "
        "are those of encrypted training to 1e-6. --cipher paillier would train for 20 to 68 min."
    )
    assert chosen_cipher(25.0, 3.0).why == "training takes 13 to 43 s under it."


@pytest.mark.parametrize(
    ("cipher", "given_settings", "expected"),
    [
        ("plain", {"cipher", "epochs"}, "plain"),
        ("paillier", {"cipher"}, "paillier"),
        ("paillier", {"key_bits", "allow_insecure_keys"}, "paillier"),
        ("paillier", {"packing"}, "paillier"),
        ("paillier", {"rerandomise", "epochs"}, "paillier"),
        ("paillier", {"epochs"}, None),
        ("paillier", set(), None),
    ],
)
def test_what_was_given_counts_and_what_is_of_ciphertexts_asks_for_them(
    cipher: str, given_settings: set[str], expected: str | None
) -> None:
    choice = asked_cipher(cipher, given_settings)
    assert (choice.cipher if choice else None) == expected
    if choice is not None:
        assert choice.is_asked
        assert ("INSECURE" in choice.why) == (expected == "plain")
