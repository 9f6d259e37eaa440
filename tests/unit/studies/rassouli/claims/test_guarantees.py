"""Statements on theorems and on Figure 5 come out each way on made-up rows."""

import pandas as pd
import pytest

from studies.claims.claim import judged_here
from studies.claims.statement import Statement
from studies.rassouli.claims.guarantees import GUARANTEES


def rows(changed: dict[str, object] | None = None, name: str = "bank") -> pd.DataFrame:
    """Windows of d = 1 (settled), 3, 6 and 9 for k = 2."""
    made = []
    for d in (1, 3, 6, 9):
        for start in range(3):
            row = {
                "dataset": name,
                "d": d,
                "k": 2,
                "start": start,
                "rank": 1,
                "ls": 0.2,
                "ls_lower": 0.1,
                "ls_upper": 0.21,
                "ls_empirical": 0.203,
                "half_star": 0.1,
                "half_star_lower": 0.05,
                "half_star_upper": 0.15,
                "half_star_empirical": 0.099,
                "floor": 0.095,
                "out_of_bounds": 0,
                "violations": 0,
                "violation": 1e-17,
                "infeasible": 1e-12,
                "far": [0.5, 0.2, 0.1, 0.0, 0.0],
                "chebyshev": [1.0, 0.9, 0.3, 0.1, 0.03],
            }
            made.append({**row, **(changed or {})})
    return pd.DataFrame(made)


def verdict(frame: pd.DataFrame, words: str) -> Statement:
    (found,) = (one for one in judged_here(GUARANTEES, frame) if words in one.paper)
    return found


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("RCC2 errs no more", {"violations": 2}),
        ("The bounds of LS are valid", {"ls": 0.3}),
        ("The bounds of Half* are valid", {"half_star": 0.01, "floor": 0.0}),
        ("Neither LS nor Half* errs less", {"floor": 0.11}),
        ("belong to the set of feasible", {"infeasible": 0.01}),
        ("A has full rank", {"rank": 0}),
        ("The passive party can bound", {"out_of_bounds": 1}),
        ("The closed form of LS coincides", {"ls_empirical": 0.3}),
        ("The closed form of Half* coincides", {"half_star_empirical": 0.2}),
        ("The upper bound of LS is tight", {"ls_upper": 0.5}),
    ],
)
def test_each_statement_comes_out_both_ways(words: str, changed: dict[str, object]) -> None:
    assert verdict(rows(), words).verdict == "reproduced"
    assert verdict(rows(changed), words).verdict == "differs"


def test_the_floor_is_tight_on_the_data_sets_that_the_paper_names() -> None:
    assert verdict(rows(name="satellite"), "eq. 52 is tight").verdict == "reproduced"
    assert verdict(rows({"floor": 0.01}, "synthetic"), "eq. 52 is tight").verdict == "differs"
    assert not [one for one in judged_here(GUARANTEES, rows()) if "eq. 52 is tight" in one.paper]


def test_errors_that_stay_far_do_not_converge() -> None:
    assert verdict(rows(), "converges to the MSE").verdict == "reproduced"
    staying = rows({"far": [0.5, 0.6, 0.7, 0.8, 0.9]})
    assert verdict(staying, "converges to the MSE").verdict == "differs"


def test_one_window_in_part() -> None:
    frame = rows()
    frame.loc[0, "violations"] = 1
    assert verdict(frame, "RCC2 errs no more").verdict == "in part"


def test_nothing_measured_is_no_verdict() -> None:
    assert {one.verdict for one in judged_here(GUARANTEES, rows().iloc[:0])} == {"not measured"}
