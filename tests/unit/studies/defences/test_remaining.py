"""The part that remains, over models: known answers on made-up errors."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from attacks import LEVELS
from plumbline.judge.federation_part import FLOOR
from studies.defences.remaining import over_models, remaining, remaining_parts

GUESSES, KNOWS = "guesses", "expects it"


def rows_of(
    attack: str, first: list[float], second: list[float], *, level: str = "nothing", awareness: str = KNOWS
) -> list[dict[str, Any]]:
    """One adversary's errors on both halves of the records, a model each."""
    shared = {"case": "c", "optimiser": "adam", "trial": "none", "attack": attack, "level": level}
    return [
        {**shared, "awareness": awareness, "seed": seed, "mse_first": one, "mse_second": two}
        for seed, (one, two) in enumerate(zip(first, second, strict=True))
    ]


def test_an_exact_attack_leaves_all_and_a_guess_as_good_leaves_nothing() -> None:
    guess = rows_of("half", [0.04, 0.08], [0.06, 0.08], awareness=GUESSES)
    exact = remaining(pd.DataFrame(guess + rows_of("exact", [0.0, 0.0], [0.0, 0.0])), "nothing")
    assert exact.part is not None
    assert (exact.part.mean, exact.part.low, exact.part.high) == (1.0, 1.0, 1.0)
    assert exact.e0.mean == pytest.approx(0.065)
    same = remaining(pd.DataFrame(guess + rows_of("same", [0.04, 0.08], [0.06, 0.08])), "nothing").part
    assert same is not None
    assert (same.mean, same.low, same.high) == (0.0, 0.0, 0.0)


def test_the_interval_is_students_over_models() -> None:
    errors = np.array([0.01, 0.02, 0.012, 0.03, 0.025])
    guess = rows_of("half", [0.04] * 5, [0.04] * 5, awareness=GUESSES)
    part = remaining(pd.DataFrame(guess + rows_of("a", errors.tolist(), errors.tolist())), "nothing").part
    shares = 1 - errors / 0.04
    low, high = student.interval(0.95, 4, shares.mean(), shares.std(ddof=1) / np.sqrt(5))
    assert part is not None
    assert (part.mean, part.low, part.high) == pytest.approx((shares.mean(), low, high))


def test_an_attack_that_was_lucky_on_one_half_is_judged_on_the_other() -> None:
    guess = rows_of("half", [0.04, 0.04], [0.04, 0.04], awareness=GUESSES)
    lucky = rows_of("lucky", [0.0, 0.0], [0.08, 0.08])
    steady = rows_of("steady", [0.03, 0.03], [0.03, 0.03])
    found = remaining(pd.DataFrame(guess + lucky + steady), "nothing")
    # Chosen by the first half, lucky is judged on the second; the second chooses steady.
    assert found.error.mean == pytest.approx((0.08 + 0.03) / 2)
    assert set(found.attack.split(" or ")) == {"lucky, expects it", "steady, expects it"}
    assert found.part is not None
    assert found.part.mean == 0.0


def test_who_knows_more_has_all_that_weaker_ones_have() -> None:
    rows = rows_of("half", [0.04, 0.04], [0.04, 0.04], awareness=GUESSES)
    rows += rows_of("imputation", [0.01, 0.01], [0.01, 0.01], awareness=GUESSES, level="records")
    rows += rows_of("half_star", [0.008, 0.008], [0.008, 0.008])
    parts = remaining_parts(pd.DataFrame(rows)).set_index("level")
    assert list(parts.index) == list(LEVELS)
    assert parts["part"].tolist() == pytest.approx([0.8, 0.8, 0.8, 0.2])
    assert parts.at["records", "guess"] == "imputation"
    assert parts.at["covariance", "attack"] == "half_star, expects it"


def test_who_was_not_measured_on_every_model_is_not_chosen() -> None:
    rows = rows_of("half", [0.04, 0.04], [0.04, 0.04], awareness=GUESSES) + rows_of("a", [0.02, 0.02], [0.02, 0.02])
    rows += rows_of("once", [0.0], [0.0])
    assert remaining(pd.DataFrame(rows), "nothing").attack == "a, expects it"


def test_where_little_is_left_to_give_away_there_is_no_part() -> None:
    small = FLOOR / 2
    rows = rows_of("half", [small] * 2, [small] * 2, awareness=GUESSES) + rows_of("a", [0.0] * 2, [0.0] * 2)
    assert remaining(pd.DataFrame(rows), "nothing").part is None
    assert np.isnan(remaining_parts(pd.DataFrame(rows))["part"]).all()


def test_one_model_has_no_width_and_infinity_no_interval() -> None:
    assert over_models([0.5]).high == 0.5
    assert over_models([np.inf, 1.0]).low == np.inf
