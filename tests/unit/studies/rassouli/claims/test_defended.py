"""Statements on the transform and the schemes come out each way on made-up rows."""

import pandas as pd
import pytest

from studies.claims.claim import judged_here
from studies.claims.statement import Statement
from studies.rassouli.claims.defended import (
    SCHEME_CLAIMS,
    TRANSFORM_CLAIMS,
    designed_above_plain,
)
from studies.simulation.informed import KNOWING

ATTACKS = ("ls", "clamped_ls", "cls", "half_star", "rcc1", "rcc2")


def transformed(
    *,
    added: float = 0.1,
    gain: float = 0.1,
    kl: float = 1e-9,
    known: float = 0.05,
    worst: float = 0.5,
    late: float = 0.2,
    eigenvalue: float = 0.01,
) -> pd.DataFrame:
    """Three windows at d = 2 and 9 of bank, k = 2; what -I adds falls to a share ``late`` of it at the last d."""
    made = []
    for d in (2, 9):
        share = 1.0 if d == 2 else late
        for start in range(3):
            place = {
                "dataset": "bank",
                "seed": 0,
                "d": d,
                "k": 2,
                "start": start,
                "gain": gain * share,
                "bound": 0.5,
                "share": 0.1 if d == 2 else eigenvalue,
            }
            for attack in ATTACKS:
                for defence, mse, lost in (
                    ("none", 0.05, 0.0),
                    ("-I, retrained", 0.05 + added * share, kl),
                    ("random, disclosed", 0.3, 0.0),
                    ("H*, disclosed", worst, 0.0),
                ):
                    made.append({**place, "defence": defence, "adversary": attack, "mse": mse, "kl": lost})
            made.append({**place, "defence": "-I, retrained", "adversary": KNOWING, "mse": known, "kl": kl})
    return pd.DataFrame(made)


def transform_verdict(frame: pd.DataFrame, words: str) -> Statement:
    (found,) = (one for one in judged_here(TRANSFORM_CLAIMS, frame) if words in one.paper)
    return found


@pytest.mark.parametrize(
    ("words", "failing"),
    [
        ("All the reconstruction attacks", {"added": -0.01}),
        ("The KL divergence", {"kl": 0.2}),
        ("to the error of LS", {"gain": 0.5}),
        ("to the error of Half*", {"gain": 0.5}),
        ("what -I adds vanishes", {"late": 1.0}),
        ("If the adversary is aware of H", {"known": 0.4}),
    ],
)
def test_each_statement_on_the_transform_comes_out_both_ways(words: str, failing: dict[str, float]) -> None:
    assert transform_verdict(transformed(), words).verdict == "reproduced"
    assert transform_verdict(transformed(**failing), words).verdict == "differs"


def test_what_vanishes_is_said_of_slow_eigenvalues_only() -> None:
    found = transform_verdict(transformed(eigenvalue=0.09), "what -I adds vanishes")
    assert found.verdict == "not measured"
    assert "says nothing of such data" in found.reason


def test_one_window_that_falls_leaves_an_attack_unsure_of_its_rise() -> None:
    frame = transformed()
    row = (frame["adversary"] == "rcc1") & (frame["defence"] == "-I, retrained") & (frame["d"] == 9)
    frame.loc[row & (frame["start"] == 1), "mse"] = 0.04
    found = transform_verdict(frame, "All the reconstruction attacks")
    assert found.verdict == "in part"
    assert "rcc1's errors rise by" in found.measured
    assert "not at 9" in found.measured


def test_an_attack_that_was_not_measured_is_not_counted() -> None:
    frame = transformed()
    found = transform_verdict(frame[frame["adversary"] != "rcc1"], "All the reconstruction attacks")
    assert found.verdict == "reproduced"
    assert "rcc1" not in found.measured


def test_theorem_3_is_exceeded_by_no_other_transform() -> None:
    assert transform_verdict(transformed(), "H* makes the error").verdict == "reproduced"
    assert transform_verdict(transformed(worst=0.3), "H* makes the error").verdict == "in part"
    beaten = transformed(worst=0.3).assign(bound=0.1)
    assert transform_verdict(beaten, "H* makes the error").verdict == "differs"


def schemes(*, kept: float = 1.0, rise: float = 1.0, limit: float = 9.0, plain: float = 0.5) -> pd.DataFrame:
    """Errors that rise with divergence; scheme 3 at a share ``plain`` of the others."""
    place = {"dataset": "satellite", "trainer": "adam", "d": 5, "seed": 0, "start": 0}
    none = {"defence": "none", "adversary": "unaware", "kl": 0.0, "attack_error": 0.1}
    made = [{**place, **none}]
    for defence in ("scheme 1, +v", "scheme 2, +v", "scheme 3", "class label"):
        for strength, kl in ((1.0, 0.05), (2.0, 3.0)):
            factor = plain if defence == "scheme 3" else 1.0
            made.append(
                {
                    **place,
                    "defence": defence,
                    "adversary": "unaware",
                    "strength": strength,
                    "kl": kl,
                    "attack_error": 0.1 + rise * kl * factor,
                    "attack_error_unclamped": 1.0,
                    "theorem_4": limit if defence == "scheme 1, +v" else float("nan"),
                    "decisions_kept": kept,
                }
            )
    return pd.DataFrame(made)


def scheme_verdict(frame: pd.DataFrame, words: str) -> Statement:
    (found,) = (one for one in judged_here(SCHEME_CLAIMS, frame) if words in one.paper)
    return found


@pytest.mark.parametrize(
    ("words", "failing"),
    [
        ("preserve the model's accuracy", {"kept": 0.9}),
        ("Every scheme buys error", {"rise": -0.01}),
        ("No noise of the same budget", {"limit": 0.5}),
    ],
)
def test_each_statement_on_schemes_comes_out_both_ways(words: str, failing: dict[str, float]) -> None:
    assert scheme_verdict(schemes(), words).verdict == "reproduced"
    assert scheme_verdict(schemes(**failing), words).verdict == "differs"


def test_curves_are_compared_at_the_same_divergence() -> None:
    assert set(designed_above_plain(schemes(plain=0.5))) == {True}
    assert set(designed_above_plain(schemes(plain=2.0))) == {False}
    only = schemes()
    assert designed_above_plain(only[only["defence"] == "scheme 3"]) == []
