"""Who a model was trained on: told by scores that are too sure of their labels, and not by others."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attacks.prediction.received_columns import loss_threshold
from plumbline.audit.folder import AuditFolder
from plumbline.audit.past_runs import past_runs
from plumbline.cli.output import MENDABLE
from tests.harness.received import Tables
from tests.unit.plumbline.received.test_judging import command

ROWS = 400
JUDGES = pytest.mark.slow("judges a run")


def tables(*, is_overfit: bool) -> Tables:
    """A score of a label; where it is overfit, it is sure of the labels of those that it was trained on."""
    draw = np.random.default_rng(2)
    label, member = draw.random(ROWS) < 0.5, draw.random(ROWS) < 0.5
    odds = np.where(label, 1.0, -1.0) + draw.normal(size=ROWS)
    if is_overfit:
        odds = np.where(member, np.where(label, 6.0, -6.0) + draw.normal(size=ROWS), odds)
    ids = [f"c{row}" for row in range(ROWS)]
    return {
        "own": pd.DataFrame({"client": ids, "age": draw.random(ROWS), "late": np.where(label, "yes", "no")}),
        "received": pd.DataFrame({"client": ids, "score": 1 / (1 + np.exp(-odds))}),
        "secret": pd.DataFrame({"client": ids, "debt": draw.random(ROWS), "member": np.where(member, "yes", "no")}),
    }


def membership(folder: Path, *more: str, is_overfit: bool) -> tuple[dict[str, object], str]:
    """What a run found, and the words of its row."""
    status, output = command(folder, tables(is_overfit=is_overfit), "--label", "late", "--trained", "member", *more)
    assert status == 0, output
    (run,) = past_runs(folder / "runs")
    persons = json.loads(AuditFolder(run.folder).results.read_text())["persons"]
    row = next(one for one in persons["rows"] if one["name"] == "membership inference")
    assert row["words"] in AuditFolder(run.folder).report.read_text()
    return persons["membership"], row["words"]


@JUDGES
def test_a_score_that_is_too_sure_of_its_labels_tells_who_was_trained_on(tmp_path: Path) -> None:
    found, words = membership(tmp_path, "--known", "60", is_overfit=True)
    assert words.startswith("found: ")
    attacks = {one["name"]: one for one in found["attacks"]}  # type: ignore[attr-defined]
    assert attacks["threshold(received)"]["auc"] > 0.95
    assert attacks["threshold(received)"]["found"]["mean"] > 0.8
    assert found["control"]["found"]["mean"] < 0.1  # type: ignore[index]
    assert found["trained"] + found["others"] == ROWS - 60  # type: ignore[operator]


@JUDGES
def test_of_a_score_that_isnt_nothing_is_said_to_be_found(tmp_path: Path) -> None:
    found, words = membership(tmp_path, "--known", "60", is_overfit=False)
    assert words.startswith("not beyond chance: ")
    assert 0.4 < found["control"]["auc"] < 0.6  # type: ignore[index]


@JUDGES
def test_few_of_either_kind_are_not_measured(tmp_path: Path) -> None:
    found, words = membership(tmp_path, "--known", "250", is_overfit=True)
    assert not found["attacks"]
    assert "100 of each are needed to speak of one in a hundred" in words


@pytest.mark.parametrize(
    ("column", "words"), [("debt", "'debt' has to say yes or no"), ("members", "which --trained names")]
)
def test_a_column_that_says_something_else_is_refused(tmp_path: Path, column: str, words: str) -> None:
    status, output = command(tmp_path, tables(is_overfit=True), "--known", "60", "--trained", column)
    assert status == MENDABLE
    assert words in output


def test_the_surest_are_ranked_first_whatever_the_scale_and_direction() -> None:
    labels = np.array([0, 1, 0, 1, 0, 1, -1])
    points = np.array([[-1.0], [1.0], [-2.0], [2.0], [-3.0], [3.0], [0.0]])
    believed = loss_threshold(-100 * points + 600, labels, 2 / 7)
    assert (believed > 0.5).sum() == 2
    assert set(np.flatnonzero(believed > 0.5)) == {4, 5}
    assert believed[6] == pytest.approx(np.median(believed), abs=0.2)
    # Of labels of one class nothing is known.
    assert np.ptp(loss_threshold(points, np.zeros(7, dtype=np.int64), 0.5)) == 0
