"""Who attacks a situation, and what each of them is told."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from studies.defences.adversaries import Adversaries, Estimate, balanced
from studies.defences.against_predictions import HELD_OUT, Lab
from studies.defences.cases import Trial
from studies.defences.steering import steered
from studies.simulation.linear_models import train
from studies.simulation.situations import Situation
from vfl.arrays import FloatArray

pytest.importorskip("torch")

ADVERSARIES = Adversaries(rounds=5, draws=40)


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab(
        train("breast_cancer", None, "adam", 0, held_out=HELD_OUT), passive=15, records=30, auxiliary=100, seed=0
    )


@pytest.fixture(scope="module")
def rounded(lab: Lab) -> Situation:
    return lab.defended(Trial("score_rounding", {"decimals": 1}))


def attacked(situation: Situation) -> list[Estimate]:
    return list(ADVERSARIES.attack(situation.view, situation.ask, ADVERSARIES.expected(situation.view)))


def named(estimates: Iterable[Estimate]) -> dict[tuple[str, str], Estimate]:
    return {(one.attack, one.awareness): one for one in estimates}


def given(estimate: Estimate) -> FloatArray:
    assert estimate.features is not None, estimate.reason
    return estimate.features


def error(estimate: Estimate, truth: FloatArray) -> float:
    return float(((given(estimate) - truth) ** 2).mean())


def test_guesses_see_no_scores_and_know_what_their_level_allows(lab: Lab) -> None:
    view = lab.plain.view
    shuffled = replace(view, scores=np.asarray(view.scores)[::-1])
    before, after = (list(ADVERSARIES.guesses(one, ADVERSARIES.expected(one))) for one in (view, shuffled))
    for one, same in zip(before, after, strict=True):
        np.testing.assert_array_equal(one.features, same.features)
    assert {one.attack: one.level for one in before} == {
        "zero": "nothing",
        "half": "nothing",
        "imputation": "records",
        "prior half": "nothing",
        "prior mean": "marginals",
        "prior covariance": "covariance",
        "prior imputation": "records",
    }


def test_without_a_defence_nobody_undoes_one_and_nobody_asks_otherwise(lab: Lab) -> None:
    situation = lab.plain
    found = attacked(situation)
    assert {one.awareness for one in found} == {"knows nothing of it", "expects it"}
    assert not list(ADVERSARIES.refused(situation.view, situation.ask))
    # What can't be mounted says why.
    missing = [one for one in found if one.features is None]
    assert [one.attack for one in missing] == ["one_feature"]
    assert all(one.reason and one.status == "not applicable" for one in missing)
    assert {one.level for one in found if one.attack == "shadow"} == {"records"}


def test_who_knows_a_scheme_is_where_it_was_without(lab: Lab) -> None:
    plain = named(attacked(lab.plain))
    situation = lab.defended(Trial("score_scheme1"))
    found = named(attacked(situation))
    before = given(plain["half_star", "knows nothing of it"])
    np.testing.assert_allclose(given(found["half_star", "undoes it"]), before, atol=1e-6)
    assert np.abs(given(found["half_star", "knows nothing of it"]) - before).max() > 1e-3
    for prior in ("half", "covariance"):
        expected = given(plain[f"posterior, {prior}", "expects it"])
        np.testing.assert_allclose(given(found[f"posterior, {prior}", "expects it"]), expected, atol=1e-6)


def test_a_share_that_is_balanced_leaves_scores_even_where_the_guess_is_right(lab: Lab) -> None:
    situation = lab.plain
    asked = balanced(situation.view, lab.truth, situation.ask)
    assert asked.own_shift is not None
    assert asked.scores is not None
    np.testing.assert_allclose(asked.scores, np.full_like(asked.scores, 0.5), atol=1e-9)
    np.testing.assert_allclose(situation.ask(asked.own_shift), asked.scores)


def test_balancing_tells_more_of_rounded_scores(lab: Lab, rounded: Situation) -> None:
    found = named(attacked(rounded))
    still, moved = (
        error(found["posterior, covariance", awareness], lab.truth)
        for awareness in ("expects it", "balances its share")
    )
    assert moved < still


def test_who_could_ask_again_and_again_would_undo_rounding(lab: Lab, rounded: Situation) -> None:
    (found,) = ADVERSARIES.refused(rounded.view, rounded.ask)
    assert found.status == "refused"
    assert "once per record" in found.reason
    plain = named(attacked(lab.plain))["half_star", "knows nothing of it"]
    assert error(found, lab.truth) == pytest.approx(error(plain, lab.truth), abs=0.003)
    logits = np.log(np.asarray(steered(rounded.view, rounded.ask).scores))
    true = np.log(np.asarray(lab.plain.view.scores))
    assert np.abs(np.diff(logits, axis=1) - np.diff(true, axis=1)).mean() < 0.3
