"""``plumbline sweep``: how it ends, and what it says."""

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from plumbline.cli import app

SMALL = 'data = "wine"\nattacks = ["half", "ls"]\nrecords = 20\nsplit = { d = [1, 5], windows = 2 }\n'


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "evening.toml"
    path.write_text(SMALL)
    return path


def sweep(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["sweep", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def test_a_sweep_is_written_and_summed_up(grid: Path) -> None:
    status, said, _ = sweep(grid, "--workers", 1)
    assert status == 0
    assert "8 measurements done, 0 not applicable, 0 failed." in said
    assert "Results: runs/sweeps/evening/results.parquet" in said
    assert len(pd.read_parquet(grid.parent / "runs/sweeps/evening/results.parquet")) == 8
    assert (grid.parent / "runs/sweeps/evening/sweep.toml").read_text() == SMALL
    assert "evening: 8 measurements, 8 of them known already." in sweep(grid, "--dry-run")[1]


def test_facts_are_json_for_who_asks(grid: Path) -> None:
    sizes = json.loads(sweep(grid, "--dry-run", "--json")[1])
    assert sizes == {"name": "evening", "cells": 8, "known": 0, "datasets": ["wine"], "missing": ""}
    facts = json.loads(sweep(grid, "--json", "--workers", 1, "--out", "elsewhere")[1])
    assert (facts["folder"], facts["done"], facts["failed"]) == ("elsewhere", 8, 0)
    assert {row["attack"] for row in facts["means"]} == {"half", "ls"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SMALL.replace("half", "halff"), "Did you mean 'half'"),
        (SMALL.replace("wine", "satellite"), "plumbline datasets fetch satellite"),
        ("data =", "is no TOML"),
    ],
)
def test_a_mistake_is_a_sentence_and_measures_nothing(grid: Path, text: str, words: str) -> None:
    grid.write_text(text)
    status, _, said = sweep(grid, "--data-dir", grid.parent / "none")
    assert status == 2
    assert words in said
    assert not (grid.parent / "runs").exists()


def test_what_cannot_be_read_or_written_is_told(grid: Path) -> None:
    assert sweep(grid.parent / "missing.toml")[0] == 2
    blocked = grid.parent / "file"
    blocked.write_text("")
    status, _, said = sweep(grid, "--out", blocked / "below", "--workers", 1)
    assert status == 2
    assert str(blocked) in said
    assert not (grid.parent / "runs/cells").exists()


def test_failed_measurements_end_with_status_1(grid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> None:
        raise ZeroDivisionError("by chance")

    monkeypatch.setattr("attacks.prediction.equation_solving.LeastSquares.reconstruct", breaks)
    status, said, errors = sweep(grid, "--workers", 1)
    assert status == 1
    assert "4 failed: ZeroDivisionError: by chance" in said
    assert "4 measurements failed" in errors
    monkeypatch.undo()
    monkeypatch.chdir(grid.parent)
    # What failed is tried again.
    assert "4 of them known already" in sweep(grid, "--dry-run")[1]
    assert sweep(grid, "--workers", 1)[0] == 0


def test_an_interrupted_sweep_says_how_it_goes_on(grid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("studies.sweeping.sweeping.measure_all", interrupted)
    status, _, said = sweep(grid)
    assert status == 130
    assert "the same command goes on from there" in said


def test_the_help_shows_a_file() -> None:
    said = sweep("--help")[1]
    assert "[split]" in said
    assert 'data = ["breast_cancer", "wine"]' in said
