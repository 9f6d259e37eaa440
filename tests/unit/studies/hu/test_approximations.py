"""Other expansions: their trainings against the oracle, the section, and statements each way."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from studies.hu.approximations import (
    CUBIC,
    SIGN_RANGE,
    approximations,
    expanded_of,
    expansion_statements,
    measurements_of,
)
from studies.hu.expansions import EXPANSIONS, expanded, single_feature
from studies.hu.experiments import HuChoices
from studies.hu.trainings import training
from studies.measurements import SweepOptions
from tests.harness.hu_run import MADE_UP, MadeUpHu


def frame(**changes: Any) -> pd.DataFrame:
    """Trainings of which everything that the paper states holds."""
    rows = [
        {"dataset": "credit", "reading": "bounded rows", "expansion": name, "initialisation": kind, "seed": seed}
        | {"epoch": epoch, "success_step": 1.0, "largest_product": 9.0, "guaranteed_steps": 9, "first_wrong_step": -1}
        | {"answered": 0.9, "right_of_answered": 1.0, "told_so_far": 0.9}
        for name in EXPANSIONS
        for kind in ("zero", "xavier")
        for seed in (0, 1, 2)
        for epoch in (1, 2)
    ]
    return pd.DataFrame(rows).assign(**changes)


def features(exact: float = 1.0, *, sortable: bool = True) -> pd.DataFrame:
    row = {"epochs": 4, "batches": 8, "exact": exact, "sortable": sortable}
    names = ("first_order", "minimax", "piecewise")
    return pd.DataFrame([row | {"approximation": name, "seed": seed} for name in names for seed in (0, 1)])


def verdicts(results: pd.DataFrame, found: pd.DataFrame) -> dict[str, str]:
    return {one.source: one.verdict for one in expansion_statements(results, found)}


def test_the_taylor_expansion_is_the_paper_own_training() -> None:
    own = expanded(MADE_UP["credit"], expansion="taylor", scaling="bounded", seed=1, epochs=2)
    plain = training(MADE_UP["credit"], scaling="bounded", intercept=True, seed=1, epochs=2)
    for name in ("accuracy_test", "success_step", "success_kept", "theta_norm", "first_wrong_step", "guaranteed_steps"):
        assert own[name] == plain[name]
    assert max(own["cross_share"]) < 1e-12
    assert own["answered"] == [1.0] * 6


def test_only_lines_are_sums_of_shares_and_a_flat_one_promises_more_steps() -> None:
    found = {
        name: expanded(MADE_UP["credit"], expansion=name, scaling="bounded", seed=0, epochs=1) for name in EXPANSIONS
    }
    assert max(found["minimax line"]["cross_share"]) < 1e-12 < min(found["minimax cubic"]["cross_share"])
    assert found["minimax line"]["guaranteed_steps"][0] > found["taylor"]["guaranteed_steps"][0]
    assert found["piecewise"]["guaranteed_steps"] == [-1] * 3
    assert found["piecewise"]["right_of_answered"] == [1.0] * 3


def test_a_cubic_far_outside_its_interval_diverges_and_has_no_numbers() -> None:
    long = replace(MADE_UP["credit"], features=10 * MADE_UP["credit"].features)
    found = expanded(long, expansion="minimax cubic", scaling="none", seed=0, epochs=6)
    lost = np.isnan(found["theta_norm"])
    assert lost.any()
    for name in ("accuracy_test", "success_step", "told_so_far"):
        np.testing.assert_array_equal(np.isnan(found[name]), lost)


def test_a_single_feature_follows_to_the_letter() -> None:
    found = single_feature(MADE_UP["credit"], approximation="first_order", scaling="bounded", seed=0)
    assert (found["sortable"], found["exact"], found["rows"], found["batches"]) == (True, 1.0, 128, 8)


def test_the_section_has_every_expansion_and_says_which_are_simulated() -> None:
    run = MadeUpHu(SweepOptions(workers=1), quick=True, options={"seeds": 1, "datasets": ("credit",)})
    assert len(measurements_of(HuChoices.of(run))) == 2 * len(EXPANSIONS) + 3
    made = approximations(run)
    assert set(made.data["expansion"]) == set(EXPANSIONS)
    assert len(made.plots[0].panels) == 8
    assert any(note.startswith("SIMULATION: the cubic") for note in made.notes)
    assert len(made.statements) == 2 + 2 + 2 + 3 + 3
    assert expanded_of(pd.DataFrame()).empty


def test_statements_hold_where_the_frame_says_so() -> None:
    both = pd.concat([frame(), frame(dataset="mnist01")])
    held = verdicts(both, features())
    assert held.pop("appendix E, (122)") == "in part"
    assert set(held.values()) == {"reproduced"}
    assert verdicts(frame(), features())["Theorem F.2"] == "in part"


@pytest.mark.parametrize(("bound", "verdict"), [(0, "empty"), (1, "empty"), (2, "reproduced")])
def test_a_bound_of_no_step_or_the_first_says_nothing(bound: int, verdict: str) -> None:
    assert verdicts(frame(guaranteed_steps=bound), features())["Theorem E.3"] == verdict
    assert verdicts(frame(guaranteed_steps=2, first_wrong_step=1), features())["Theorem E.3"] == "differs"


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("Theorem E.3", {"first_wrong_step": 3}),
        ("appendix E.1", {"largest_product": 2.0}),
        ("Theorem F.2", {"right_of_answered": 0.99}),
        ("appendix F.2 (3)", {"answered": 1.0}),
    ],
)
def test_statements_differ_where_it_does_not(source: str, changes: dict[str, Any]) -> None:
    assert verdicts(frame(**changes), features())[source] == "differs"


def test_effects_and_features_each_way() -> None:
    results = frame()
    results.loc[(results["expansion"] == "piecewise") & (results["initialisation"] == "zero"), "success_step"] = 0.5
    found = expansion_statements(results, features(0.5))
    effect = next(one for one in found if one.source == "section 2.1")
    assert effect.verdict == "in part"
    assert "shows nothing" in effect.reason
    lost = frame()
    lost.loc[lost["expansion"] == "minimax cubic", "success_step"] = np.nan
    effect = next(one for one in expansion_statements(lost, features()) if one.source == "section 2.1")
    assert effect.verdict == "in part"
    assert "minimax cubic from xavier diverges in every seed" in effect.measured
    results.loc[results["expansion"] != "taylor", "success_step"] = 0.5
    assert verdicts(results, features(0.5))["section 2.1"] == "differs"
    assert {one.verdict for one in found if one.source in ("Theorem 3.5", "Theorem E.2", "Theorem F.1")} == {"differs"}
    assert verdicts(results, features(sortable=False))["Theorem F.1"] == "not measured"
    assert verdicts(pd.DataFrame(), pd.DataFrame())["Theorem F.2"] == "not measured"


def test_what_needs_no_run_is_computed() -> None:
    assert "0.0389; the printed one's is 0.0510" in CUBIC.judged(features()).measured
    assert SIGN_RANGE.judged(features()).verdict == "reproduced"
    assert "3.2091" in SIGN_RANGE.judged(features()).measured
