"""Figure 11: tau by hand, statements each way on made-up numbers, and a tiny run."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import pytest

from studies.claims.statement import Statement
from studies.jiang.shadow_models import shadow as section
from studies.jiang.shadow_models.shadow import records_at, shadow_statements
from studies.jiang.splits import Splits, threshold
from studies.measurements import Choice, SweepOptions
from studies.study import StudyRun


def test_tau_by_hand() -> None:
    # LR: a record per unknown feature (eq. 21). Networks: all weights and biases of 36-8-8-6 over 6 scores (eq. 22).
    assert threshold("bank_all") == 20
    assert threshold("robot") == 24
    assert threshold("satellite", (8, 8)) == -(-(36 * 8 + 8 + 8 * 8 + 8 + 8 * 6 + 6) // 6) == 71
    assert threshold("drive", (8, 8)) == -(-(48 * 8 + 8 + 8 * 8 + 8 + 8 * 11 + 11) // 11) == 52


@pytest.mark.parametrize(
    ("share", "tau", "n"), [(0.1, 20, 2), (0.25, 20, 5), (0.25, 71, 18), (0.1, 24, 3), (1.0, 52, 52)]
)
def test_shares_of_tau_are_rounded_up(share: float, tau: int, n: int) -> None:
    assert records_at(share, tau) == n


def _frame(
    shadows: dict[float, float], *, white: float, random: float, n: int = 5, model: str = "linear"
) -> pd.DataFrame:
    """Errors of three windows, a little apart, by shares of tau."""
    rows = [
        {"adversary": adversary, "share": share, "n": n if share else 0, "mse": error + 0.01 * start, "start": start}
        for adversary, share, error in [
            *(("shadow", share, error) for share, error in shadows.items()),
            ("white box", 0.0, white),
            ("random guess", 0.0, random),
        ]
        for start in range(3)
    ]
    return pd.DataFrame(rows).assign(dataset="wine", model=model, r=0.5, seed=0, status="done")


def _verdicts(statements: Sequence[Statement]) -> list[str]:
    return [one.verdict for one in statements]


def test_what_the_paper_found_is_reproduced() -> None:
    frame = _frame({0.1: 0.3, 0.25: 0.12, 0.5: 0.11, 1.0: 0.1}, white=0.1, random=0.3)
    statements = shadow_statements(frame)
    assert _verdicts(statements) == ["reproduced"] * 3 + ["not measured"] * 3
    assert not any(one.reason for one in statements)
    assert "5 records" in statements[2].measured


def test_the_opposite_differs() -> None:
    frame = _frame({0.1: 0.2, 0.25: 0.3, 0.5: 0.4, 1.0: 0.5}, white=0.1, random=0.15, n=30)
    statements = shadow_statements(frame)
    assert _verdicts(statements)[:3] == ["differs"] * 3
    assert all(one.reason for one in statements[:3])


def test_few_records_are_counted_by_model() -> None:
    errors = {0.1: 0.3, 0.25: 0.12, 0.5: 0.11, 1.0: 0.1}
    linear, network = (_frame(errors, white=0.1, random=0.3, n=18, model=kind) for kind in ("linear", "network"))
    assert shadow_statements(linear)[2].verdict == "in part"
    assert shadow_statements(network)[5].verdict == "reproduced"


def test_a_shadow_as_good_as_the_white_box_has_nothing_to_gain() -> None:
    falling = shadow_statements(_frame({0.25: 0.3, 0.5: 0.1, 1.0: 0.1}, white=0.1, random=0.3))[0]
    assert falling.verdict == "in part"
    assert "as good as the white box already" in falling.reason


def test_a_fall_that_windows_cannot_tell_from_chance_is_ours() -> None:
    frame = _frame({0.25: 0.3, 1.0: 0.29}, white=0.1, random=0.3)
    frame.loc[(frame["share"] == 1.0) & (frame["start"] == 0), "mse"] += 0.02
    falling = shadow_statements(frame)[0]
    assert falling.verdict == "differs"
    assert falling.reason.startswith("Ours: the mean falls")


def test_a_tiny_run_measures_all_adversaries(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    splits = Splits((0.3,), windows=1, steps=20, shadow_steps=20)
    plan = replace(section._QUICK, linear=(("breast_cancer",), splits), network=(("breast_cancer",), splits))
    monkeypatch.setattr(section, "_QUICK", replace(plan, shares=(0.25,), draws=5))
    monkeypatch.setattr(section, "RECORDS", 10)
    found = section.shadow(StudyRun(SweepOptions(workers=1), quick=True, attacks=(Choice.of("half_star"),)))
    assert set(found.data["status"]) <= {"done", "not applicable"}
    measured = found.data[found.data["status"] == "done"]
    assert {"shadow", "posterior", "imputation", "white box", "random guess"} <= set(measured["adversary"])
    assert set(measured["model"]) == {"linear", "network"}
    known = found.data[found.data["adversary"] == "shadow"].set_index("model")["n"]
    assert known["linear"] == records_at(0.25, threshold("breast_cancer"))
    assert known["network"] == records_at(0.25, threshold("breast_cancer", (8, 8)))
    assert [panel.title for panel in found.plots[0].panels] == [
        "breast_cancer, LR, tau = 30",
        f"breast_cancer, networks, tau = {threshold('breast_cancer', (8, 8))}",
    ]
    assert len(found.statements) == 6


def test_data_sets_that_are_missing_are_named() -> None:
    found = section.shadow(StudyRun(SweepOptions(workers=1), quick=True))
    assert found.data.empty
    assert any("robot is skipped" in note for note in found.notes)
    assert {one.verdict for one in found.statements} == {"not measured"}
