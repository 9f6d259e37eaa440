"""``plumbline figures``: the options that all studies share, and how a run ends."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plumbline.cli import app
from studies.catalogue import STUDIES, StudyEntry, StudyOption
from studies.cli import papers
from studies.figures import running
from studies.study import StudyRun
from tests.harness import made_up_study
from vfl.data import dataset_names

RUNNER = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})


def call(*arguments: str) -> tuple[int, str]:
    # In this process: others would take longer to start than these measurements take.
    done = RUNNER.invoke(app, ["figures", *arguments, "--workers", "1"])
    return done.exit_code, done.output


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_lists_its_sections_and_has_an_example(name: str) -> None:
    from studies.catalogue import load_study

    status, text = call(name, "--help")
    assert status == 0
    assert f"plumbline figures {name}" in text
    assert all(section in text for section in load_study(name).sections)


def test_an_unknown_section_is_refused_before_anything_runs(tmp_path: Path) -> None:
    status, text = call("defences", "--section", "matrx", "--out", str(tmp_path / "out"))
    assert status == 2
    assert "Did you mean 'matrix'?" in text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["a file", "/proc/nowhere", "/proc"])
def test_a_place_that_cannot_be_written_to_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(running, "_function", lambda name: pytest.fail("something ran"))
    out = tmp_path / place
    if place == "a file":
        out.write_text("")
    status, text = call("defences", "--out", str(out))
    assert status == 2
    assert f"Cannot use {out} (" in text
    assert "Errno" not in text
    assert "choose a place that you can write to" in text


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The made-up study in place of the defences, in an empty folder."""
    monkeypatch.setattr(papers, "load_study", lambda name: made_up_study.STUDY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_figures_are_drawn_without_matplotlib(made_up: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _ = call("defences", "--quick", "--section", "curves")
    assert status == 0
    assert list((made_up / "runs/figures/defences").glob("*.svg"))


def test_a_run_writes_its_page_and_refreshes_the_index(made_up: Path) -> None:
    status, text = call("defences", "--quick", "--seed", "3", "--section", "numbers", "--with", "imputation")
    assert status == 0
    assert "Report: runs/figures/defences/made_up.html" in text
    assert "All studies: runs/figures/index.html" in text
    stored = json.loads((made_up / "runs/figures/defences/made_up.json").read_text())["sections"]["numbers"]
    assert stored["settings"]["seed"] == 3
    assert stored["settings"]["quick"]
    assert stored["settings"]["brought"] == ["imputation"]
    assert "imputation is in none of these sections" in text


def test_what_was_brought_along_and_drawn_is_not_said_to_be_missing(made_up: Path) -> None:
    status, text = call("defences", "--quick", "--with", "imputation")
    assert status == 0
    assert "none of these sections" not in text


def test_elsewhere_no_index_is_touched(made_up: Path) -> None:
    status, _ = call("defences", "--quick", "--section", "numbers", "--out", "elsewhere/mine")
    assert status == 0
    assert not (made_up / "elsewhere/index.html").exists()
    assert not (made_up / "runs/figures").exists()


@pytest.mark.parametrize("words", ["--with=imputatin", "--with=feature_order"])
def test_what_cannot_be_drawn_is_refused_in_a_sentence(made_up: Path, words: str) -> None:
    status, text = call("defences", words)
    assert status == 2
    assert "Did you mean 'imputation'?" in text or "attack on training" in text


def test_failed_measurements_show_in_the_exit_status(made_up: Path) -> None:
    status, text = call("defences", "--quick", "--section", "numbers", "--seed", "13")
    assert status == 1
    assert "13 is not doubled." in text


def test_a_failed_section_shows_in_the_exit_status(made_up: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(papers, "load_study", lambda name: made_up_study.BROKEN)
    status, text = call("defences", "--quick")
    assert status == 1
    assert "broken failed; the page says why." in text


def test_ctrl_c_ends_in_a_sentence(made_up: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(run: StudyRun) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "_function", lambda place: stopped)
    status, text = call("defences")
    assert status == 130
    assert "Interrupted: finished sections are in runs/figures/defences" in text
    assert "Traceback" not in text


def test_a_study_may_have_options_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    options = (
        StudyOption("wire", False, "On the wire."),
        StudyOption("seeds", 5, "How many."),
        StudyOption("datasets", (), "Which."),
    )
    taken: dict[str, object] = {}
    monkeypatch.setattr(papers, "_run", lambda entry, own, **given: taken.update(own))
    papers._command_of("made_up", StudyEntry("nowhere", "Helps.", "", options=options))(
        wire=True, seeds=2, datasets=["bank"]
    )
    assert taken == {"wire": True, "seeds": 2, "datasets": ("bank",)}
    kinds = [papers._parameter(one).default for one in options]
    assert kinds == [False, 5, None]


def test_the_list_of_data_sets_says_what_is_there_and_who_reads_it(tmp_path: Path) -> None:
    (tmp_path / "drive").mkdir()
    (tmp_path / "drive" / "Sensorless_drive_diagnosis_sample2200.txt").write_text("")
    done = RUNNER.invoke(app, ["datasets", "--data-dir", str(tmp_path), "--json"])
    facts = {one["name"]: one for one in json.loads(done.output)}
    assert facts["drive"]["sample"] == 2200
    assert not facts["drive"]["missing"]
    assert facts["satellite"]["missing"] == ["sat.trn", "sat.tst"]
    assert "rassouli" in facts["satellite"]["figures"]
    shown = RUNNER.invoke(app, ["datasets", "--data-dir", str(tmp_path)]).output
    assert "2,200 rows" in shown
    assert "fetch it" in shown


@pytest.mark.parametrize("name", STUDIES)
def test_the_data_sets_of_a_study_are_registered(name: str) -> None:
    assert set(STUDIES[name].datasets) <= set(dataset_names())
