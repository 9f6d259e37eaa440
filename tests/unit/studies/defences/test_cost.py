"""What each defence costs."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import defences
from defences import DefenceError, TrainingTerms
from defences.dp_noise import DpNoise
from services.common.run_records import StepRecord
from studies.defences.cost import UNDEFENDED, WIDE, _live_rows, _notes, _summary, _timed, _Trial, _trials
from studies.simulation.live import LiveRun, residual_integer_bits

# --- cost ---------------------------------------------------------------------------------------------------------


def run_of(milliseconds: float, sent: int) -> LiveRun:
    seconds = {"encrypt": milliseconds / 2e3, "product": milliseconds / 2e3}
    steps = (*(StepRecord(step, seconds) for step in range(3)), StepRecord(3, {"wait": 9.0}))
    return LiveRun(0.5, {"Send: X": sent, "Align: Y": 7}, (), dict.fromkeys(("active", "passive"), steps))


def test_costs_are_ratios_to_the_undefended_run_of_the_same_round() -> None:
    plain, truncated = _Trial(UNDEFENDED), _Trial("response_truncation", "response_truncation")
    runs = [(0, plain, run_of(100, 50)), (0, truncated, run_of(110, 40))]
    runs += [(1, plain, run_of(200, 50)), (1, truncated, run_of(200, 40)), (1, _Trial(WIDE), run_of(300, 50))]
    live = _live_rows(runs)
    assert list(live["iteration_ms"]) == pytest.approx([100, 100, 110, 110, 200, 200, 200, 200, 300, 300])
    assert list(live["iteration_ratio"]) == pytest.approx([1, 1, 1.1, 1.1, 1, 1, 1, 1, 1.5, 1.5])
    assert set(live["bytes"]) == {57, 47}
    own = pd.DataFrame([{"trial": "response_truncation", "defence": "response_truncation", "own_ms": 3.0}])
    summary = _summary(live, own).set_index("defence")
    row = summary.loc["response_truncation"]
    assert row["ratio"] == pytest.approx(1.05)
    assert row["fastest ratio"] == pytest.approx(1.1)
    assert summary.loc[WIDE, "fastest ratio"] == pytest.approx(3)
    assert row["bytes ratio"] == pytest.approx(0.8)
    assert row["own share of training"] == pytest.approx(3 / 150)
    assert row["target"] == "below 1%: not met"


def test_times_next_to_a_single_undefended_run_are_not_compared() -> None:
    # Once: the quick run said that a defence made training faster.
    runs = [(0, _Trial(UNDEFENDED), run_of(100, 50)), (0, _Trial(WIDE), run_of(90, 60))]
    runs += [(0, _Trial("response_truncation", "response_truncation"), run_of(80, 40))]
    live = _live_rows(runs)
    names = ["response_truncation", "dp_sgd"]
    own = pd.DataFrame({"trial": names, "defence": names, "own_ms": [0.3, np.nan], "iteration_ratio": [np.nan, 2.5]})
    summary = _summary(live, own)
    assert not {"ratio", "fastest ratio"} & set(summary)
    assert list(summary["target"]) == ["", "", "too few runs to compare", "lab only"]
    notes = _notes(live, own, summary, 9)
    assert notes[0].startswith("Too few runs to compare")
    assert "of the time" not in " ".join(notes)
    assert any("1.20 of the bytes" in note for note in notes)
    assert any("dp_sgd takes 2.5 times" in note for note in notes)


def test_every_defence_of_a_linear_models_federation_is_timed() -> None:
    rounds, once = _trials(9)
    tried = {trial.defence for trial in (*rounds, *once)} - {""}
    assert {"dp_noise", "label_randomised_response", "score_rounding", "feature_transform"} <= tried
    # No federation without a hidden layer takes them.
    assert not tried & {"hidden_noise", "max_norm", "marvell", "dp_sgd"}
    for name in tried - {"purification"}:
        timed = _timed(defences.load(name), None, 0)
        assert all(milliseconds >= 0 for milliseconds in timed.values()), name


@pytest.mark.parametrize("epochs", [1, 40])
def test_the_fixed_point_for_noise_is_the_smallest_that_holds_it(epochs: int) -> None:
    plan: dict[str, Any] = {"epochs": epochs, "steps": 6 * epochs, "rows": 64, "learning_rate": 0.5}
    bits = residual_integer_bits({}, least=4, **plan)

    def check(limit: float) -> None:
        for role in ("active", "passive"):
            DpNoise().check(TrainingTerms(role=role, residual_limit=limit, **plan))

    check(2.0**bits)
    with pytest.raises(DefenceError):
        check(2.0 ** (bits - 1))
    with pytest.raises(DefenceError, match="residual_integer_bits"):
        residual_integer_bits({"sigma": 1e9}, **plan)
