"""Figure 13: statements each way on made-up numbers, and a tiny run."""

import pandas as pd
import pytest

from studies.jiang.shadow_models import structures as section
from studies.jiang.shadow_models.structures import GUESSED, structure_statements, structure_words
from studies.jiang.splits import SplitPlan, Splits
from studies.measurements import SweepOptions
from studies.study import StudyRun


def _frame(errors: dict[str, float]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"structure": structure, "mse": error + 0.01 * start, "start": start}
            for structure, error in errors.items()
            for start in range(3)
        ]
    ).assign(dataset="wine", model="network", adversary="shadow", r=0.5, seed=0, status="done")


def test_structures_in_words() -> None:
    assert [structure_words(one) for one in GUESSED] == ["LR", "8", "8-8", "8-8-8", "4-4", "16-16"]


@pytest.mark.parametrize(
    ("errors", "verdicts"),
    [
        (
            {"LR": 0.3, "8": 0.105, "8-8": 0.1, "8-8-8": 0.2, "4-4": 0.104, "16-16": 0.103},
            ["reproduced", "reproduced", "reproduced", "reproduced"],
        ),
        (
            {"LR": 0.05, "8": 0.05, "8-8": 0.1, "8-8-8": 0.09, "4-4": 0.06, "16-16": 0.07},
            ["differs", "differs", "differs", "not seen"],
        ),
        ({"LR": 0.3, "8-8": 0.1}, ["reproduced", "reproduced", "not measured", "not measured"]),
    ],
)
def test_statements_follow_the_numbers(errors: dict[str, float], verdicts: list[str]) -> None:
    assert [one.verdict for one in structure_statements(_frame(errors))] == verdicts


def test_a_tiny_run_guesses_every_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(
        section, "_QUICK", SplitPlan(("breast_cancer",), Splits((0.1,), windows=1, steps=5, shadow_steps=5))
    )
    monkeypatch.setattr(section, "RECORDS", 10)
    # tau is more than this data set holds out.
    monkeypatch.setattr(section, "threshold", lambda *_: 20)
    found = section.structures(StudyRun(SweepOptions(workers=1), quick=True))
    assert set(found.data["status"]) == {"done"}
    shadows = found.data[found.data["adversary"] == "shadow"]
    assert list(shadows["structure"]) == [structure_words(one) for one in GUESSED]
    assert shadows["mse"].nunique() == len(GUESSED)
    assert {one.verdict for one in found.statements} <= {"reproduced", "differs", "in part"}
