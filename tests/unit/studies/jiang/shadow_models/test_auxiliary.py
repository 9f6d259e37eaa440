"""Figure 12: statements each way on made-up numbers, and a tiny run with made-up records."""

from pathlib import Path

import pandas as pd
import pytest

from studies.jiang.shadow_models import auxiliary as section
from studies.jiang.shadow_models.auxiliary import MADE_UP, ORIGINAL, auxiliary_statements
from studies.jiang.splits import SplitPlan, Splits
from studies.measurements import SweepOptions
from studies.study import StudyRun


def _frame(made: dict[float, float], real: dict[float, float], random: float) -> pd.DataFrame:
    """Attack accuracies of three windows by r: of made-up and real auxiliary records, and of a random guess."""
    shadows: list[tuple[str, float, float]] = [(one, r, value) for one in MADE_UP for r, value in made.items()]
    shadows += [(ORIGINAL, r, value) for r, value in real.items()]
    rows = [("shadow", *one) for one in shadows] + [("random guess", ORIGINAL, r, random) for r in real]
    return pd.DataFrame(
        [
            {"adversary": who, "distribution": of, "r": r, "attack_accuracy": value + 0.01 * start, "start": start}
            for who, of, r, value in rows
            for start in range(3)
        ]
    ).assign(dataset="wine", model="linear", seed=0, status="done", mse=0.1, n=13)


def test_what_the_paper_found_is_reproduced() -> None:
    statements = auxiliary_statements(_frame({0.1: 0.88, 0.9: 0.5}, {0.1: 0.9, 0.9: 0.7}, random=0.2))
    assert [one.verdict for one in statements] == ["reproduced"] * 3


def test_the_opposite_differs() -> None:
    statements = auxiliary_statements(_frame({0.1: 0.8, 0.9: 0.8}, {0.1: 0.7, 0.9: 0.7}, random=0.75))
    assert [one.verdict for one in statements] == ["not seen", "differs", "differs"]
    assert all(one.reason for one in statements)


def test_a_tiny_run_has_four_distributions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(
        section, "_QUICK", SplitPlan(("breast_cancer",), Splits((0.2,), windows=1, steps=50, shadow_steps=400))
    )
    monkeypatch.setattr(section, "RECORDS", 50)
    monkeypatch.setattr(section, "_DRAWS", 5)
    found = section.auxiliary(StudyRun(SweepOptions(workers=1), quick=True))
    assert set(found.data["status"]) == {"done"}
    errors = found.data[found.data["adversary"] == "shadow"].set_index("distribution")["mse"]
    assert set(errors.index) == {ORIGINAL, *MADE_UP}
    # Other records make another shadow.
    assert errors.nunique() == len(errors)
    assert [one.verdict != "not measured" for one in found.statements] == [True] * 3
    assert [panel.title for panel in found.plots[0].panels] == ["breast_cancer, n = 30"]
    found.data.to_parquet(tmp_path / "data.parquet")
