"""A judge's run on three made-up tables: what is told, what isn't, the control, the files, and what is refused."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import plumbline
from plumbline.audit.folder import AuditFolder
from plumbline.audit.past_runs import past_runs
from plumbline.cli import app
from plumbline.cli.output import ABOVE_THRESHOLD, MENDABLE
from plumbline.received.judging import is_judged, judged_again
from plumbline.received.received_findings import ReceivedFindings, received_answer
from tests.harness.received import Tables, prepared, written

ROWS, KNOWN = 330, 60
CELL = "Quarnbek"


def made() -> Tables:
    """A bank's columns, a vendor's score of income, and the vendor's columns: income is told, luck isn't."""
    draw = np.random.default_rng(3)
    age, income = draw.integers(20, 80, ROWS), draw.normal(3_000, 500, ROWS).round(1)
    ids, plan = [f"c{row:04d}" for row in range(ROWS)], draw.integers(1, 4, ROWS)
    return {
        "own": pd.DataFrame({"client": ids, "age": age, "late": np.where(draw.random(ROWS) < 0.4, "yes", "no")}),
        "received": pd.DataFrame({"client": ids[::-1], "score": (1 / (1 + np.exp((3_000 - income) / 300)))[::-1]}),
        "secret": pd.DataFrame({"client": ids, "income": income, "luck": draw.random(ROWS).round(4), "plan": plan}),
    }


def command(folder: Path, tables: Mapping[str, pd.DataFrame], *more: str) -> tuple[int, str]:
    """Exit status and output of ``plumbline judge``, its lines joined."""
    asked = [text for name, path in written(folder, tables).items() for text in (f"--{name}", path)]
    done = CliRunner(env={"COLUMNS": "250"}).invoke(
        app, ["judge", *asked, "--id", "client", "--runs", str(folder / "runs"), *more]
    )
    return done.exit_code, " ".join(done.output.split())


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[AuditFolder, int, str]:
    folder = tmp_path_factory.mktemp("judged")
    more = (
        "--known",
        str(KNOWN),
        "--label",
        "late",
        "--secret-label",
        "plan",
        "--fail-above",
        ".5",
        "--sensitive",
        "luck",
    )
    status, words = command(folder, made(), *more)
    (run,) = past_runs(folder / "runs")
    return AuditFolder(run.folder), status, words


def test_the_console_says_who_can_tell_what_and_how_the_control_came_out(ran: tuple[AuditFolder, int, str]) -> None:
    _, status, words = ran
    assert status == ABOVE_THRESHOLD, words
    assert "received score: probability (guessed: from 0 to 1)" in words
    assert (
        "Who has 60 of these records in full and receives received can tell 1 of 3 columns (income) far better" in words
    )
    assert "The control came out at 0: a shuffled copy of what was received tells no column beyond chance" in words
    assert "What was received gives away" in words
    assert "above the 50 % of --fail-above" in words


def test_results_have_the_audits_keys_at_the_level_of_records(ran: tuple[AuditFolder, int, str]) -> None:
    found = json.loads(ran[0].results.read_text())
    columns = {one["column"]: one for one in found["answer"]["columns"]}
    assert {one["headline"] for one in columns.values()} == {"records"}
    assert columns["income"]["light"] == "red"
    assert {columns[name]["light"] for name in ("luck", "plan")} <= {"green", "grey"}
    # A label is classes, whatever it looks like.
    assert columns["plan"]["kind"] == "category"
    assert found["answer"]["labels"] == [f"labels: {columns['plan']['sentence']}."]
    assert found["answer"]["light"] == "red"
    assert found["largest_part"] > 0.9
    assert found["auxiliary_records"] == KNOWN
    assert found["records"] == ROWS - KNOWN
    shuffled = {
        one["column"]: next(two for two in one["levels"] if two["level"] == "records") for one in found["shuffled"]
    }
    assert all(one["part"]["mean"] < 0.1 for one in shuffled.values())
    # The same models guess without what was received.
    assert {one["name"].partition(" from")[0] for one in found["baselines"]} >= {"imputation", "regression"}


def test_the_page_has_the_control_and_what_was_received(ran: tuple[AuditFolder, int, str]) -> None:
    page = ran[0].report.read_text()
    for words in ("The control came out at 0", "The same adversaries with a shuffled copy", "guessed: from 0 to 1"):
        assert words in page
    assert "with what was received" in page
    assert "with the federation" not in page


def test_runs_list_it_and_a_report_is_written_again(ran: tuple[AuditFolder, int, str]) -> None:
    (run,) = past_runs(ran[0].path.parent)
    assert run.what == "own.csv + received.csv + secret.csv"
    assert run.light == "red"
    assert run.status == "finished"
    assert is_judged(ran[0])
    before = ran[0].results.read_text()
    ran[0].report.unlink()
    done = CliRunner().invoke(app, ["report", str(ran[0].path)])
    assert done.exit_code == 0, done.output
    assert ran[0].report.exists()
    assert ran[0].results.read_text() == before


def test_a_control_that_tells_something_leaves_grey_whatever_else(ran: tuple[AuditFolder, int, str]) -> None:
    found = judged_again(ran[0])
    told = next(one for one in found.predictions.sources if one.column == "income")
    broken = tuple(told if one.column == "income" else one for one in found.shuffled)
    answer = received_answer(found.facts, found.predictions, broken)
    income = next(one for one in answer.columns if one.column == "income")
    assert income.light == "grey"
    assert "not shown either way" in income.sentence
    assert answer.light == "grey"
    assert "The control failed" in replace(found, shuffled=broken).control_words


def test_a_notebook_takes_frames_and_knows_nobody_unless_told(tmp_path: Path) -> None:
    tables = made()
    three = (tables["own"].set_index("client"), tables["received"], tables["secret"])
    found: ReceivedFindings = plumbline.judge_received(*three, id="client", runs=tmp_path, verbosity="quiet")
    assert {one.light for one in found.answer.columns} == {"grey"}
    assert "was not measured: without complete records" in found.answer.sentence
    assert not found.control_words
    assert found.to_frame()[["party", "light"]].to_numpy().tolist() == [["secret", "grey"]] * 3
    assert str(found).startswith("What received tells of secret was not measured")
    assert "income" in found._repr_html_()
    with pytest.raises(ValueError, match=r"A judge has no option 'knows'\. Did you mean 'known'"):
        plumbline.judge_received(*three, id="client", knows=3)


def test_no_duplicate_of_a_known_record_is_judged(tmp_path: Path) -> None:
    tables = made()
    twins = {name: frame.assign(client="d" + frame["client"]) for name, frame in tables.items()}
    both = {name: pd.concat([frame, twins[name]]) for name, frame in tables.items()}
    _, records = prepared(tmp_path, both, known=KNOWN)
    cells = np.hstack([records.own.features, records.secret.features])
    known = {tuple(row) for row in cells[records.known]}
    assert len(records.judged) < 2 * ROWS - KNOWN
    assert not any(tuple(row) in known for row in cells[records.judged])


def test_a_received_column_that_is_the_secret_or_the_label_is_called_so(tmp_path: Path) -> None:
    tables = made()
    tables["secret"]["income"] += np.arange(ROWS) / 1e6
    income = tables["secret"].set_index("client")["income"].reindex(tables["received"]["client"]).to_numpy()
    late = tables["own"].set_index("client")["late"].reindex(tables["received"]["client"]).to_numpy()
    tables["received"] = tables["received"].assign(points=7 - 2 * income, flag=np.where(late == "yes", "A", "B"))
    tables["received"]["own numbers"] = np.random.default_rng(1).random(ROWS)
    facts, _ = prepared(tmp_path, tables, known=KNOWN, label="late")
    assert [one for one in facts.notes if "'points' is the secret column income itself" in one]
    # No two records are alike in this column nor in income: that alone makes them not one.
    assert not [one for one in facts.notes if "'own numbers'" in one]
    assert [one for one in facts.notes if "'flag' is the label 'late' itself" in one]
    # Nor are any two columns one in which each record has a single other beside it.
    together(tables).assign(luck=lambda one: one["luck"] + 1).to_csv(file := tmp_path / "broker.csv", index=False)
    facts, records = prepared(tmp_path, tables, known_from=str(file), label="late")
    assert len(records.judged) == ROWS
    assert not [one for one in facts.notes if "'own numbers'" in one]


def other_ids(tables: Tables) -> Tables:
    return {**tables, "received": tables["received"].assign(client=[f"x{row}" for row in range(ROWS)])}


def twice(tables: Tables) -> Tables:
    return {**tables, "received": pd.concat([tables["received"], tables["received"]])}


def constant(tables: Tables) -> Tables:
    return {**tables, "received": tables["received"].assign(score=CELL)}


def none(tables: Tables) -> Tables:
    return {**tables, "received": tables["received"].head(0)}


def essays(tables: Tables) -> Tables:
    return {**tables, "received": tables["received"].assign(score=[f"{CELL} {row}" for row in range(ROWS)])}


def told_why(tables: Tables) -> Tables:
    """An explanation in words, of which some rows share one."""
    words = [f"{CELL} {row % 4}" for row in range(ROWS)]
    return {**tables, "received": tables["received"].assign(shap_income=words)}


def percent(tables: Tables) -> Tables:
    return {**tables, "received": tables["received"].assign(score=lambda one: 100 * one["score"])}


def empty(tables: Tables) -> Tables:
    return {**tables, "received": tables["received"].assign(score=np.nan)}


@pytest.mark.parametrize(
    ("change", "more", "words"),
    [
        (other_ids, (), "No id is in all tables"),
        (twice, (), "received (received.csv): There are 330 rows with the id of an earlier row"),
        (none, (), "The table has no rows"),
        (constant, (), "No column is left to learn from"),
        (essays, (), "No column is left to learn from"),
        (empty, (), "No column is left to learn from"),
        (told_why, ("--kind", "shap_income=explanation"), "'shap_income' is text, and --kind calls it explanation"),
        (percent, ("--kind", "probability"), "rows: is it log-odds, points, or percent?"),
        (dict, ("--known", "300"), "are left to judge, beside --known 300 and their duplicates: 50 are needed"),
        (dict, ("--kind", "score=leaf"), "--kind is one of"),
        (dict, ("--drop", "received:nothing"), "No table has a column"),
        (dict, ("--drop", "secret:*"), "secret (secret.csv): The table has no feature columns left"),
        (dict, ("--model", "gone.json"), "--model: there is no file 'gone.json'. Check the path."),
    ],
)
def test_what_cant_be_judged_is_a_sentence_without_a_cell(tmp_path: Path, change: Any, more: Any, words: str) -> None:
    status, output = command(tmp_path, change(made()), *more)
    assert status == MENDABLE, output
    assert words in output
    assert CELL not in output
    assert not (tmp_path / "runs").exists()


def test_larger_tables_are_read_where_a_variable_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_TABLE_COLUMNS", "3")
    status, output = command(tmp_path, made())
    assert status == MENDABLE
    assert "secret (secret.csv): The table has 4 columns, and 3 are read" in output
    monkeypatch.setenv("PLUMBLINE_TABLE_COLUMNS", "4")
    assert command(tmp_path, made(), "--dry-run")[0] == 0


def test_gaps_and_what_tells_nothing_are_said_and_judged_without(tmp_path: Path) -> None:
    tables = made()
    row = np.arange(ROWS)
    score = np.where(row % 7 == 0, np.nan, np.where(row % 7 == 1, np.inf, tables["received"]["score"]))
    tables["received"] = tables["received"].assign(score=score, same=CELL, said=[f"{CELL} {one}" for one in row])
    facts, records = prepared(tmp_path, tables, known=KNOWN)
    # The number, and whether there is one.
    assert records.received.shape == (ROWS, 2)
    assert np.isfinite(records.received).all()
    assert records.received[:, 1].sum() == (~np.isfinite(score)).sum()
    assert facts.left_out == {
        "same": "left out: every row has the same value",
        "said": "left out: most rows have a text of their own",
    }


def test_of_five_known_records_nothing_is_shown_and_nothing_green(tmp_path: Path) -> None:
    status, output = command(tmp_path, made(), "--known", "5")
    assert status == 0
    assert "5 known records teach next to nothing: 20 and more make a judgement." in output
    (run,) = past_runs(tmp_path / "runs")
    found = json.loads(AuditFolder(run.folder).results.read_text())
    assert "green" not in {one["light"] for one in found["answer"]["columns"]}


def test_a_dry_run_says_what_would_be_judged_and_writes_nothing(tmp_path: Path) -> None:
    status, output = command(tmp_path, made(), "--known", "60", "--dry-run")
    assert status == 0
    assert "270 records are judged; the receiver has own columns of all of them and 60 more" in output
    assert not (tmp_path / "runs").exists()


def together(tables: Tables) -> pd.DataFrame:
    """The three tables as one, of other persons."""
    own, received, secret = tables.values()
    return own.merge(received, on="client").merge(secret, on="client").assign(client=lambda one: "k" + one["client"])


def test_records_of_others_are_known_and_none_of_them_is_judged(tmp_path: Path) -> None:
    tables = made()
    broker = together(tables).head(80)
    broker["income"] += 0.05
    # One has an id of the judged, one all cells of another.
    broker.loc[0, "client"] = tables["own"]["client"][0]
    broker.loc[1, "income"] = tables["secret"]["income"][1]
    broker.to_csv(file := tmp_path / "broker.csv", index=False)
    facts, records = prepared(tmp_path, tables, known=0, known_from=str(file), label="late")
    assert facts.known == 80
    assert len(records.judged) == ROWS - 2
    assert len(records.received) == ROWS + 80
    assert records.own.labels is not None
    assert records.own.labels.min() >= 0


def test_known_records_without_a_column_are_refused(tmp_path: Path) -> None:
    tables = made()
    together(tables).drop(columns="luck").to_csv(file := tmp_path / "broker.csv", index=False)
    status, output = command(tmp_path, tables, "--known-from", str(file))
    assert status == MENDABLE
    assert output.count("known (broker.csv)") == output.count("luck") == 1
    status, output = command(tmp_path, tables, "--known-from", str(file), "--known", "9")
    assert "--known-from has the known records, and --known draws some: give one of them." in output
    together(tables).to_csv(file, index=False)
    status, output = command(tmp_path, tables, "--known-from", str(file))
    assert status == MENDABLE
    assert "beside the 330 of --known-from and their duplicates: 50 are needed. Bring records of other" in output
    status, output = command(tmp_path, tables, "--secret-label", "plans")
    assert status == MENDABLE
    assert "No table has a column 'secret:plans', which --secret-label names. Did you mean 'plan'?" in output
