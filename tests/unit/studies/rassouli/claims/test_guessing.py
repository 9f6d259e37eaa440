"""Statements on the black box come out each way on made-up rows."""

import pandas as pd
import pytest

from studies.claims.claim import judged
from studies.claims.statement import Statement
from studies.rassouli.claims.guessing import GUESSING_CLAIMS

CASES = {
    ("sign of omega b", "2"): [0.2, 0.001],
    ("b", "1"): [0.2, 0.001],
    ("sign of omega b", "3, one sign"): [0.2, 0.002],
    ("sign of omega b", "3, both signs"): [0.2, 0.1],
    ("signs", "3, both signs"): [0.2, 0.001],
}


def rows(omega: float = 0.989, exceeded: int = 0, **changed: float) -> pd.DataFrame:
    """Two splits of bank's column 14 in every case; changed: the last error of a case, by the words before a comma."""
    made = []
    for seed in (0, 1):
        for (knows, case), error in CASES.items():
            last = changed.get("all", error[-1])
            made.append(
                {
                    "dataset": "bank",
                    "seed": seed,
                    # A column is in one case.
                    "column": 14 if case == "2" else 3,
                    "name": 15,
                    "knows": knows,
                    "case": case,
                    "omega": omega,
                    "b": 3.05,
                    "error": [error[0], last],
                    "half": 0.1,
                    "bound_later": 1e-5,
                    "exceeded": exceeded,
                }
            )
    return pd.DataFrame(made)


def verdict(frame: pd.DataFrame, words: str) -> Statement:
    (found,) = (one for one in judged(GUESSING_CLAIMS, frame) if words in one.paper)
    return found


@pytest.mark.parametrize(
    ("words", "holding", "failing"),
    [
        ("converges to 0 within 100", rows(), rows(all=0.09)),
        ("at most (X_M - 1)^2.", rows(), rows(exceeded=3)),
        ("at most (X_M - 1)^2 + X_m^2", rows(), rows(exceeded=3)),
        ("Case 1", rows(), rows(all=0.09)),
        ("Case 2", rows(), rows(all=0.09)),
        ("Case 3", rows(), rows(all=0.09)),
        ("no better than 1/2", rows(), rows(all=0.001)),
        ("Who knows the signs", rows(), rows(all=0.09)),
    ],
)
def test_each_statement_comes_out_both_ways(words: str, holding: pd.DataFrame, failing: pd.DataFrame) -> None:
    assert verdict(holding, words).verdict == "reproduced"
    assert verdict(failing, words).verdict == "differs"


def test_columns_that_stay_are_named() -> None:
    frame = rows()
    frame["error"] = [[0.2, 0.05], *frame["error"].tolist()[1:]]
    found = verdict(frame, "Case 2")
    assert found.verdict == "in part"
    assert "bank 15" in found.reason


def test_nothing_measured_is_no_verdict() -> None:
    assert {one.verdict for one in judged(GUESSING_CLAIMS, rows().iloc[:0])} == {"not measured"}


def test_the_sign_alone_does_not_reproduce_the_printed_numbers() -> None:
    assert verdict(rows(), "omega b > 0, with omega").verdict == "reproduced"
    assert verdict(rows(omega=2.0), "omega b > 0, with omega").verdict == "in part"
    assert verdict(rows(omega=-2.0).assign(b=9.0), "omega b > 0, with omega").verdict == "differs"


def test_an_average_that_errs_more_than_half_is_not_half_either() -> None:
    assert verdict(rows(all=0.2), "no better than 1/2").verdict == "differs"
