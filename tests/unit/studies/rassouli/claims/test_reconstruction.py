"""Statements on Figure 4 come out each way on made-up rows."""

import pandas as pd
import pytest

from plumbline.judge.measures import Interval, LoneMean
from studies.claims.claim import judged_here
from studies.claims.statement import Statement, interval_words
from studies.rassouli.claims.comparisons import ATTACKS
from studies.rassouli.claims.reconstruction import RECONSTRUCTION_CLAIMS

# What the paper reports, roughly: errors of each attack for d >= k.
AS_THE_PAPER = {
    "zero": 0.5,
    "random_guess": 0.04 + 1 / 12,
    "half": 0.04,
    "ls": 0.2,
    "clamped_ls": 0.15,
    "cls": 0.1,
    "gia": 0.16,
    "half_star": 0.03,
    "rcc1": 0.0205,
    "rcc2": 0.02,
}
SETTLED = ("ls", "half_star", "rcc1", "rcc2", "cls", "clamped_ls")


def rows(changed: dict[str, float] | None = None, name: str = "satellite") -> pd.DataFrame:
    """Six windows at each of d = 3 (settled, k = 4), 5 and 7; rcc1 and rcc2 take turns."""
    made = []
    for d in (3, 5, 7):
        for start in range(6):
            for attack, mse in {**AS_THE_PAPER, **(changed or {})}.items():
                settled = d < 4 and attack in SETTLED and attack not in (changed or {})
                turn = 0.001 * (-1) ** start if attack == "rcc1" and attack not in (changed or {}) else 0.0
                # Curves rise from d = 5 to 7 for all but half_star.
                slope = (1.0 if attack == "half_star" else -1.0) * 1e-4 * (7 - d)
                error = 0.0 if settled else mse + turn + slope + 1e-5 * start
                made.append(
                    {"dataset": name, "seed": 0, "d": d, "k": 4, "start": start, "attack": attack, "mse": error}
                )
    return pd.DataFrame(made)


def verdict(frame: pd.DataFrame, words: str) -> Statement:
    (found,) = (one for one in judged_here(RECONSTRUCTION_CLAIMS, frame) if words in one.paper)
    return found


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("For d < k the error is 0", dict.fromkeys(("ls", "half_star", "rcc1", "rcc2", "cls"), 0.1)),
        ("Half is always better than RG", {"random_guess": 0.01}),
        ("The gap between RG and Half", {"random_guess": 0.3}),
        ("Half outperforms LS", {"ls": 0.01}),
        ("Half outperforms GIA", {"gia": 0.01}),
        ("Clamped LS performs better", {"clamped_ls": 0.3}),
        ("What GIA gains over LS", {"gia": 0.02}),
        ("RCC1 and RCC2 are close", {"rcc1": 0.08}),
        ("Either CLS or Half*", {"gia": 0.001}),
        ("The proposed attacks are superior", {"ls": 0.001}),
        ("Zero errs more than all", {"zero": 0.01}),
    ],
)
def test_each_statement_is_reproduced_as_reported_and_differs_where_it_does_not_hold(
    words: str, changed: dict[str, float]
) -> None:
    assert verdict(rows(), words).verdict == "reproduced"
    assert verdict(rows(changed), words).verdict == "differs"


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("There is no guarantee that CLS", {"cls": 0.001}),
        ("There is no guarantee that LS", {"ls": 0.001}),
        ("There is no guarantee that GIA", {"gia": 0.001}),
        ("No general claim can be made", {"rcc1": 0.08}),
    ],
)
def test_what_may_be_is_not_refuted_where_it_is_not_seen(words: str, changed: dict[str, float]) -> None:
    assert verdict(rows(), words).verdict == "reproduced"
    assert verdict(rows(changed), words).verdict == "not seen"


def test_theorem_1_is_broken_by_one_window() -> None:
    assert verdict(rows(), "RCC2 is never worse").verdict == "reproduced"
    broken = rows()
    broken.loc[(broken["attack"] == "rcc2") & (broken["start"] == 2) & (broken["d"] == 7), "mse"] = 0.035
    found = verdict(broken, "RCC2 is never worse")
    assert found.verdict == "in part"
    assert found.measured.startswith("broken in 1 of 36 pairs")
    assert verdict(rows({"rcc2": 0.2, "half": 0.001}), "RCC2 is never worse").verdict == "differs"


def test_curves_that_only_rise_have_a_trend() -> None:
    assert verdict(rows(), "may rise or fall").verdict == "reproduced"
    rising = rows().assign(mse=lambda frame: frame["mse"] * 0 + frame["d"])
    assert verdict(rising, "may rise or fall").verdict == "not seen"


def test_nothing_measured_is_no_verdict() -> None:
    found = judged_here(RECONSTRUCTION_CLAIMS, rows().iloc[:0])
    assert {one.verdict for one in found} == {"not measured"}


def test_an_advantage_within_its_interval_is_none() -> None:
    """Paired on the window: equal means hide nothing, and one window can't decide."""
    frame = rows({"ls": 0.03})
    frame.loc[(frame["attack"] == "ls") & (frame["start"] == 0), "mse"] = 0.13
    at_7 = frame[frame["d"] == 7]
    pairs = ATTACKS.pairs(at_7, "ls", "half_star")
    assert pairs["difference"].mean() > 0
    (found,) = ATTACKS.at(pairs).values()
    assert found.low <= 0 < found.high
    assert ATTACKS.below("half_star", "ls")(at_7).held == [False]


def test_intervals_have_no_rounding_of_nothing() -> None:
    assert interval_words(Interval(1e-30, 0.0, 2e-29)) == "0 (0 to 0)"
    assert interval_words(Interval(0.01234, 0.01, 0.015)) == "0.0123 (0.0100 to 0.0150)"


def test_centres_are_close_beside_their_own_error_not_beside_that_of_half() -> None:
    """1/1000 is little beside 0.04 of Half, and half as much again beside RCC2's 0.002."""
    apart = verdict(rows({"rcc1": 0.003, "rcc2": 0.002}), "RCC1 and RCC2 are close")
    assert apart.verdict == "differs"
    assert "at 0 of 2 values of d" in apart.measured


def test_a_gap_that_is_right_on_average_is_not_always_right() -> None:
    frame = rows()
    of_d = frame["attack"].eq("random_guess") & frame["d"].isin([5, 7])
    frame.loc[of_d, "mse"] += frame.loc[of_d, "d"].map({5: 0.02, 7: -0.02})
    assert verdict(frame, "The gap between RG and Half").verdict == "in part"


def test_different_attacks_may_not_share_the_windows_on_which_they_win() -> None:
    """CLS wins on half of the windows and Half* on the others: neither curve is below the literature's."""
    frame = rows({"gia": 0.1, "ls": 0.1})
    for attack, wins in (("cls", 0), ("half_star", 1)):
        own = frame["attack"] == attack
        frame.loc[own, "mse"] = 0.3
        frame.loc[own & (frame["start"] % 2 == wins), "mse"] = 0.05
    assert verdict(frame, "Either CLS or Half*").verdict == "differs"


def test_an_attack_that_a_user_brings_is_none_of_the_papers() -> None:
    brought = rows({"my_attack": 5.0})
    assert verdict(brought, "Zero errs more than all").verdict == "reproduced"


def test_steps_within_their_interval_are_no_trend() -> None:
    noisy = rows().assign(mse=lambda frame: 0.1 + 0.01 * (-1) ** (frame["start"] + frame["d"] // 2))
    assert verdict(noisy, "may rise or fall").verdict == "not seen"


def test_one_measurement_has_no_interval() -> None:
    assert interval_words(LoneMean(0.0123)) == "0.0123 (no interval)"
