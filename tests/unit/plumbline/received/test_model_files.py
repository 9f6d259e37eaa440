"""Models as files: they predict what they are documented to, and are refused where they are of another table."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plumbline.cli.output import MENDABLE
from plumbline.received.model_files import read_model
from tests.harness.received import Tables, prepared
from tests.unit.plumbline.received.test_judging import CELL, ROWS, command, made
from vfl.data import TableError

SAVED = Path(__file__).parents[3] / "harness" / "xgboost_saved"
LINEAR: dict[str, Any] = {
    "model": "linear",
    "intercept": 0.5,
    "link": "logit",
    "columns": {
        "age": {"weight": -0.2, "mean": 50, "width": 10},
        "income": {"bins": {"edges": [2800, 3200], "values": [-1, 0, 1]}, "missing": 0.25},
        "plan": {"weight": 2, "values": {"1": 0.1, "2": 0.2, "3": 0.3}},
    },
}


def saved(folder: Path, content: object) -> Path:
    (path := folder / "model.json").write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("objective", ["logistic", "squarederror", "gamma"])
def test_trees_predict_what_xgboost_does(objective: str) -> None:
    model, told = read_model(SAVED / f"{objective}.json"), pd.read_csv(SAVED / "told.csv")
    assert model.inputs == ("age", "income", "limit")
    assert told["limit"].isna().any()
    assert model.scores(told)["score"] == pytest.approx(told[f"{objective} score"].to_numpy(), rel=1e-6)
    leaves = told[[f"{objective} leaf {number}" for number in range(1, 5)]]
    assert model.leaves(told).tolist() == leaves.to_numpy().tolist()


def test_a_linear_model_is_its_weights_of_encoded_cells(tmp_path: Path) -> None:
    model = read_model(saved(tmp_path, LINEAR))
    cells = pd.DataFrame(
        {"age": [30.0, 60.0], "income": [3200.0, np.nan], "plan": pd.Categorical(["1", "3"])},
    )
    predictor = np.array([0.5 + 0.4 + 1 + 0.2, 0.5 - 0.2 + 0.25 + 0.6])
    assert model.scores(cells)["predictor"] == pytest.approx(predictor)
    assert model.scores(cells)["score"] == pytest.approx(1 / (1 + np.exp(-predictor)))
    points = read_model(saved(tmp_path, {**LINEAR, "points": {"offset": 600, "factor": -20}}))
    assert next(iter(points.scores(cells).values())) == pytest.approx(600 - 20 * predictor)
    logs = read_model(saved(tmp_path, {**LINEAR, "link": "log"}))
    assert logs.scores(cells)["score"] == pytest.approx(np.exp(predictor))
    # A number is looked up as it is written.
    whole = cells.assign(plan=[1.0, 3.0])
    assert model.scores(whole)["predictor"] == pytest.approx(predictor)


def test_what_a_model_will_send_is_judged_before_it_is_sent(tmp_path: Path) -> None:
    tables = made()
    _, records = prepared(tmp_path, tables, received="", model=str(saved(tmp_path, LINEAR)))
    assert [(one.name, one.kind) for one in records.facts.columns] == [("score", "probability")]
    status, words = command(
        tmp_path, {name: tables[name] for name in ("own", "secret")}, "--model", str(tmp_path / "model.json"),
        "--known", "60", "--columns", "age,income,plan",
    )  # fmt: skip
    assert status == 0, words
    assert "Who has 60 of these records in full and receives model can tell" in words
    assert "A linear model of 3 columns, link logit, not clipped or rounded." in words


def test_who_has_a_linear_model_needs_no_known_record(tmp_path: Path) -> None:
    plain = {"model": "linear", "link": "logit", "columns": {"income": {"weight": 2, "mean": 3000, "width": 500}}}
    model, tables = saved(tmp_path, plain), made()
    cells = tables["secret"]
    score = read_model(model).scores(cells)["score"]
    tables["received"] = pd.DataFrame({"client": cells["client"], "risk": score})
    status, words = command(tmp_path, tables, "--model", str(model), "--columns", "age,income,luck,risk")
    assert status == 0, words
    assert "Whoever receives received can tell 1 of 2 columns (income) far better than it could guess." in words
    assert "The receiver is taken to have the model" in words


def with_scores(tables: Tables, folder: Path, rounded: int) -> Tables:
    """The same tables, with the model's own scores as what was received."""
    model = read_model(saved(folder, LINEAR))
    both = tables["own"].merge(tables["secret"], on="client")
    score = model.scores(both.assign(plan=both["plan"].astype(float)))["score"]
    handed = pd.DataFrame({"client": both["client"], "risk": score.round(rounded)})
    return {**tables, "received": handed.sample(frac=1, random_state=1)}


def test_scores_that_were_handed_in_are_the_models_or_refused_by_their_rows(tmp_path: Path) -> None:
    tables = with_scores(made(), tmp_path, rounded=9)
    model = str(tmp_path / "model.json")
    facts, records = prepared(tmp_path, tables, model=model)
    assert f"'risk' is this model's score, in all of {ROWS} rows." in facts.notes
    assert len(records.facts.columns) == 1
    assert records.is_model_told
    tables["received"].iloc[[4, 9], 1] += 1e-3
    with pytest.raises(TableError, match=rf"'risk' isn't this model's score: 2 rows of {ROWS} .* \(rows 5, 10\)"):
        prepared(tmp_path, tables, model=model)


READER = """
import numpy as np


class Ages:
    inputs, assumed = ("age",), "Ages are sent."

    def scores(self, cells):
        return {"score": cells["age"].to_numpy() + 0.5}

    def leaves(self, cells):
        return np.zeros((len(cells), 0), dtype=int)


class Reader:
    def read(self, path):
        return Ages() if path.suffix == ".ages" else None
"""


def test_another_package_brings_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ages_reader.py").write_text(READER)
    (information := tmp_path / "ages_reader-1.0.dist-info").mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: ages-reader\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[plumbline.models]\nages = ages_reader:Reader\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (model := tmp_path / "mine.ages").write_text("")
    facts, records = prepared(tmp_path, made(), received="", model=str(model))
    assert facts.notes[0] == "Ages are sent."
    assert facts.received == "mine"
    assert records.received.shape == (ROWS, 1)


def broken(change: str) -> object:
    xgboost = json.loads((SAVED / "logistic.json").read_text())
    learner = xgboost["learner"]
    trees = learner["gradient_booster"]["model"]["trees"]
    match change:
        case "circle":
            trees[0]["left_children"][0] = 0
        case "short":
            trees[0]["default_left"].pop()
        case "column":
            trees[0]["split_indices"][0] = 3
        case "nameless":
            learner["feature_names"] = []
        case "classes":
            learner["learner_model_param"]["num_class"] = "3"
        case "dart":
            learner["gradient_booster"]["name"] = "dart"
        case "lacking":
            del learner["learner_model_param"]["base_score"]
        case "text":
            trees[0]["split_conditions"] = [CELL]
    return xgboost


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "is no model that a reader knows"),
        ([1], "is no model that a reader knows"),
        ({**LINEAR, "weights": {}}, "no entry of this name"),
        ({**LINEAR, "intercept": "much"}, "expected a number"),
        ({**LINEAR, "columns": {"age": {"width": 0}}}, "a width that isn't 0"),
        ({**LINEAR, "columns": {}}, "one column at least"),
        ({**LINEAR, "columns": {"age": {"bins": {"edges": [1, 2], "values": [1]}}}}, "one value more than edges"),
        (broken("circle"), "a tree has no proper nodes"),
        (broken("short"), "a tree has no proper nodes"),
        (broken("column"), "a tree has no proper nodes"),
        (broken("nameless"), "doesn't name its columns"),
        (broken("classes"), "has several outputs"),
        (broken("dart"), "is read of boosted trees (gbtree)"),
        (broken("lacking"), "isn't as XGBoost writes it"),
        (broken("text"), "expected a number"),
    ],
)
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: object, words: str) -> None:
    with pytest.raises(TableError) as refused:
        read_model(saved(tmp_path, content))
    assert words in str(refused.value)
    assert CELL not in str(refused.value)


@pytest.mark.parametrize(
    ("columns", "more", "words"),
    [
        ({"salary": {}}, (), "--model is of another table: it reads 'salary'"),
        ({"late": {}}, ("--encode", "late=onehot"), "it reads 'late' as numbers, and here it is text"),
        ({"plan": {"values": {"1": 0.0, "2": 1.0}}}, (), "rows of 'plan' have no number in it"),
        ({"age": {}}, ("--sends", "leaves"), "this model has no trees"),
        ({"age": {}}, ("--sends", "leafs"), "Did you mean 'leaves'"),
    ],
)
def test_a_model_of_another_table_is_a_sentence(
    tmp_path: Path, columns: dict[str, Any], more: tuple[str, ...], words: str
) -> None:
    tables = made()
    model = saved(tmp_path, {"model": "linear", "columns": columns})
    two = {name: tables[name] for name in ("own", "secret")}
    status, output = command(tmp_path, two, "--model", str(model), "--known", "60", *more)
    assert status == MENDABLE, output
    assert words in output
    assert not (tmp_path / "runs").exists()
