"""The earlier version: every item of its table is judged by a measurement."""

from io import BytesIO

import numpy as np
import pytest

pytest.importorskip("torch")

from studies.measurements import SweepOptions
from studies.rassouli.earlier import earlier_section, systems_at
from studies.simulation.linear_models import TrainedModel
from studies.study import StudyRun


def model_with(classes: int, columns: int) -> TrainedModel:
    drawn = np.random.default_rng(3)
    features = drawn.random((60, columns))
    weights, bias = drawn.standard_normal((classes, columns)), drawn.standard_normal(classes)
    labels = np.arange(60) % classes
    return TrainedModel("made up", features, labels, weights, bias, features, labels)


def test_combinations_of_equations_agree_but_for_a_tall_pseudoinverse() -> None:
    model = model_with(classes=4, columns=6)
    wide, tall = systems_at(model, d=5, start=0), systems_at(model, d=2, start=4)
    for found in (wide, tall):
        assert found["same_equations"] == 0
        assert found["moved"] < 1e-9
        assert found["violations"] == 0
    assert not wide["tall"]
    assert wide["pseudoinverse"] < 1e-9
    assert tall["tall"]
    assert tall["pseudoinverse"] > 0.01


@pytest.mark.slow("each item of the table is measured, if quickly")
def test_every_item_has_a_measurement() -> None:
    section = earlier_section(StudyRun(SweepOptions(workers=1), quick=True))
    table = section.summary.set_index("item")
    assert list(table.index) == ["Equations", "Remark 1", "Remark 3", "Theorem 1", "Literature", "Schemes"]
    assert table["measured here"].str.startswith(("reproduced: ", "in part: ")).all()
    assert {one.verdict for one in section.statements} == {"reproduced"}  # two classes: A is never tall
    assert set(section.data["item"]) == {"systems", "attacks", "transform", "schemes"}
    # A page's data are a Parquet file.
    section.data.to_parquet(BytesIO())
