"""The packages that the tutorial on the papers' figures shows: built from its text, and drawn by the command."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import attacks
import defences
from plumbline.cli import app
from studies.cli import papers
from studies.measurements import Choice, SweepOptions
from studies.page.panel_charts import document
from studies.rassouli import white_box
from studies.rassouli.windowed import SYNTHETIC, Windows
from studies.study import StudyRun
from tests.harness import made_up_study
from tests.harness.documented_plugin import install

PAGE = "tutorials/your-attack-in-the-papers-figures.md"
RUNNER = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both packages on the path, and an empty folder to work in."""
    for module in ("own_level", "score_mixing"):
        (tmp_path / module).mkdir()
        install(PAGE, module, tmp_path / module, monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("installed")
def test_both_are_found_and_refuse_options_out_of_range() -> None:
    assert "own_level" in attacks.names()
    assert "score_mixing" in defences.names()
    with pytest.raises(ValueError, match="trust from 0 to 1"):
        attacks.load("own_level", trust=2.0)
    with pytest.raises(ValueError, match="share from 0 up to 1"):
        defences.load("score_mixing", share=1.0)


def test_the_command_draws_the_attack_beside_the_papers(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(papers, "load_study", lambda name: made_up_study.STUDY)
    brought = ("--with", "own_level", "--with", "own_level:trust=0.5")
    done = RUNNER.invoke(app, ["figures", "rassouli", "--section", "curves", "--quick", "--workers", "1", *brought])
    assert done.exit_code == 0, done.output
    folder = installed / "runs/figures/rassouli"
    page, drawing = (folder / "made_up.html").read_text(), (folder / "made_up-curves-attacks.svg").read_text()
    errors = pd.read_parquet(folder / "made_up-curves.parquet").groupby("attack")["mse"].mean()
    for label in ("own_level", "own_level(trust=0.5)"):
        assert f"<title>{label}</title>" in page
        assert label in drawing
        assert 0 < errors[label] < 1 / 3


@pytest.mark.usefixtures("installed")
def test_the_papers_own_figure_has_the_curve() -> None:
    pytest.importorskip("torch")
    one = Windows(sizes=1, count=1)
    plan = replace(
        *(white_box._QUICK,),
        **{"datasets": (SYNTHETIC,), "rows": 300, "records": 5, "auxiliary": 5, "steps": 3},
        **dict.fromkeys(("closed", "again", "centres", "searches", "ours", "other"), one),
    )
    run = StudyRun(SweepOptions(workers=1), quick=True, attacks=(Choice.of("own_level"),))
    section = white_box.white_box_section(run, plan)
    (curve,) = {one.label for panel in section.plots[0].panels for one in panel.curves if "own_level" in one.label}
    assert curve in document(section.plots[0])
    assert section.data[section.data["attack"] == "own_level"]["mse"].notna().all()


@pytest.mark.usefixtures("installed")
def test_who_knows_the_share_has_the_scores_back() -> None:
    """As the page says of its own defence."""
    scores = pd.DataFrame([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]).to_numpy()
    context = defences.ScoreContext(defences.NoiseSource())
    mixed = defences.load("score_mixing", share=0.2).protect_scores(scores, context)
    assert (mixed.argmax(axis=1) == scores.argmax(axis=1)).all()
    assert (mixed - 0.2 / 3) / 0.8 == pytest.approx(scores)
