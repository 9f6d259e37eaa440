"""Every section of the study in a tiny plan, on data that scikit-learn brings: no raw file is needed."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest

from studies.claims.statement import Statement
from studies.measurements import Choice, SweepOptions
from studies.page.panel_charts import document
from studies.page.section import Section
from studies.study import StudyRun
from studies.varasteh.rivals import (
    BY_SCORES,
    HALF,
    HALF_STAR,
    KNOWS_RECORDS,
    OURS,
    OWN_MODEL,
    PUBLISHED,
    Rival,
    brought,
    widths,
)
from studies.varasteh.study import STUDY

pytest.importorskip("torch")

# Sizes in which each section's plan is tried.
TINY = {
    "moments": {"datasets": ("wine",), "seeds": 1},
    "agnostic": {"datasets": ("wine",), "sizes": 1, "windows": 2, "records": 12},
    "refined": {"datasets": ("breast_cancer",), "sizes": 1, "windows": 1, "records": 10},
    "covariance": {"datasets": ("wine",), "sizes": 1, "windows": 1, "records": 12},
    "accuracy": {"datasets": ("wine",), "sizes": 2, "windows": 1, "records": 12},
    "trade_offs": {"datasets": ("wine",), "epsilons": (0.0, 0.1), "windows": 1, "records": 12},
    "levels": {"datasets": ("wine",), "sizes": 1, "windows": 1, "records": 12, "epsilons": (0.1,)},
    "epsilon": {"datasets": ("wine",), "epsilons": (0.0, 0.1), "far": (5.0,), "windows": 1, "records": 12},
    "secrets": {"datasets": ("breast_cancer",), "draws": 2},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cells")


@pytest.fixture
def run(store: Path) -> StudyRun:
    return StudyRun(SweepOptions(store=store, workers=1), quick=True)


def made(name: str, run: StudyRun, monkeypatch: pytest.MonkeyPatch) -> Section:
    """A section in its tiny plan; knowledge is of 20 records, where the paper's hundred would leave none to attack."""
    module = import_module(STUDY.sections[name].partition(":")[0])
    plan = "_QUICK" if hasattr(module, "_QUICK") else "QUICK"
    monkeypatch.setattr(module, plan, replace(getattr(module, plan), **TINY[name]))
    if name == "epsilon":
        monkeypatch.setattr(module, "MORE_CLASSES", ("wine",))
    for words in ("PUBLISHED", "OURS"):
        if hasattr(module, words):
            monkeypatch.setattr(module, words, tuple(with_less(one) for one in getattr(module, words)))
    section: Section = getattr(module, STUDY.sections[name].partition(":")[2])(run)
    return section


def with_less(rival: Rival) -> Rival:
    return replace(rival, delivered=min(rival.delivered, 20), auxiliary=min(rival.auxiliary, 20))


def test_the_tiny_plans_are_those_of_all_sections() -> None:
    assert set(TINY) == set(STUDY.sections)


@pytest.mark.parametrize("name", STUDY.sections)
def test_a_section_is_measured_drawn_and_judged(name: str, run: StudyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    section = made(name, run, monkeypatch)
    assert section.name == name
    assert set(section.data["status"]) == {"done"}, section.data["reason"].unique()
    assert len(section.summary)
    assert section.statements
    assert all(isinstance(one, Statement) for one in section.statements)
    assert section.plots or section.maps or name == "secrets"
    assert all(plot.panels and plot.caption for plot in section.plots)


@pytest.mark.parametrize("name", STUDY.sections)
def test_without_raw_data_a_section_says_what_is_missing(name: str, run: StudyRun) -> None:
    module, _, function = STUDY.sections[name].partition(":")
    section = getattr(import_module(module), function)(run)
    assert not len(section.data)
    assert any("is skipped" in note for note in section.notes)
    assert {one.verdict for one in section.statements} <= {"not measured"}


def test_half_star_errs_least_of_the_published_and_known_answers_hold(
    run: StudyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = made("agnostic", run, monkeypatch)
    errors = section.data.groupby("curve")["mse"].mean()
    assert errors[HALF_STAR] <= errors[HALF]
    assert {rival.label for rival in (*PUBLISHED, *OURS)} == set(errors.index)
    # One passive column of three classes: exact scores give it away.
    assert errors[HALF_STAR] < 1e-9
    assert errors[OWN_MODEL] > 1e-6
    assert errors[BY_SCORES] > 1e-6
    assert errors[KNOWS_RECORDS] < 1e-6


def test_a_plugin_has_a_curve_of_its_own(run: StudyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    with_one = replace(run, attacks=(Choice.of("rcc2"),), defences=(Choice.of("score_rounding", decimals=1),))
    section = made("agnostic", with_one, monkeypatch)
    assert "rcc2" in set(section.data["curve"])
    assert "rcc2" in document(section.plots[0])
    levels = made("levels", with_one, monkeypatch)
    assert {"rcc2", "half*, score_rounding(decimals=1)"} <= set(levels.data["curve"].dropna())


def test_plugins_are_given_what_they_need() -> None:
    records, moments, neither = brought(
        [Choice.of("imputation"), Choice.of("posterior", prior="covariance"), Choice.of("rcc2")]
    )
    assert (records.auxiliary > 0, records.moments) == (True, False)
    assert (moments.auxiliary > 0, moments.moments) == (False, True)
    assert (neither.auxiliary > 0, neither.moments) == (False, False)


def test_widths_reach_from_one_column_to_all_but_one() -> None:
    assert widths(4, 10) == (1, 2, 3)
    assert widths(13, 3) == (1, 6, 12)
    assert widths(13, 1) == (1,)


def test_the_same_arguments_give_the_same_section(run: StudyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a section on the same attacks the same numbers."""
    first, again = (made("agnostic", run, monkeypatch) for _ in range(2))
    pd.testing.assert_frame_equal(first.data, again.data)
    assert again.plots == first.plots
    keys = ["dataset", "d", "seed", "start", "curve", "mse"]
    shared = made("covariance", run, monkeypatch).data.dropna(subset=["curve"])
    assert len(shared) > 1
    assert set(map(tuple, shared[keys].to_numpy())) <= set(map(tuple, first.data[keys].to_numpy()))
