"""Statements on gradient inversion's start come out each way on made-up rows."""

import pandas as pd
import pytest

from studies.claims.claim import judged_here
from studies.claims.statement import Statement
from studies.rassouli.claims.starting import START_CLAIMS


def rows(name: str = "bank", *, half_star: float = 0.01, **errors: float) -> pd.DataFrame:
    """Four windows at each of d = 2 and 5, k = 2."""
    found = {"zero": 0.2, "half": 0.1, "random": 0.15, **errors}
    made = []
    for d in (2, 5):
        for start in range(4):
            place = {"dataset": name, "seed": 0, "d": d, "k": 2, "start": start}
            for at, mse in found.items():
                made.append({**place, "attack": f"gia(init={at})", "start_at": at, "mse": mse + 1e-4 * start})
            made.append({**place, "attack": "half_star", "start_at": "half_star", "mse": half_star})
    return pd.DataFrame(made)


def verdict(frame: pd.DataFrame, words: str) -> Statement:
    (found,) = (one for one in judged_here(START_CLAIMS, frame) if words in one.paper)
    return found


@pytest.mark.parametrize(
    ("name", "words", "failing"),
    [
        ("bank", "Starting at 1/2 is the best", {"half": 0.4}),
        ("robot", "for the most part", {"half": 0.4}),
        ("synthetic", "GIA is outperformed", {"half_star": 0.4}),
    ],
)
def test_each_statement_comes_out_both_ways(name: str, words: str, failing: dict[str, float]) -> None:
    assert verdict(rows(name), words).verdict == "reproduced"
    assert verdict(rows(name, **failing), words).verdict == "differs"


def test_where_it_is_not_the_best_is_said() -> None:
    frame = rows()
    frame.loc[(frame["start_at"] == "zero") & (frame["d"] == 5), "mse"] = 0.05
    found = verdict(frame, "Starting at 1/2 is the best")
    assert found.verdict == "in part"
    assert "GIA from zero by" in found.measured
    assert "not at 5" in found.measured


def test_nothing_measured_says_nothing() -> None:
    assert judged_here(START_CLAIMS, rows().iloc[:0]) == ()
