"""How any study is run: its sections in order, what is kept of a failure, what a terminal says."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from studies.catalogue import STUDIES, load_study
from studies.claims.statement import Statement
from studies.figures import running
from studies.figures.running import StudyProgress, run_study
from studies.measurements import SweepOptions
from studies.study import StudyRun
from tests.harness.made_up_study import BROKEN, STARVED, STUDY, files_in

RUN = StudyRun(SweepOptions(workers=1), quick=True)


def console() -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=200), text


def test_chosen_sections_run_in_the_order_given_and_are_written(tmp_path: Path) -> None:
    shown, text = console()
    outcome = run_study(STUDY, tmp_path, RUN, sections=["numbers", "curves", "numbers"], command="typed", console=shown)
    assert outcome.written == ("numbers", "curves")
    assert not outcome.failures
    assert not outcome.left_out
    assert {"made_up.html", "made_up.json", "made_up-curves.parquet", "made_up-curves-attacks.svg"} <= files_in(
        tmp_path
    )
    stored = json.loads((tmp_path / "made_up.json").read_text())["sections"]
    assert stored["curves"]["settings"]["cells"]["measured"] == 4
    assert stored["curves"]["settings"]["command"] == "typed"
    assert stored["curves"]["statements"][0]["verdict"] == "reproduced"
    said = text.getvalue()
    assert "numbers (1 of 2), 0%" in said
    assert "curves (2 of 2), 50%" in said
    assert "4 measurements made, 0 known, 1 reproduced" in said


def test_a_section_that_fails_leaves_its_reason_and_the_others_go_on(tmp_path: Path) -> None:
    shown, text = console()
    outcome = run_study(BROKEN, tmp_path, RUN, console=shown)
    assert outcome.written == ("numbers",)
    assert "ZeroDivisionError" in outcome.failures["broken"]
    assert "Traceback" in (tmp_path / "made_up-broken-failure.txt").read_text()
    assert "nothing there to divide by" in outcome.page.read_text()
    assert "broken: failed. Something unexpected" in text.getvalue()


def test_a_section_whose_measurements_failed_says_why_they_did(tmp_path: Path) -> None:
    shown, text = console()
    outcome = run_study(STARVED, tmp_path, RUN, console=shown)
    expected = "unfurnished: It needs torch, which isn't here: pip install 'plumbline[lab]'."
    assert expected in outcome.failures["starved"]
    assert f"starved: failed. Its measurements failed, the first of them {expected}" in " ".join(
        text.getvalue().split()
    )
    assert "Traceback" in (tmp_path / "made_up-starved-failure.txt").read_text()


def test_a_measurement_that_fails_is_said_and_keeps_the_section(tmp_path: Path) -> None:
    outcome = run_study(STUDY, tmp_path, replace(RUN, seed=12), sections=["numbers"], console=console()[0])
    assert outcome.written == ("numbers",)
    (words,) = outcome.left_out
    assert words == "numbers: twice: ValueError: 13 is not doubled."
    assert "13 is not doubled." in outcome.page.read_text()


def test_what_is_done_stays_when_a_later_section_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(run: StudyRun) -> None:
        raise KeyboardInterrupt

    before = running._function
    monkeypatch.setattr(running, "_function", lambda place: stopped if "curves" in place else before(place))
    with pytest.raises(KeyboardInterrupt):
        run_study(STUDY, tmp_path, RUN, sections=["numbers", "curves"], console=console()[0])
    assert list(json.loads((tmp_path / "made_up.json").read_text())["sections"]) == ["numbers"]


@pytest.mark.parametrize(("sections", "message"), [(["curve"], "Did you mean 'curves'"), ([], "No section")])
def test_bad_sections_are_refused_before_anything_runs(tmp_path: Path, sections: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        run_study(STUDY, tmp_path / "out", RUN, sections=sections, console=console()[0])
    assert all(name in str(refused.value) for name in STUDY.sections)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_used_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_function", lambda place: pytest.fail("something ran"))
    (tmp_path / "made_up.json").write_text("[")
    with pytest.raises(ValueError, match="choose another folder with --out"):
        run_study(STUDY, tmp_path, RUN, console=console()[0])


def test_progress_adds_up_over_sections_and_never_goes_back() -> None:
    shown, text = console()
    now = iter(range(0, 1000, 10))
    study = replace(STUDY, shares={"curves": 3.0})
    progress = StudyProgress(shown, study, list(study.sections), clock=lambda: next(now))
    progress.begin("curves")
    progress.at(2 / 3)
    progress.at(0.1)
    progress.end("done")
    progress.begin("numbers")
    lines = text.getvalue().splitlines()
    assert [line.split(", ")[1] for line in lines if "of 2)" in line] == ["0%", "50%", "50%", "75%"]
    assert all("left" in line for line in lines if "50%" in line)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_the_name_of_its_command_and_sections_that_are_there(name: str) -> None:
    study = load_study(name)
    assert study.name == name
    assert set(study.shares) <= set(study.sections)
    for place in study.sections.values():
        if "torch" not in place:
            assert callable(running._function(place))


def test_data_that_is_missing_or_a_sample_is_named_once_on_the_terminal_and_on_the_page(tmp_path: Path) -> None:
    shown, text = console()
    sample = tmp_path / "data/drive/Sensorless_drive_diagnosis_sample2200.txt"
    sample.parent.mkdir(parents=True)
    sample.write_text("")
    run = replace(RUN, sweep=SweepOptions(data_dir=tmp_path / "data", workers=1))
    there, sentences = run.available(["breast_cancer", "satellite", "synthetic", "drive"])
    assert there == ("breast_cancer", "synthetic", "drive")
    assert sentences[0].startswith("satellite is skipped: sat.trn, sat.tst are missing. Get it with: plumbline")
    assert sentences[1].startswith("drive is a published sample here, 2,200 of 58,509 rows")
    outcome = run_study(STUDY, tmp_path / "out", run, sections=["curves"], console=shown)
    assert text.getvalue().count(sentences[0]) == 1
    assert sentences[0] in outcome.page.read_text()


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        ("LR, robot, drive", "LR, robot, drive (drive: a sample of 2,200 rows)"),
        ("all data sets", "all data sets (drive: a sample of 2,200 rows)"),
        ("robot", "robot"),
        ("overdrive", "overdrive"),
    ],
)
def test_a_statement_on_a_sample_says_so(subject: str, told: str) -> None:
    statement = Statement("Table 1", subject, "It is so.", "reproduced", "It is.")
    assert running.of_samples(statement, {"drive": 2200}).subject == told
