"""What every run has, a judge's has too: roles of columns, the annex, lists, comparisons, pages, a new report."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plumbline.audit.folder import AuditFolder
from plumbline.audit.past_runs import past_runs
from plumbline.audit.watching.run_pages import RunPagesHandler
from plumbline.cli import app
from plumbline.cli.output import ABOVE_THRESHOLD
from tests.harness.annexes import docx_text, needs_annex, pdf_text, squeezed
from tests.harness.served import ask, served
from tests.unit.plumbline.received.test_judging import command, made

pytestmark = pytest.mark.slow("judges two runs, and one of them again")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[AuditFolder, AuditFolder]:
    """One with luck published and income sensitive, that ends above its threshold; one that knows less."""
    folder, tables = tmp_path_factory.mktemp("around"), made()
    asked = ("--label", "late", "--public", "luck", "--sensitive", "secret:income", "--secret-label", "plan")
    first = command(folder, tables, "--known", "60", *asked, "--fail-above", ".5", "--name", "first", "--quiet")
    second = command(folder, tables, "--known", "40", *asked, "--fail-above", "1", "--name", "second")
    assert [status for status, _ in (first, second)] == [ABOVE_THRESHOLD, 0], (first, second)
    assert first[1].startswith("Who has 60 of these records in full")
    assert "What becomes of each column" not in first[1]
    newest, oldest = (AuditFolder(run.folder) for run in past_runs(folder / "runs"))
    return oldest, newest


def run(*words: str) -> str:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, words)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_roles_and_the_label_are_in_results(two: tuple[AuditFolder, AuditFolder]) -> None:
    found = json.loads(two[0].results.read_text())
    assert {one["column"]: one["role"] for one in found["answer"]["columns"]} == {
        "income": "sensitive",
        "luck": "public",
        "plan": "",
    }
    assert found["answer"]["labels"][0].startswith("labels: plan")


def test_persons_stand_beside_the_shuffled_copy(two: tuple[AuditFolder, AuditFolder]) -> None:
    (risk,) = json.loads(two[0].results.read_text())["persons"]["risks"]
    by_half = next(one for one in risk["shares"] if one["bound"] == 0.5)
    assert (risk["party"], risk["records"]) == ("secret", 270)
    # Income is told of most; its error is one of three columns' that are weighed.
    assert by_half["share"]["mean"] > 3 * by_half["control"]["mean"]
    page = two[0].report.read_text()
    for words in (
        "risk per record of secret",
        "of the control",
        "membership inference",
        "no column says who the model was trained on",
    ):
        assert words in page


@needs_annex
def test_an_annex_has_what_an_assessment_asks_for_and_no_cell(two: tuple[AuditFolder, AuditFolder]) -> None:
    words = run("report", str(two[0].path), "--annex")
    assert "Annex: " in words
    pdf, document = (two[0].path / f"annex.{kind}" for kind in ("pdf", "docx"))
    for text in (pdf_text(pdf.read_bytes()), docx_text(document.read_bytes())):
        for said in (
            "What “received” tells of “secret”",
            "1: score",
            "60 records in full, which weren't judged",
            "with a shuffled copy of it",
            "The control came out at 0",
            "sensitive",
            "columns of secret",
            "maximum",
            "plumbline judge --before",
        ):
            assert squeezed(said) in text, said
        cells = {str(cell) for cell in made()["secret"]["income"]} | set(made()["secret"]["client"])
        assert not [cell for cell in cells if cell in text]


def test_runs_are_listed_compared_and_shown(two: tuple[AuditFolder, AuditFolder]) -> None:
    folder = two[0].path.parent
    listed = run("runs", "--runs", str(folder))
    assert "own.csv + received.csv + secret.csv" in listed
    assert "red" in run("runs", "--runs", str(folder), "--json")
    compared = run("runs", "compare", *(str(one.path) for one in two))
    assert "known │ 60" in compared
    assert "secret.income" in compared
    with served(folder, RunPagesHandler) as port:
        assert "Who has 40 of these records" in ask(port, "/")[1]
        assert "The control came out at 0" in ask(port, f"/{two[0].path.name}/report.html")[1]
        pair = "&".join(f"run={one.path.name}" for one in two)
        assert "secret.income" in ask(port, f"/compare?{pair}")[1]


def test_a_broken_file_of_a_run_is_named(two: tuple[AuditFolder, AuditFolder], tmp_path: Path) -> None:
    (before := two[1].path / "before.json").write_text("{}")
    done = CliRunner().invoke(app, ["report", str(two[1].path)])
    before.unlink()
    assert done.exit_code != 0
    assert "before.json" in done.output
