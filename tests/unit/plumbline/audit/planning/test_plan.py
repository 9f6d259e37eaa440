"""What an audit decides before it does anything, with calibrations that are given."""

import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from plumbline.audit.planning import plan as module
from plumbline.audit.planning.forecast import Calibration, CipherSeconds
from plumbline.audit.planning.plan import (
    PATIENCE_SECONDS,
    AuditPlan,
    asked_cipher,
    candidates,
    chosen_cipher,
    plan_audit,
    plan_facts,
)
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import print_plan
from plumbline.audit.tables import JoinedTables

FAST = Calibration(55e-6, 40e-6, cores=2, cipher=CipherSeconds(0.1, 1e-4, 1e-6, 1e-3))
SLOW = replace(FAST, cipher=CipherSeconds(0.1, 0.05, 0.05, 1.0))


def planned(monkeypatch: pytest.MonkeyPatch, calibration: Calibration, **asked: Any) -> AuditPlan:
    """The plan of an audit of wine on a machine of this speed."""
    monkeypatch.setattr(module, "calibrate", lambda *_, **__: calibration)
    request = AuditRequest(data="wine", **{"attacks": ("all",), **asked})
    recipe = candidates(request).recipe().checked()
    return plan_audit(request, recipe, JoinedTables(recipe.parties))


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
    assert "Cipher paillier: training takes about" in shown(plan)


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
        ({"cipher": "plain"}, "plain"),
        ({}, "plain"),
    ],
)
def test_a_cipher_that_is_asked_for_is_used_however_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], cipher: str
) -> None:
    assert planned(monkeypatch, SLOW, **asked).cipher.cipher == cipher


def test_a_cipher_of_the_environment_counts_as_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_CIPHER", "plain")
    plan = planned(monkeypatch, FAST)
    assert (plan.cipher.cipher, plan.cipher.is_asked) == ("plain", True)


def test_a_named_attack_on_ciphertexts_is_not_called_safe_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(monkeypatch, SLOW, attacks=("half_star", "auxiliary_ciphertext"))
    assert plan.request.attacks == ("half_star", "auxiliary_ciphertext")
    (sentence,) = plan.not_measured
    assert "(auxiliary_ciphertext)" in sentence
    assert planned(monkeypatch, FAST, attacks=("half_star", "auxiliary_ciphertext")).not_measured == ()


def test_a_plan_repeats_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    # A folder's request has every choice made: on a slower machine it asks for the same.
    first = planned(monkeypatch, FAST)
    monkeypatch.setattr(module, "calibrate", lambda *_, **__: SLOW)
    recipe = candidates(first.request).recipe().checked()
    again = plan_audit(first.request, recipe, JoinedTables(recipe.parties))
    assert again.request == first.request
    assert again.recipe.parties == first.recipe.parties


def test_named_attacks_are_on_all_test_records_and_all_of_them_on_as_many_as_no_attack_takes_minutes_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "attacked_records", lambda tests, features: 10)
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
    assert "label_recovery" not in plan.request.attacks
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
        "INSECURE: it trains in the clear, over the same services and messages, in about 25 s. Scores and gradients "
        "are those of encrypted training to 1e-6. --cipher paillier would train for about 40 min."
    )
    assert chosen_cipher(25.0, 3.0).why == "training takes about 25 s under it."


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
