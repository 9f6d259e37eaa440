"""Figures 2 and 3 show what they say they do, and eq. 94 loses decisions where it ties."""

import numpy as np
import pytest

pytest.importorskip("torch")

from studies.measurements import SweepOptions
from studies.rassouli.printed import _example, as_printed, printed_section
from studies.study import StudyRun
from tests.unit.studies.rassouli.test_earlier import model_with


def test_the_example_is_a_polygon_of_solutions_and_its_exact_centre() -> None:
    example = _example()
    corners, exact = example["corners"], example["exact"]
    assert len(corners) == 5
    np.testing.assert_allclose(corners @ [1, -0.8, 0.5], 0.15, atol=1e-12)
    assert ((corners >= 0) & (corners <= 1)).all()
    # At least two corners are as far as any, and no step makes all of them nearer.
    distances = np.linalg.norm(corners - exact, axis=1)
    assert (distances > distances.max() - 1e-4).sum() >= 2
    drawn = np.random.default_rng(0)
    for step in drawn.normal(scale=1e-2, size=(200, 3)):
        assert np.linalg.norm(corners - exact - step, axis=1).max() > distances.max() - 1e-6
    assert not ((example["ls"] >= 0) & (example["ls"] <= 1)).all()


def test_decisions_that_tie_are_lost_where_the_first_of_equals_is_another() -> None:
    found = as_printed(model_with(classes=4, columns=6), d=5, start=0)
    kept, tied = np.array(found["kept"]), np.array(found["tied"])
    assert (1 - kept <= tied).all()
    assert kept.min() < 1
    assert kept[0] > kept[-1] or kept[1] > kept[-2]


def test_the_section_measures_and_draws() -> None:
    section = printed_section(StudyRun(SweepOptions(workers=1), quick=True))
    assert [plot.name for plot in section.plots] == ["figure-2", "figure-3", "eq-94"]
    assert section.statements[0].verdict == "reproduced"
    assert set(section.data["alpha"]) == {0.25, 1.0, 4.0, 16.0, 64.0, 256.0}
