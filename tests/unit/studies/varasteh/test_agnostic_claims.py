"""Statements on the agnostic attack, on made-up frames in which they come out each way."""

from collections.abc import Mapping

import pandas as pd
import pytest

from studies.claims.claim import NOT_HERE
from studies.claims.statement import Statement
from studies.varasteh.agnostic_claims import (
    CURVES,
    agnostic_statements,
    covariance_statements,
    gained_share,
    refined_statements,
    unmoved_by_score_defences,
)
from studies.varasteh.rivals import ADULT, BY_LABELS, BY_SCORES, GRID, HALF, HALF_STAR, OWN_MODEL, PAPER_DATASETS


def frame(errors: Mapping[str, Mapping[int, float]], dataset: str = "bank", spread: float = 0.001) -> pd.DataFrame:
    """Errors by curve and d, over four windows that move all curves of a window alike, and each by a little."""
    rows = [
        {
            "dataset": dataset,
            "seed": 0,
            "d": d,
            "start": start,
            "curve": curve,
            "mse": error + start + start * spread * n,
        }
        for n, (curve, by_d) in enumerate(errors.items())
        for d, error in by_d.items()
        for start in range(4)
    ]
    return pd.DataFrame(rows)


GOOD = {
    HALF: {1: 0.20, 8: 0.20},
    HALF_STAR: {1: 0.01, 8: 0.100},
    OWN_MODEL: {1: 0.08, 8: 0.101},
    BY_SCORES: {1: 0.03, 8: 0.1005},
    BY_LABELS: {1: 0.079, 8: 0.1005},
}


def on_all(errors: Mapping[str, Mapping[int, float]]) -> pd.DataFrame:
    """The same errors on every data set of the paper."""
    return pd.concat([frame(errors, name, spread=0.0) for name in PAPER_DATASETS])


def said(statements: tuple[Statement, ...], paper: str, subject: str = "bank") -> Statement:
    (found,) = [one for one in statements if paper in one.paper and one.subject == subject]
    return found


def test_a_frame_as_the_paper_has_it_reproduces_its_statements() -> None:
    statements = agnostic_statements(frame(GOOD, spread=0.0))
    for paper in ("comparably well", "close to that of half*", "errs less than 1/2", "Refining AM", "columns are few"):
        assert said(statements, paper).verdict == "reproduced", paper
    for paper in ("can't surpass", "every data set"):
        assert said(statements, paper, "all data sets").verdict == "in part", paper
        everywhere = agnostic_statements(on_all(GOOD))
        assert said(everywhere, paper, "all data sets").verdict == "reproduced", paper
    missing = f"{ADULT}, satellite, pendigits, {GRID} not measured"
    assert missing in said(statements, "every data set", "all data sets").measured


def test_a_frame_the_other_way_differs_and_says_why() -> None:
    worse = GOOD | {OWN_MODEL: {1: 0.3, 8: 0.4}, BY_SCORES: {1: 0.31, 8: 0.41}}
    statements = agnostic_statements(frame(worse, spread=0.0))
    for paper in ("comparably well", "close to that of half*", "errs less than 1/2", "Refining AM", "columns are few"):
        assert said(statements, paper).verdict == "differs", paper
    assert "equation 21" in said(statements, "errs less than 1/2").reason


def test_what_holds_for_some_d_is_in_part() -> None:
    mixed = GOOD | {OWN_MODEL: {1: 0.3, 8: 0.101}}
    found = said(agnostic_statements(frame(mixed, spread=0.0)), "errs less than 1/2")
    assert found.verdict == "in part"
    assert "at 1 of 2 values of d" in found.measured


def test_exact_scores_can_be_surpassed_in_a_frame() -> None:
    better = GOOD | {OWN_MODEL: {1: 0.001, 8: 0.002}}
    assert said(agnostic_statements(frame(better)), "can't surpass", "all data sets").verdict == "differs"


@pytest.mark.parametrize(("labels", "verdict"), [(0.06, "reproduced"), (0.01, "in part"), (0.09, "in part")])
def test_labels_help_less_than_scores(labels: float, verdict: str) -> None:
    """More than scores: not subtle. More than without: no improvement."""
    made = on_all({OWN_MODEL: {1: 0.08}, BY_SCORES: {1: 0.03}, BY_LABELS: {1: labels}})
    assert said(agnostic_statements(made), "class labels subtly", "all data sets").verdict == verdict


@pytest.mark.parametrize(
    ("own", "pendigits", "grid"), [(0.3, "reproduced", "differs"), (0.201, "reproduced", "reproduced")]
)
def test_who_resists(own: float, pendigits: str, grid: str) -> None:
    made = {HALF: {1: 0.2}, OWN_MODEL: {1: own}}
    both = pd.concat([frame(made, name, spread=0.0) for name in ("pendigits", GRID)])
    # Windows move errors by whole numbers here: only the first one has errors below 1.
    statements = agnostic_statements(both[both["start"] == 0])
    assert said(statements, "isn't effective", "pendigits").verdict == pendigits
    assert said(statements, "ineffective", GRID).verdict == grid


def test_nothing_measured_gives_no_verdict() -> None:
    statements = agnostic_statements(pd.DataFrame())
    assert {one.verdict for one in statements} == {"not measured"}
    assert {one.measured for one in statements} == {NOT_HERE}


def test_orderings_are_judged_on_differences_in_the_same_window() -> None:
    """Windows differ by a thousand times what the two curves do."""
    made = frame({HALF: {1: 0.101}, OWN_MODEL: {1: 0.1}}, spread=0.0)
    assert CURVES.pairs(made, HALF, OWN_MODEL)["difference"].to_numpy() == pytest.approx([0.001] * 4)
    assert said(agnostic_statements(made), "errs less than 1/2").verdict == "reproduced"
    made.loc[made["curve"] == OWN_MODEL, "mse"] += [0.0, 0.003, -0.0005, 0.002]
    assert said(agnostic_statements(made), "errs less than 1/2").verdict == "differs"


def test_shares_say_how_far_between_two_others() -> None:
    table = pd.DataFrame({OWN_MODEL: [0.15, 0.2], HALF_STAR: [0.1, 0.2], HALF: [0.2, 0.2]})
    assert gained_share(table).tolist() == pytest.approx([0.5])


def test_more_delivered_scores_are_better_or_not() -> None:
    curves = {50: "RAM(50, 1)", 100: "RAM(100, 1)"}
    for last, verdict in ((0.03, "reproduced"), (0.06, "differs")):
        errors = {OWN_MODEL: {1: 0.08}, curves[50]: {1: 0.05}, curves[100]: {1: last}}
        first, second = refined_statements(frame(errors, "satellite", spread=0.0), curves)
        assert (first.verdict, second.verdict) == (verdict, "reproduced")


def test_score_defences_that_move_the_attack_are_told() -> None:
    for under, verdict in ((0.0805, "reproduced"), (0.2, "differs")):
        made = frame({"plain": {1: 0.08}, "under": {1: under}}, spread=0.0)
        (found,) = unmoved_by_score_defences(made[made["start"] == 0], "plain", {"class_label": "under"})
        assert found.verdict == verdict


def test_covariance_off_the_diagonal_decides() -> None:
    facts = pd.DataFrame(
        {"dataset": ["bank", ADULT, "satellite", "pendigits", GRID], "off_diagonal": [0.4, 0.5, 0.9, 0.3, 0.01]}
    )
    gains = pd.concat(
        [
            frame({HALF: {1: 0.2}, OWN_MODEL: {1: own}}, name)
            for name, own in (("bank", 0.1), (ADULT, 0.1), ("satellite", 0.1), ("pendigits", 0.19))
        ]
    )
    gains = gains[gains["start"] == 0]
    diagonal, pendigits, resists = covariance_statements(facts, gains)
    assert (diagonal.verdict, pendigits.verdict, resists.verdict) == ("reproduced", "reproduced", "reproduced")
    turned = facts.assign(off_diagonal=[0.1, 0.5, 0.9, 0.3, 0.4])
    assert [one.verdict for one in covariance_statements(turned, gains)] == ["differs", "in part", "reproduced"]
    near = facts.assign(off_diagonal=[0.4, 0.5, 0.9, 0.3, 0.11])
    assert covariance_statements(near, gains)[0].verdict == "in part"


def test_an_order_of_one_window_says_that_it_has_no_interval() -> None:
    found = said(agnostic_statements(frame(GOOD, spread=0.0).query("start == 0")), "errs less than 1/2")
    assert "at 2 of them there is one window and seed, no interval, and its sign decides" in found.measured
