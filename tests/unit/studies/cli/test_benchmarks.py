"""``plumbline bench``: documents, what is written, and mistakes in a sentence."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plumbline.cli import app
from studies.speed.result import read_result

RUNNER = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"})
TINY = ("he", "--columns", "one-hot:2", "--batch", "4", "--key-bits", "256", "--repetitions", "1")


def test_a_result_is_written_where_asked_and_shown_within_80_columns(tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["bench", *TINY, "--out", str(tmp_path / "results")])
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert read_result(tmp_path / "results" / "he.json").subject == "he"


def test_an_estimate_is_a_document() -> None:
    options = ["--estimate", "200", "6", "--one-hot", "0.5", "--key-bits", "512", "--kernel", "portable", "--json"]
    done = RUNNER.invoke(app, ["bench", *options])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["rows"] == 200
    assert found["training"] > found["epoch"] > 0


def test_an_estimate_is_told_in_words() -> None:
    done = RUNNER.invoke(app, ["bench", "--estimate", "200", "6", "--key-bits", "512", "--kernel", "portable"])
    for word in ("alignment", "step", "epoch", "training", "prediction"):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["he", "--columns", "sparse:3"], "such as one-hot:100"),
        (["attacks", "half_stra"], "half_star"),
        (["--estimate", "5", "6"], "at least 10 rows"),
        (["--estimate", "100", "6", "--kernel", "gpu"], "No kernel is called 'gpu'"),
        (["--estimate", "100", "6", "he"], "--estimate measures by itself"),
        (["--estimate", "100"], "--estimate"),
    ],
)
def test_mistakes_are_told_in_a_sentence(arguments: list[str], words: str) -> None:
    done = RUNNER.invoke(app, ["bench", *arguments])
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
    assert "Traceback" not in done.output
