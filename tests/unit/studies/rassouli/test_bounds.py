"""Theorems on every window, run in quick form on synthetic data, and one window against what is known of it."""

import numpy as np
import pytest

pytest.importorskip("torch")

from studies.measurements import SweepOptions
from studies.page.section import Section
from studies.rassouli.bounds import COUNTS, bounds_section, theory_at
from studies.rassouli.windowed import model_of
from studies.simulation.linear_models import TrainedModel
from studies.study import StudyRun
from tests.harness.prepared import prepare


@pytest.fixture(scope="module")
def section() -> Section:
    return bounds_section(StudyRun(SweepOptions(workers=1), quick=True))


def test_nothing_is_violated(section: Section) -> None:
    assert section.data[["violations", "out_of_bounds"]].to_numpy().sum() == 0
    assert (section.data["infeasible"] < 1e-6).all()
    verdicts = [one.verdict for one in section.statements if one.source.startswith(("Theorem", "Remark", "Prop"))]
    assert verdicts == ["reproduced"] * 7


def test_chebyshev_bounds_how_often_few_predictions_are_far(section: Section) -> None:
    far, bound = (np.array(section.data[column].tolist()) for column in ("far", "chebyshev"))
    assert far.shape == (len(section.data), len(COUNTS))
    assert (far <= bound + 0.1).all()
    assert far[:, 0].max() > far[:, -1].max()


def test_one_feature_is_settled_by_one_equation() -> None:
    model: TrainedModel = prepare(model_of("synthetic", 0, rows=4000), None)
    found = theory_at(model, d=1, start=3, records=50, centres=True)
    assert found["rank"] == 1
    assert found["half_star"] == found["half_star_upper"] == 0
    assert found["far"] == [0.0] * len(COUNTS)


def test_the_drawings_have_bounds_and_what_happened(section: Section) -> None:
    bounds, convergence = section.plots
    assert {curve.label for curve in bounds.panels[0].curves} >= {"empirical", "closed form", "upper bound"}
    assert convergence.panels[0].curves[0].x == COUNTS
