"""Figures 14 and 15: statements each way on made-up numbers, and a tiny run of every defence."""

from pathlib import Path

import pandas as pd
import pytest

from studies.jiang.splits import Splits
from studies.jiang.with_defences import trade_offs as section
from studies.jiang.with_defences.claims_on_defences import trade_off_notes, trade_off_statements
from studies.measurements import Choice, SweepOptions
from studies.study import StudyRun

# By defence: attack accuracy and model accuracy.
_AS_THE_PAPER = {
    ("none", ""): (0.8, 0.9),
    ("psi", ""): (0.8, 0.9),
    ("dp_sgd", "epsilon 10"): (0.78, 0.88),
    ("dp_sgd", "epsilon 0.1"): (0.4, 0.6),
    ("score_noise", "sigma 0.1"): (0.5, 0.895),
    ("score_noise", "sigma 1"): (0.2, 0.4),
    ("score_rounding", "0 decimals"): (0.4, 0.9),
    ("class_label", ""): (0.4, 0.9),
    ("purification", "real scores"): (0.5, 0.9),
    ("purification", "random scores"): (0.4, 0.9),
}
_OTHERWISE = {
    ("none", ""): (0.8, 0.9),
    ("psi", ""): (0.7, 0.9),
    ("dp_sgd", "epsilon 10"): (0.3, 0.88),
    ("dp_sgd", "epsilon 0.1"): (0.85, 0.9),
    ("score_noise", "sigma 0.1"): (0.8, 0.7),
    ("score_noise", "sigma 1"): (0.2, 0.9),
    ("score_rounding", "0 decimals"): (0.8, 0.6),
    ("class_label", ""): (0.8, 0.6),
    ("purification", "real scores"): (0.8, 0.6),
    ("purification", "random scores"): (0.8, 0.6),
}


def _frame(measures: dict[tuple[str, str], tuple[float, float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "defence": defence,
                "option": option,
                "access": access,
                "start": start,
                "attack_accuracy": attack + 0.01 * start,
                "model_accuracy": model,
                "mse": 0.1,
                "federation_part": 0.25,
            }
            for (defence, option), (attack, model) in measures.items()
            for access in ("white box", "black box")
            for start in range(3)
        ]
    ).assign(dataset="wine", model="linear", adversary="inversion", r=0.5, seed=0, status="done")


@pytest.mark.parametrize(("measures", "verdict"), [(_AS_THE_PAPER, "reproduced"), (_OTHERWISE, "differs")])
def test_statements_follow_the_numbers(measures: dict[tuple[str, str], tuple[float, float]], verdict: str) -> None:
    statements = trade_off_statements(_frame(measures))
    linear = statements[: len(statements) // 2]
    # What the paper says may be isn't refuted where it isn't seen.
    expected = {one.paper: "not seen" if " may " in one.paper and verdict == "differs" else verdict for one in linear}
    assert {one.paper: one.verdict for one in linear} == expected
    assert {one.verdict for one in statements[len(linear) :]} == {"not measured"}


def test_a_defence_that_protects_at_a_cost_is_in_part_a_balance() -> None:
    found = trade_off_statements(_frame({**_AS_THE_PAPER, ("class_label", ""): (0.4, 0.7)}))
    label = next(one for one in found if one.paper.startswith("Only returning the label"))
    assert label.verdict == "in part"
    assert label.reason


def test_notes_say_what_the_knowing_adversary_has_left() -> None:
    ours = _frame({("none", ""): (0.8, 0.9)}).assign(adversary="posterior, half")
    notes = list(trade_off_notes(ours))
    assert "none 25%" in notes[0]
    assert any("opacus" in note for note in notes)


@pytest.mark.slow("it trains under each defence")
def test_a_tiny_run_measures_every_defence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("opacus")
    monkeypatch.setattr(section, "threshold", lambda *_: 15)
    monkeypatch.setattr(section, "_KINDS", ("linear",))
    splits = Splits((0.5,), windows=1, steps=5, shadow_steps=5)
    monkeypatch.setattr(section, "_QUICK", section._Plan(("wine",), splits, epsilons=(10.0,), draws=2, records=10))
    found = section.trade_offs(StudyRun(SweepOptions(workers=1), quick=True, defences=(Choice.of("score_scheme3"),)))
    data = found.data
    assert set(data["status"]) <= {"done", "not applicable"}
    inverted = data[data["adversary"] == "inversion"]
    assert set(inverted["status"]) == {"done"}
    assert {"psi", "dp_sgd", "purification", "class_label", "score_scheme3"} <= set(inverted["defence"])
    psi, none = (inverted[inverted["defence"] == one].reset_index() for one in ("psi", "none"))
    pd.testing.assert_series_equal(psi["mse"], none["mse"])
    # Who knows the defence can't know a purifier that was trained on a private history.
    private = data[(data["option"] == "real scores") & (data["adversary"] == "posterior, half")]
    assert set(private["status"]) == {"not applicable"}
    assert [plot.name for plot in found.plots] == ["trade-offs-linear-attack-accuracy", "trade-offs-linear-mse"]
    assert [len(plot.panels) for plot in found.plots] == [2, 2]
    assert next(one for one in found.statements if one.paper.startswith("PSI")).verdict == "reproduced"
    found.data.to_parquet(tmp_path / "data.parquet")


def test_windows_that_disagree_do_not_show_that_a_defence_fails() -> None:
    frame = _frame(_AS_THE_PAPER)
    own = frame["option"] == "epsilon 10"
    frame.loc[own, "attack_accuracy"] = frame.loc[own, "start"].map({0: 0.9, 1: 0.8, 2: 0.3})
    large = next(one for one in trade_off_statements(frame) if one.paper.startswith("With a large budget"))
    assert large.verdict == "differs"
