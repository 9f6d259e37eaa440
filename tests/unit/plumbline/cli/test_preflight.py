"""``plumbline preflight``: theory's bounds of one's own table, in words and as JSON, and what is refused."""

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from plumbline.cli import app
from plumbline.telling.numbers import percent
from services.common.agreement import Agreement, TrainingPlan
from services.party.features import description_of
from tests.harness.restarts import IDS, town
from vfl.crypto.sharing.shared_squares import WORD_BITS
from vfl.data import GriddedFeatures, fit_encoder
from vfl.theory.prediction import equations, moments, prediction_errors, preflight_bounds


def run(*arguments: str) -> tuple[int, str]:
    """Exit status and output, its lines joined."""
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["preflight", *arguments])
    return done.exit_code, " ".join(done.output.split())


def table(tmp_path: Path, columns: int = 5, **more: Any) -> tuple[str, np.ndarray]:
    """A table of dependent columns on scales of their own."""
    generator, rows = np.random.default_rng(0), 80
    features = generator.normal(size=(rows, columns)) @ generator.normal(size=(columns, columns)) * 10.0 + 3
    frame = pd.DataFrame(features, columns=[f"c{column}" for column in range(columns)])
    frame.insert(0, "client", [f"r{row}" for row in range(rows)])
    path = tmp_path / "own.csv"
    frame.assign(**more).to_csv(path, index=False)
    return str(path), features


def facts(*arguments: str) -> dict[str, object]:
    done = CliRunner().invoke(app, ["preflight", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.output)
    return found


def test_the_numbers_are_theorys_of_the_table_as_a_party_encodes_it(tmp_path: Path) -> None:
    path, features = table(tmp_path)
    encoded = fit_encoder("minmax", features).transform(features)
    expected = preflight_bounds(encoded, 3)
    found = facts(path, "--classes", "3", "--id", "client")
    assert (found["rows"], found["features"], found["classes"]) == (80, 5, 3)
    bounds = found["bounds"]
    assert isinstance(bounds, dict)
    assert (bounds["rank"], bounds["nullity"], bounds["fully_determined"]) == (2, 3, False)
    for name in ("half_star", "least_squares", "mean_star"):
        assert bounds[name]["lower"] == pytest.approx(getattr(expected, name).lower)
        assert bounds[name]["upper"] == pytest.approx(getattr(expected, name).upper)
    columns = found["columns"]
    assert isinstance(columns, list)
    assert [column["name"] for column in columns] == ["c0", "c1", "c2", "c3", "c4"]
    assert np.mean([column["mean"] for column in columns]) == pytest.approx(bounds["mean"])
    assert np.mean([column["half"] for column in columns]) == pytest.approx(bounds["half"])


def test_the_limit_of_all_sessions_is_told_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = table(tmp_path)
    monkeypatch.setenv("PLUMBLINE_MOST_EQUATIONS", "0.5")
    found = facts(path, "--classes", "2", "--id", "client")
    assert (found["share"], found["most_equations"], found["sessions"]) == (0.5, 2, 2)
    monkeypatch.setenv("PLUMBLINE_MOST_EQUATIONS", "0.9")
    found = facts(path, "--classes", "3", "--id", "client")
    assert (found["share"], found["most_equations"], found["sessions"]) == (0.9, 4, 2)
    status, output = run(path, "--classes", "3", "--id", "client")
    assert status == 0
    assert (
        "With PLUMBLINE_MOST_EQUATIONS=0.9 at most 4 of a record are answered per active party: 2 sessions." in output
    )


def test_who_waits_for_a_batch_is_told_where_batches_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with town(tmp_path / "town", epochs=1, batch_size=55, validation_fraction=0.0, test_fraction=0.0) as home:
        home.train()
    path, _ = table(tmp_path)
    monkeypatch.setenv("PLUMBLINE_STATE_DIR", str(tmp_path))
    assert facts(path, "--classes", "2", "--id", "client")["waiting"] == []
    monkeypatch.setenv("PLUMBLINE_STATE_DIR", str(tmp_path / "town" / "state" / "passive"))
    least = 0
    for ids, newcomers, others in (
        (IDS, 0, 0),
        ([*IDS, "a", "b", "c"], 3, 0),
        # Of one batch that lacks a member, all others wait.
        ([*IDS[1:], "a"], 1, len(IDS) - 1),
        ([*IDS, *map(str, range(1_000))], 1_000, 0),
    ):
        pd.DataFrame({"client": ids, "c": np.arange(len(ids)), "d": np.arange(len(ids)) % 7}).to_csv(path, index=False)
        (found,) = cast("list[dict[str, Any]]", facts(path, "--classes", "2", "--id", "client")["waiting"])
        least = found["least"]
        fills = newcomers >= least
        assert (found["newcomers"], found["waiting"]) == (newcomers, others + (0 if fills else newcomers))
        told = (
            "no new one waits."
            if not newcomers
            else f"{newcomers:,} new rows would fill batches of their own."
            if fills
            else f"would wait: {least - newcomers} more fill a batch."
        )
        assert told in run(path, "--classes", "2", "--id", "client")[1]
    assert 3 < least <= 1_000


def test_what_training_tells_of_labels_is_told_beforehand(tmp_path: Path) -> None:
    path, values = table(tmp_path)
    told = str(facts(path, "--classes", "2", "--id", "client")["labels"])
    rows, columns = values.shape
    assert f"{columns} honest sums of each batch, so {columns / rows:.2f} to a record where a batch is all" in told
    assert "PLUMBLINE_MOST_SUMS" in told


def test_what_epochs_of_training_add_up_to_is_told_beforehand(tmp_path: Path) -> None:
    path, values = table(tmp_path)
    columns = values.shape[1]
    two = str(facts(path, "--classes", "2", "--id", "client")["training"])
    assert f"1 sum of the columns of every record in an epoch, and {columns} tell a whole record" in two
    assert f"those of {columns} epochs, in all sessions" in two
    assert f"all columns of at most one record for each {columns} sums that the answers have room for" in two
    three = str(facts(path, "--classes", "3", "--id", "client")["training"])
    assert f"those of {-(-columns // 3)} epochs" in three
    assert "3 sums of the columns of every record" in three


def agreed(protocol: str, values: np.ndarray, classes: int) -> Agreement:
    """What a service would agree to with this table, and another of as many columns."""
    gridded = GriddedFeatures.of(fit_encoder("minmax", values).transform(values))
    parties = tuple(description_of(name, gridded) for name in ("active", "passive"))
    plan = TrainingPlan(1, len(values), protocol=protocol, validation_fraction=0.0, test_fraction=0.0)
    return Agreement("0" * 32, plan, classes, parties)


@pytest.mark.parametrize("classes", [2, 3])
def test_counts_of_training_are_those_of_a_sessions_guard(tmp_path: Path, classes: int) -> None:
    path, values = table(tmp_path)
    agreement = agreed("hu", values, classes)
    exposures = {one.party: one for one in agreement.plan.training.exposures(agreement)}
    told = str(facts(path, "--classes", str(classes), "--id", "client")["training"])
    assert f"have room for: {exposures['active'].equations} in every step" in told
    # More than what honest messages ask for.
    honest = values.shape[1] * (1 if classes == 2 else classes)
    assert f"an honest party of as many columns is answered with {honest}." in told
    assert exposures["active"].equations > honest


def test_that_weights_stay_shared_is_told_as_a_session_has_it(tmp_path: Path) -> None:
    path, values = table(tmp_path)
    told = str(facts(path, "--classes", "2", "--id", "client")["opening"])
    assert not agreed("shared", values, 2).serving.tells_owners
    assert "weights stay shared and none are opened, unless every party sets PLUMBLINE_OPENING=always" in told


def test_what_shared_weights_open_is_told_beforehand(tmp_path: Path) -> None:
    path, values = table(tmp_path)
    rows, columns = len(values), values.shape[1]
    opening = str(facts(path, "--classes", "2", "--id", "client")["opening"])
    assert f"this one {24 * columns:,} bits, where {rows:,} labels of 2 classes have {rows:,} at most" in opening
    assert f"24 bits for each of its columns, where a record of this table has {16 * columns:,}." in opening
    assert f"each epoch that is validated tells the active party {WORD_BITS} bits more" in opening
    # Three classes have three columns of weights, and labels of log2 3 bits.
    assert f"{72 * columns:,} bits" in str(facts(path, "--classes", "3", "--id", "client")["opening"])


def test_whatever_the_model_its_errors_lie_within_the_bounds(tmp_path: Path) -> None:
    path, features = table(tmp_path)
    encoded = fit_encoder("minmax", features).transform(features)
    bounds = facts(path, "--classes", "3", "--id", "client")["bounds"]
    assert isinstance(bounds, dict)
    own, generator = moments(encoded), np.random.default_rng(1)
    for _ in range(50):
        errors = prediction_errors(equations(generator.normal(size=(3, 5))), own)
        assert bounds["half_star"]["lower"] <= errors.half_star.value <= bounds["half_star"]["upper"]
        assert bounds["least_squares"]["lower"] <= errors.least_squares.value <= bounds["least_squares"]["upper"]
        # eq. 52 is the error of the attack that knows the mean.
        assert bounds["floor"] <= errors.floor <= bounds["mean_star"]["upper"]


def test_words_say_how_much_leaks_of_what_and_what_to_do(tmp_path: Path) -> None:
    path, features = table(tmp_path)
    bounds = preflight_bounds(fit_encoder("minmax", features).transform(features), 3)
    status, shown = run(path, "--classes", "3", "--id", "client")
    assert status == 0
    assert "Of the 5 directions in which records differ, 2 are computed exactly, and 3 can't be." in shown
    least, most = 1 - bounds.mean_star.upper / bounds.mean, 1 - bounds.mean_star.lower / bounds.mean
    assert f"who knows the columns' means learns {percent(least)} to {percent(most)} of what they leave open" in shown
    assert "If that is too much: fewer classes or more columns hide more" in shown
    assert f"│ half*: from the scores │ {bounds.half_star.lower:.4f} │ {bounds.half_star.upper:.4f} │" in shown
    assert all(f"│ c{column} │" in shown for column in range(5))


def test_fewer_columns_than_classes_are_told_in_full(tmp_path: Path) -> None:
    path, _ = table(tmp_path, columns=3)
    status, shown = run(path, "--classes", "4", "--id", "client")
    assert status == 0
    assert "Every value of every record can be computed from its scores: 4 classes give 3 equations" in shown
    assert "Join with 4 columns or more" in shown


def test_a_single_equation_and_column_are_told_in_the_singular(tmp_path: Path) -> None:
    path, _ = table(tmp_path, columns=1)
    _, shown = run(path, "--classes", "2", "--id", "client")
    assert "2 classes give 1 equation, for 1 column." in shown


@pytest.mark.parametrize(("name", "as_shown"), [("[/]", "[/]"), ("[red]x", "[red]x"), ("a\x1b[31mb", "a\\x1b[31mb")])
def test_columns_may_be_called_anything(tmp_path: Path, name: str, as_shown: str) -> None:
    more: dict[str, Any] = {name: np.arange(80)}
    path, _ = table(tmp_path, **more)
    status, shown = run(path, "--classes", "2", "--id", "client")
    assert status == 0
    assert f"│ {as_shown} │" in shown


def test_nothing_but_the_table_is_needed_and_nothing_of_it_is_shown(tmp_path: Path) -> None:
    path, features = table(tmp_path)
    _, shown = run(path, "--classes", "2", "--id", "client")
    assert "r17" not in shown
    assert f"{features[0, 0]:.2f}" not in shown


@pytest.mark.parametrize(
    ("more", "arguments", "sentence"),
    [
        ({}, ["--classes", "1"], "A classifier needs at least 2 classes, got 1."),
        ({}, ["--classes", "2", "--id", "id"], "There is no id column 'id'"),
    ],
)
def test_what_cant_be_used_is_refused_in_one_sentence(
    tmp_path: Path, more: dict[str, Any], arguments: list[str], sentence: str
) -> None:
    path, _ = table(tmp_path, **more)
    status, shown = run(path, *(["--id", "client"] if "--id" not in arguments else []), *arguments)
    assert status == 2
    assert shown.startswith("plumbline: ")
    assert sentence in shown
    assert "Traceback" not in shown


def test_raw_columns_are_taken_as_an_audit_takes_them(tmp_path: Path) -> None:
    more: dict[str, Any] = {
        "flat": 1.0,
        "empty": np.nan,
        "city": ["Bern", "Ulm"] * 40,
        "gap": [np.nan, 1.0, 2.0, 3.0] * 20,
    }
    path, _ = table(tmp_path, **more)
    status, shown = run(path, "--classes", "2", "--id", "client")
    assert status == 0
    assert "Column flat is left out: every row has the same value." in shown
    assert "Column empty is left out: every cell is empty." in shown
    for feature in ("city=Bern", "city=Ulm", "gap is missing"):
        assert feature in shown


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    status, shown = run(str(tmp_path / "none.csv"), "--classes", "2")
    assert status == 2
    assert "There is no file" in shown
    assert "check the path" in shown
