"""Findings in a notebook: the same numbers as a table, a page element and a drawing, and nobody's words as markup."""

import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.patches import Rectangle

from attacks import LEVELS
from plumbline.judge.answer import Answer, ColumnAnswer, PartyAnswer
from plumbline.judge.federation_part import LevelVerdict
from plumbline.judge.measures import Interval
from plumbline.judge.predictions import AttackFinding
from plumbline.judge.summary import read_summary
from plumbline.judge.training import TrainingFinding
from plumbline.notebook import NotebookFindings
from plumbline.telling.document import COLOURS
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from tests.harness.findings import attack, column
from tests.harness.findings import findings as prediction_findings
from tests.harness.parties import house, small_settings

mpl.use("Agg")
ROOT = Path(__file__).parents[3]
HOSTILE = "<script>alert(1)</script> $x$ \u202e"
NOT_DONE = AttackFinding("rcc1", "not applicable", "rcc1 needs parameters.", 10, 0.0)
READ = TrainingFinding("randomiser_channel", "passive", "", 0.5, "readings", 0.75, 0.9)


def answered(name: str, part: float | None, light: Any) -> ColumnAnswer:
    interval = None if part is None else Interval(part, part - 0.1, part + 0.1)
    levels = tuple(LevelVerdict(level, "its mean", 0.1, "half_star", 0.02, interval) for level in LEVELS)
    words = f"{name} is told."
    return ColumnAnswer(
        party="passive", column=name, kind="number", light=light, levels=levels, sentence=words, features=(0,)
    )


@pytest.fixture
def found(tmp_path: Path) -> NotebookFindings:
    """Findings of a run that was trained, and whose leaks are made up."""
    with house(tmp_path, settings=small_settings(cipher="plain", record_features=True)) as home:
        home.train()
    folder = RunFolder(tmp_path)
    columns = (answered(HOSTILE, 0.8, "red"), answered("age", 0.2, "amber"), answered("pay", None, "grey"))
    parties = (PartyAnswer("active", "grey", "Nothing."), PartyAnswer("passive", "red", "Much."))
    return NotebookFindings(
        read_summary(folder, "a run"),
        prediction_findings(attack("half_star", column("age", 0.02)), NOT_DONE),
        (READ,),
        Answer(("passive should not join.",), "red", parties, columns, not_measured=(HOSTILE,)),
        folder=folder,
    )


def test_columns_are_a_frame_with_their_parts_and_intervals(found: NotebookFindings) -> None:
    frame = found.to_frame()
    assert frame["column"].tolist() == [HOSTILE, "age", "pay"]
    assert frame["light"].tolist() == ["red", "amber", "grey"]
    np.testing.assert_allclose(frame[["part", "low", "high"]].iloc[0], [0.8, 0.7, 0.9])
    assert frame["part"].isna().tolist() == [False, False, True]
    assert frame["finding"][1] == "age is told."


def test_attacks_and_training_are_frames_too_and_anything_else_is_told(found: NotebookFindings) -> None:
    attacks = found.to_frame("attacks")
    assert attacks["attack"].tolist() == ["half_star", "rcc1"]
    assert attacks["status"].tolist() == ["done", "not applicable"]
    assert math.isnan(attacks["mse"][1])
    assert found.to_frame("training")[["attack", "right", "answered"]].to_numpy().tolist() == [
        ["randomiser_channel", 0.75, 0.9]
    ]
    with pytest.raises(ValueError, match=r"^There is no table of 'column': choose .* Did you mean 'columns'\?$"):
        found.to_frame("column")


def test_a_frame_of_nothing_has_its_columns(found: NotebookFindings) -> None:
    nothing = replace(found, training=(), answer=replace(found.answer, columns=()))
    assert nothing.to_frame("training").columns.tolist() == found.to_frame("training").columns.tolist()
    assert len(nothing.to_frame()) == 0
    assert nothing._repr_html_().count("<table>") == 1  # of what wasn't measured
    assert len(nothing.plot().patches) == 0


def test_a_notebook_shows_the_verdict_and_no_markup_of_others(found: NotebookFindings) -> None:
    shown = found._repr_html_()
    assert f"<strong>{found.glance.sentence}</strong>" in shown
    assert "passive should not join." in shown
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "\u202e" not in shown
    # A part that wasn't measured is no zero.
    assert "<td>80 % (70 to 90)</td>" in shown
    assert "<td>known anyway</td>" in shown.split(">pay<")[1]


def test_findings_are_printed_in_ten_lines(found: NotebookFindings) -> None:
    assert repr(found) == str(found)
    lines = str(found).splitlines()
    assert lines[:3] == [found.glance.sentence, found.glance.joining[:160], found.answer.sentences[0]]
    assert 1 < len(lines) <= 10
    assert any(line.startswith(f"{one.light}: ") for one in found.answer.columns[:1] for line in lines)
    many = replace(found.answer, columns=found.answer.columns * 40)
    lines = str(replace(found, answer=many)).splitlines()
    assert len(lines) == 10
    assert lines[-1].endswith("more columns: to_frame() has them.")


def test_lights_are_of_the_reports_colours() -> None:
    style = (ROOT / "plumbline" / "templates" / "elements" / "style.css").read_text()
    assert {light: re.search(rf"--{light}: (#\w+);", style)[1] for light in COLOURS} == COLOURS  # type: ignore[index]


def test_the_drawing_has_a_bar_for_each_column(found: NotebookFindings) -> None:
    axes = found.plot()
    assert [round(bar.get_width(), 3) for bar in axes.patches if isinstance(bar, Rectangle)] == [0.0, 0.2, 0.8]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[:2] == ["passive: pay", "passive: age"]
    # No formula, no turned text.
    assert names[2].count("$") == names[2].count(r"\$") == 2
    assert "\u202e" not in names[2]
    assert found.plot(axes) is axes


def test_the_report_is_written_again_while_the_files_are_there(found: NotebookFindings, tmp_path: Path) -> None:
    page = found.report(tmp_path / "again.html")
    assert "passive should not join." in page.read_text()
    for file in tmp_path.glob("*"):
        file.unlink()
    tmp_path.rmdir()
    with pytest.raises(RunFolderError, match=r"The files of this run are gone.*before the federation is closed"):
        found.report("later.html")


def test_without_mlflow_it_is_said_how_to_get_it(found: NotebookFindings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "plumbline\[mlflow\]"'):
        found.log_to_mlflow()


def test_without_matplotlib_it_is_said_how_to_get_it(found: NotebookFindings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "plumbline\[notebook\]"'):
        found.plot()


def test_mlflow_gets_settings_numbers_and_the_report(
    found: NotebookFindings, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Releases from 3.7 on want a word before they keep runs in plain files.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow = pytest.importorskip("mlflow")
    store = tmp_path_factory.mktemp("mlflow")
    mlflow.set_tracking_uri(store.as_uri())
    mlflow.set_experiment("audits")
    run = mlflow.get_run(found.log_to_mlflow("first"))
    assert run.info.run_name == "first"
    assert run.info.status == "FINISHED"
    assert run.data.params["cipher"] == "plain"
    assert run.data.metrics["federations_part_largest"] == pytest.approx(0.8)
    assert run.data.metrics["accuracy"] == pytest.approx(found.summary.accuracy)
    assert run.data.tags["plumbline.light"] == "red"
    artifacts = {one.path for one in mlflow.MlflowClient().list_artifacts(run.info.run_id)}
    assert artifacts == {"columns.csv", "report.html"}
    # A run that is at work is joined, and left at work.
    with mlflow.start_run() as mine:
        assert found.log_to_mlflow() == mine.info.run_id
        assert mlflow.active_run() is not None
