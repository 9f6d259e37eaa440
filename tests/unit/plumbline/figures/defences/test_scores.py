"""The section "scores", run in quick form: what must hold whatever the data, and that it repeats bit for bit."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

from plumbline.figures.defences.scores import scores_section
from plumbline.figures.page.section import Section
from plumbline.figures.study import StudyRun
from plumbline.simulation.score_measures import mean_divergence
from plumbline.sweep import SweepOptions


@pytest.fixture(scope="module")
def section() -> Section:
    return scores_section(StudyRun(SweepOptions(), quick=True))


def rows(section: Section, **where: object) -> pd.DataFrame:
    chosen = section.data
    for column, value in where.items():
        chosen = chosen[chosen[column] == value]
    assert len(chosen)
    return chosen


def test_what_alignment_does_is_nothing(section: Section) -> None:
    measured = ["model", "access", "model_accuracy", "attack_error", "attack_accuracy", "kl"]
    with_it, without = (rows(section, defence=name)[measured].reset_index(drop=True) for name in ("psi", "none"))
    without = without[without["attack_accuracy"].notna()].reset_index(drop=True)
    pd.testing.assert_frame_equal(with_it, without, check_exact=True)


def test_the_label_keeps_model_accuracy_and_much_noise_does_not(section: Section) -> None:
    inverted = {"experiment": "privacy-utility"}
    for model in ("linear", "network"):
        none = rows(section, defence="none", model=model, **inverted)["model_accuracy"].to_numpy()
        label = rows(section, defence="class_label", model=model, **inverted)["model_accuracy"].to_numpy()
        np.testing.assert_array_equal(label, none)
        noisy = rows(section, defence="score_noise", option="sigma 1.0", model=model, **inverted)
        assert (noisy["model_accuracy"].to_numpy() < none - 0.1).all()


def test_the_page_has_a_table_plots_and_verdicts(section: Section) -> None:
    assert section.name == "scores"
    assert [plot.name for plot in section.plots] == ["scores-linear", "scores-network"]
    assert all(plot.svg.count("<svg") == 1 for plot in section.plots)
    assert {"privacy-utility"} == set(section.summary["experiment"])
    assert any("all measurements are equal" in note for note in section.notes)
    assert any("takes the place of satellite" in note for note in section.notes)
    assert sum("eproduced, counting" in note for note in section.notes) == 6


def test_the_same_arguments_give_the_same_bytes(section: Section) -> None:
    again = scores_section(StudyRun(SweepOptions(), quick=True))
    pd.testing.assert_frame_equal(again.data, section.data, check_exact=True)
    assert [plot.svg for plot in again.plots] == [plot.svg for plot in section.plots]
    assert again.notes == section.notes


def test_divergence_known_answers() -> None:
    scores = np.array([[0.5, 0.5], [1.0, 0.0]])
    assert mean_divergence(scores, scores) == 0
    # Delivered rows count as if normalised; a score that was 0 adds nothing.
    assert mean_divergence(scores, np.array([[0.25, 0.75], [2.0, 2.0]])) == pytest.approx(
        (0.5 * np.log(2) + 0.5 * np.log(2 / 3) + np.log(2)) / 2
    )
    assert mean_divergence(scores, np.array([[1.0, 0.0], [1.0, 0.0]])) == np.inf
    assert mean_divergence(scores[:1], np.zeros((1, 2))) == 0  # zeros say as much as uniform scores
