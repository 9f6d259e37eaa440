"""An audit and what can be done with its folder: repeated from elsewhere, reported on again, listed, compared."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from plumbline.telling.numbers import percent
from scripts.compare_runs import compare

OPTIONS = ("--attacks", "half_star,rcc2", "--set", "epochs=2", "--name", "first")
AUDIT = ("--data", "breast_cancer", "--cipher", "plain", *OPTIONS)


def plumbline(*arguments: str, cwd: Path, status: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a person would, in a folder of its own."""
    variables = {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1", "COLUMNS": "80", **variables}
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PLUMBLINE_")} | variables
    done = subprocess.run(
        [sys.executable, "-m", "plumbline", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which one audit was run, with one of its settings from the shell."""
    folder = tmp_path_factory.mktemp("audits")
    done = plumbline("audit", *AUDIT, "--json", "--fail-above", "0.01", cwd=folder, status=3, PLUMBLINE_SEED="7")
    (folder / "stdout.json").write_text(done.stdout)
    (folder / "stderr.txt").write_text(done.stderr)
    return folder


@pytest.fixture(scope="module")
def first(folder: Path) -> Path:
    return next((folder / "runs").glob("*-first"))


def test_the_document_on_standard_output_is_the_results_and_nothing_else(folder: Path, first: Path) -> None:
    document: dict[str, Any] = json.loads((folder / "stdout.json").read_text())
    assert Path(folder, document.pop("run")) == first
    assert Path(folder, document.pop("report")) == first / "report.html"
    assert document == json.loads((first / "results.json").read_text())


def test_more_than_the_threshold_ends_with_a_status_of_its_own_and_says_how_much(folder: Path, first: Path) -> None:
    largest = json.loads((first / "results.json").read_text())["largest_part"]
    assert largest > 0.01
    assert (
        f"gives away {percent(largest)} of what was unknown, above the 1 % of --fail-above"
        in (folder / "stderr.txt").read_text()
    )


def test_the_file_in_the_folder_repeats_the_run_from_elsewhere_number_by_number(
    folder: Path, first: Path, tmp_path: Path
) -> None:
    written = str(first / "audit.toml")
    done = plumbline("audit", "--config", written, "--name", "again", "--fail-above", "1", cwd=tmp_path)
    assert "is above --fail-above, but not all was measured: see what is grey" in done.stderr
    assert not list(tmp_path.iterdir())  # it goes where the first went
    found = compare("breast_cancer", first, next((folder / "runs").glob("*-again")))
    assert found.numbers > 500
    # What the command line said otherwise, and nothing else.
    assert found.different == ("config.json: request.fail_above: 0.01 became 1.0",)
    assert (found.lost, found.added) == ((), ())


def test_a_report_is_made_again_from_the_folder_alone(folder: Path, first: Path, tmp_path: Path) -> None:
    before = (first / "results.json").read_bytes()
    page = (first / "report.html").read_bytes()
    (first / "report.html").unlink()
    (first / "results.json").unlink()
    done = plumbline("report", str(first), cwd=tmp_path)
    assert f"Report: {first / 'report.html'}" in done.stdout
    assert json.loads((first / "results.json").read_text()) == json.loads(before)
    assert (first / "report.html").read_bytes() == page


def test_the_folders_runs_are_listed_and_compared(folder: Path) -> None:
    listed = json.loads(plumbline("runs", "--json", cwd=folder).stdout)
    assert {run["name"] for run in listed} >= {"first"}
    assert listed[-1]["what"] == "breast_cancer, 2 attacks"
    found = json.loads(plumbline("runs", "compare", "first", "first", "--json", cwd=folder).stdout)
    assert found["settings"] == []
    assert all(one["first"] == one["second"] for one in found["columns"])
    assert "accuracy" in plumbline("runs", "compare", "first", "first", cwd=folder).stdout
