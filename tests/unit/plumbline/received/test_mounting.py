"""What is tried beside regressions: equations of a linear score, neighbours in leaves, directions of gradients."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier

from plumbline.audit.folder import AuditFolder, new_run
from plumbline.judge.federation_part import at
from plumbline.received.mounting import RECEIVED_BATCH, SHUFFLED_BATCH, mount
from plumbline.received.received_findings import KNOWING, ReceivedFindings, read_received_findings
from tests.harness.received import Tables, prepared

ROWS = 240


def drawn(**received: Any) -> Tables:
    """Own columns that say little, three secret ones, and what was received of these."""
    draw = np.random.default_rng(5)
    ids = [f"c{row}" for row in range(ROWS)]
    return {
        "own": pd.DataFrame({"client": ids, "age": draw.random(ROWS).round(3), "visits": draw.random(ROWS).round(3)}),
        "received": pd.DataFrame({"client": ids, **received}),
        "secret": secret().assign(client=ids),
    }


def secret() -> pd.DataFrame:
    draw = np.random.default_rng(6)
    late = np.where(draw.random(ROWS) < 0.3, "yes", "no")
    return pd.DataFrame({"income": draw.random(ROWS), "debt": draw.random(ROWS), "late": late})


def found(
    folder: Path, tables: Tables, *, known: int, label: str = "", is_model_told: bool = False
) -> ReceivedFindings:
    facts, records = prepared(folder, tables, known=known, **{"secret_label": label})
    run = new_run(folder / "runs", "received")
    records.write(run.parties)
    mount(run.parties, replace(records, is_model_told=is_model_told), 0)
    return read_received_findings(run.parties, facts)


def parts(findings: ReceivedFindings) -> dict[str, tuple[str, float]]:
    """The attack that tells most of each column, and which part."""
    levels = {one.column: at(one.levels, KNOWING) for one in findings.predictions.sources}
    return {name: (one.attack, 0.0 if one.part is None else one.part.mean) for name, one in levels.items()}


def linear_score() -> np.ndarray:
    """A probability of log-odds that are linear in both secret numbers, and in no own column."""
    cells = secret()
    scores: np.ndarray = 1 / (1 + np.exp(-(2.0 * cells["income"].to_numpy() + cells["debt"].to_numpy() - 1.0)))
    return scores


def test_a_linear_score_is_an_equation_whose_weights_known_records_teach(tmp_path: Path) -> None:
    told = found(tmp_path, drawn(score=linear_score()), known=30)
    # What is told of both together is nine tenths of an even column's variance split as the weights are.
    assert parts(told)["income"][0] == "posterior(received, prior=imputation)"
    assert parts(told)["income"][1] == pytest.approx(0.8, abs=0.08)
    # The control is read by the same weights.
    outcomes = AuditFolder(next((tmp_path / "runs").iterdir())).parties.prediction_outcomes()
    assert [one.batch for one in outcomes if one.attack.startswith("posterior")] == [RECEIVED_BATCH, SHUFFLED_BATCH]


def test_two_linear_columns_of_two_secret_ones_tell_both(tmp_path: Path) -> None:
    cells = secret()
    embedding = {"emb_0": cells["income"] - cells["debt"], "emb_1": cells["income"] + 3 * cells["debt"]}
    told = parts(found(tmp_path, drawn(**embedding), known=30))
    for column in ("income", "debt"):
        assert told[column][0] == "posterior(received, prior=imputation)"
        assert told[column][1] > 0.999


def test_of_a_linear_score_regressions_read_what_own_columns_leave(tmp_path: Path) -> None:
    own, theirs = drawn()["own"], secret()
    debt = np.cos(4 * np.pi * theirs["income"])
    points = 2 * own["age"] - 3 * own["visits"] + theirs["income"] + 0.01 * debt
    tables = {**drawn(points=points), "secret": theirs.assign(client=own["client"], debt=debt)}
    # The score tells income, and this tells debt by no line: trees see it where own columns aren't in the score.
    attack, part = parts(found(tmp_path, tables, known=100))["debt"]
    assert attack == "regression(received)"
    assert part > 0.7


def test_who_was_given_the_model_needs_no_known_record_and_nothing_else_is_green(tmp_path: Path) -> None:
    told = found(tmp_path, drawn(score=linear_score()), known=0, is_model_told=True)
    assert parts(told)["income"][0].startswith("posterior(received, prior=")
    assert parts(told)["income"][1] > 0.6
    lights = {one.column: one.light for one in told.answer.columns}
    assert lights["income"] == "red"
    assert "green" not in lights.values()
    assert told.answer.sentence.startswith("Whoever receives received can tell 1 of 3 columns (income) far better")
    assert told.control_words.startswith("The control came out at 0")
    assert "neither" not in told.answer.sentence


def test_leaves_tell_columns_of_the_records_in_them(tmp_path: Path) -> None:
    # Names of leaves are in no order that a number's neighbours could be read off.
    names = np.random.default_rng(1).permutation(90)
    cells = secret()
    leaf = names[np.floor(30 * cells["income"]).astype(int)]
    told = found(tmp_path, drawn(leaf_1=leaf, leaf_2=names[::-1][leaf % 45]), known=100)
    by_attack = {one.attack: one for one in told.predictions.attacks}
    neighbours = next(one for one in by_attack["leaf_neighbours(received)"].columns if one.column == "income")
    part = at(neighbours.levels, KNOWING).part
    assert part is not None
    assert part.mean > 0.8
    assert parts(told)["income"][1] > 0.8


def gradients() -> dict[str, np.ndarray]:
    """Of each record's loss by two sums of a network: along one direction, longer for the rarer class."""
    draw, late = np.random.default_rng(8), secret()["late"].to_numpy() == "yes"
    size = np.where(late, -0.7, 0.3) * draw.uniform(0.8, 1.2, ROWS)
    return {f"grad_{at}": size * along + 0.01 * draw.normal(size=ROWS) for at, along in enumerate((0.8, -0.6))}


def test_gradients_tell_labels_by_direction_and_size_to_who_knows_no_record(tmp_path: Path) -> None:
    told = found(tmp_path, drawn(**gradients()), known=0, label="late")
    assert parts(told)["late"][0] == "gradient_direction(received)"
    assert parts(told)["late"][1] > 0.98
    assert {one.column: one.light for one in told.answer.columns} == {"late": "red", "income": "grey", "debt": "grey"}
    # Of a copy in which each record has another one's nothing is told.
    shuffled = next(one for one in told.shuffled if one.column == "late")
    assert not shuffled.is_exposed()
    outcomes = [one.batch for one in AuditFolder(next((tmp_path / "runs").iterdir())).parties.prediction_outcomes()]
    assert outcomes == [RECEIVED_BATCH, SHUFFLED_BATCH]


def test_leaves_of_trees_tell_the_label_that_they_were_grown_for_to_who_knows_no_record(tmp_path: Path) -> None:
    features, benign = load_breast_cancer(return_X_y=True)
    ids = [f"c{row}" for row in range(len(benign))]
    grown = GradientBoostingClassifier(n_estimators=10, max_depth=3, min_samples_leaf=20, random_state=0)
    leaves = grown.fit(features, benign).apply(features)[:, :, 0].astype(int)
    tables = {
        "own": pd.DataFrame({"client": ids, "luck": np.random.default_rng(3).random(len(ids)).round(3)}),
        "received": pd.DataFrame({"client": ids, **{f"leaf_{at}": leaf for at, leaf in enumerate(leaves.T)}}),
        "secret": pd.DataFrame({"client": ids, "malignant": np.where(benign, "no", "yes")}),
    }
    told = found(tmp_path / "alone", tables, known=0, label="malignant")
    assert parts(told)["malignant"][0] == "leaf_axis(received)"
    assert parts(told)["malignant"][1] > 0.8
    assert not next(one for one in told.shuffled if one.column == "malignant").is_exposed()
    named = found(tmp_path / "named", tables, known=20, label="malignant")
    assert parts(named)["malignant"][1] > 0.8


def test_few_known_labels_name_three_groups_of_gradients(tmp_path: Path) -> None:
    tables, draw = drawn(), np.random.default_rng(2)
    kind = draw.integers(0, 3, ROWS)
    tables["secret"]["plan"] = np.array(["a", "b", "c"])[kind]
    towards = np.eye(3)[kind] - np.full(3, 1 / 3) + 0.02 * draw.normal(size=(ROWS, 3))
    for at_, column in enumerate(towards.T):
        tables["received"][f"grad_{at_}"] = column
    named = found(tmp_path / "named", tables, known=12, label="plan")
    by_attack = {one.attack: one for one in named.predictions.attacks}
    assert {"gradient_direction(received)", "label_completion(received)"} <= set(by_attack)
    assert parts(named)["plan"][1] > 0.95
    # Nobody can say which of three groups is which without.
    alone = found(tmp_path / "alone", tables, known=0, label="plan")
    assert not alone.predictions.attacks
    assert {one.light for one in alone.answer.columns} == {"grey"}
