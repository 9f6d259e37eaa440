"""The examples run as they stand: the notebook cell by cell, the three terminals as three processes."""

import copy
import csv
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
TERMINALS = EXAMPLES / "three_terminals"
SERVING_SECONDS = 120


def shown_by(notebook: nbformat.NotebookNode) -> list[dict[str, str]]:
    """What cells printed and drew, each in the forms that it has."""
    return [output["data"] for cell in notebook.cells for output in cell.get("outputs", ()) if "data" in output]


def lights_of(notebook: nbformat.NotebookNode) -> list[list[str]]:
    """Columns and lights that each cell names in its text."""
    words = r"\b(?:proline|colour|red|amber|green|grey)\b"
    return [sorted(re.findall(words, data["text/plain"])) for data in shown_by(notebook)]


def test_the_notebook_runs_and_shows_what_it_says(tmp_path: Path) -> None:
    notebook = nbformat.read(EXAMPLES / "own_data_frames.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    kept = copy.deepcopy(notebook)
    NotebookClient(
        notebook, timeout=180, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = shown_by(notebook)
    assert any("image/png" in data for data in shown)
    assert any("plumbline-findings" in data.get("text/html", "") for data in shown)
    (parts,) = (data["text/plain"] for data in shown if "decision only" in data["text/plain"])
    # Source columns, not features: a number with gaps, and a word.
    found = dict(re.findall(r"^(proline|colour) +(\S+) +\S+$", parts, flags=re.MULTILINE))
    assert set(found) == {"proline", "colour"}
    assert float(found["colour"]) > 0.5
    (outcome,) = (data["text/plain"] for data in shown if "TrainingOutcome" in data["text/plain"])
    assert re.search(r"accuracy=[01]\.\d+, auc=[01]\.\d+", outcome)
    page = (tmp_path / "report.html").read_text()
    assert "proline" in page
    # The site shows what the committed cells show, and a code host too.
    anew = "run docs/site/pictures and commit the notebook"
    assert [sorted(data) for data in shown_by(kept)] == [sorted(data) for data in shown], anew
    assert lights_of(kept) == lights_of(notebook) != [], anew


def test_python_paillier_changes_no_weight(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The tutorial's own keys have 2,048 bits; here they are short."""
    example = runpy.run_path(str(EXAMPLES / "check_against_phe.py"))
    example["SETTINGS"].update(key_bits=512, allow_insecure_keys=True)
    example["main"]()
    shown = capsys.readouterr().out
    assert shown.count("largest difference 0.0") == 3
    assert re.findall(r"(active|passive) +python-paillier", shown) == ["active", "passive"]


def test_what_a_hospital_is_handed_is_judged(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(EXAMPLES / "received.py"), str(tmp_path)], check=True)
    asked = "--own hospital.csv --received scores.csv --secret laboratory.csv --id patient --known 60"
    planned = subprocess.run(
        [sys.executable, "-m", "plumbline", "judge", *asked.split(), "--model", "model.json", "--dry-run"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "'risk' is this model's score, in all of 427 rows." in planned.stdout, planned.stdout + planned.stderr
    columns = "mean_radius,mean_texture,risk,secret:worst_radius,secret:worst_texture"
    done = subprocess.run(
        [sys.executable, "-m", "plumbline", "judge", *asked.split(), "--columns", columns, "--fail-above", "0"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "COLUMNS": "200", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 3, done.stdout + done.stderr
    words = " ".join(done.stdout.split())
    assert "received risk: probability (guessed: from 0 to 1)" in words
    assert "Who has 60 of these records in full and receives scores can tell" in words
    assert "The control came out at 0" in words
    (page,) = (tmp_path / "runs").glob("*/report.html")
    assert "worst_texture" in page.read_text()


class Terminals:
    """Three terminals in one folder, each with its script; ``ask`` is any fourth one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with ExitStack() as stack:
            held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
            addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in held]
        own = dict(zip(("COORDINATOR", "LABORATORY", "HOSPITAL"), addresses, strict=True))
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        others = {name: value for name, value in os.environ.items() if not name.startswith("PLUMBLINE_")}
        self._environment = {**others, **own, "PATH": path}

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script to its end."""
        return subprocess.run(
            [TERMINALS / script],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @contextmanager
    def opened(self, script: str) -> Iterator[Path]:
        """A terminal whose script goes on until Ctrl-C; what it prints is in the file."""
        log = self._folder / f"{script}.log"
        with log.open("wb") as printed:
            process = subprocess.Popen(
                [TERMINALS / script], cwd=self._folder, env=self._environment, stdout=printed, stderr=subprocess.STDOUT
            )
        try:
            yield log
            assert process.poll() is None, log.read_text()
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert process.returncode == 0, log.read_text()


@pytest.mark.skipif(os.name != "posix", reason="the scripts are for bash")
def test_three_terminals_train_and_answer(tmp_path: Path) -> None:
    terminals = Terminals(tmp_path)
    made = terminals.run("setup.sh")
    assert made.returncode == 0, made.stderr
    for party in ("coordinator", "active", "laboratory", "operator"):
        keys = [path.name for path in (tmp_path / "federation" / party).rglob("*.key")]
        assert keys == [f"{party}.key"], "a party has its own key and no other"
    # The hospital first: it waits for the others.
    with (
        terminals.opened("hospital.sh") as hospital,
        terminals.opened("laboratory.sh"),
        terminals.opened("coordinator.sh"),
    ):
        deadline = time.monotonic() + SERVING_SECONDS
        while (asked := terminals.run("ask.sh")).returncode != 0 or not asked.stdout.startswith("serving\n"):
            assert time.monotonic() < deadline, f"{asked.stdout}{asked.stderr}\n{hospital.read_text()}"
            time.sleep(1)
        told = asked.stdout.splitlines()
        assert any(line.startswith("The model that answers: accuracy ") for line in told)
        assert "laboratory answers and brings 10 features." in told
        rows = list(csv.DictReader(told[told.index("id,benign,malignant,error") :]))
        assert [row["id"] for row in rows] == ["p0001", "p0002", "p0003", "p0004"]
        scored = [row for row in rows if not row["error"]]
        assert len(scored) >= 2
        for row in scored:
            assert float(row["benign"]) + float(row["malignant"]) == pytest.approx(1)
        # Each party's own page, while the federation goes on.
        reported = terminals.run("report.sh")
        assert reported.returncode == 0, reported.stderr
        hospitals, _, laboratorys, _ = reported.stdout.splitlines()
        assert hospitals.startswith("active trained with laboratory on ")
        assert laboratorys.startswith("laboratory tells active no parameters: ")
        for party in ("active", "laboratory"):
            assert (tmp_path / "federation" / party / "run" / "report.html").exists()


@pytest.mark.timeout(900)
def test_the_sweep_runs_and_is_known_the_next_time(tmp_path: Path) -> None:
    others = {name: value for name, value in os.environ.items() if not name.startswith("PLUMBLINE_")}

    def sweep(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "plumbline", "sweep", EXAMPLES / "sweep.toml", *arguments],
            cwd=tmp_path,
            env=others | {"PYTHONPATH": str(EXAMPLES.parent)},
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        ).stdout

    printed = sweep()
    (measurements,) = re.findall(r"= (\d+) measurements", (EXAMPLES / "sweep.toml").read_text())
    assert f"{measurements} measurements done, 0 not applicable, 0 failed." in printed
    results = pd.read_parquet(tmp_path / "runs/sweeps/sweep/results.parquet")
    exact = results[results.defence == "none"].groupby("attack").mse.mean()
    # Theorem 1 of Rassouli: exact scores never hurt who starts from the middle.
    assert exact["rcc2"] <= exact["half_star"] <= exact["half"]
    assert f"{measurements} of them known already" in sweep("--dry-run")
