"""The JSON documents of commands: the same facts as their words, under keys that stay, and nothing else beside them."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from plumbline.cli import app
from plumbline.cli.operators import _scores_of
from vfl.data import DATASETS


def document(*arguments: str) -> Any:
    done = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_data_sets_say_which_raw_files_are_missing(tmp_path: Path) -> None:
    found = {one["name"]: one for one in document("datasets", "--data-dir", str(tmp_path))}
    assert tuple(found) == tuple(DATASETS)
    assert found["wine"] == {
        "name": "wine",
        "rows": 178,
        "features": 13,
        "classes": 3,
        "missing": [],
        "sample": None,
        "figures": [],
        "simulation": list(DATASETS["wine"].simulation),
    }
    assert found["bank"]["missing"]
    assert found["bank"]["figures"] == ["rassouli", "varasteh", "defences"]


def test_certificates_say_what_was_done_with_them(tmp_path: Path) -> None:
    folder = str(tmp_path / "certs")
    names = ["coordinator", "active", "passive", "operator"]
    assert document("certs", "--out", folder) == {"folder": folder, "done": "made", "names": names, "days": 365}
    assert document("certs", "--out", folder, "--if-missing")["done"] == "kept"
    renewed = document("certs", "--out", folder, "--renew", "--days", "3")
    assert (renewed["done"], sorted(renewed["names"]), renewed["days"]) == ("renewed", sorted(names), 3)


def test_a_benchmark_is_tables_with_a_row_for_each_variant() -> None:
    options = ("--batch", "4", "--columns", "one-hot:2", "--key-bits", "256", "--repetitions", "1")
    found = document("bench", "he", *options)
    (table,) = found["tables"]
    assert (found["subject"], table["key"]) == ("he", "one-hot 2")
    assert {"encrypt", "product", "mask", "decrypt", "times"} <= {column["key"] for column in table["columns"]}
    assert all(row["total"]["least"] > 0 for row in table["rows"])


def test_no_runs_are_an_empty_list(tmp_path: Path) -> None:
    assert document("runs", "--runs", str(tmp_path)) == []


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\u202eevil"])
def test_scores_are_by_class_and_no_terminal_obeys_an_id(hostile: str) -> None:
    scores = pd.DataFrame({"no": [0.25, None], "yes": [0.75, None], "error": ["", "not aligned"]}, index=[hostile, "b"])
    found = _scores_of(scores)
    assert found == [
        {"id": hostile, "error": "", "scores": {"no": 0.25, "yes": 0.75}},
        {"id": "b", "error": "not aligned", "scores": None},
    ]
    assert json.dumps(found).isprintable()


def test_a_plan_says_what_would_be_done(tmp_path: Path) -> None:
    options = ["--data", "wine", "--cipher", "plain", "--attacks", "half_star", "--runs", str(tmp_path / "runs")]
    plan = document("audit", *options, "--dry-run")
    assert (plan["cipher"], plan["attacks"]) == ("plain", ["half_star"])
    assert plan["forecast_seconds"]["training"] > 0
    assert list(tmp_path.iterdir()) == []
