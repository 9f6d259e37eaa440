"""The run folder: what is written reads back equal, what is wrong is said, and nobody else knows its names."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks.training.recovered_values import value_arrays
from services.common import run_records
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.run_records import (
    SCHEMA,
    ChannelRecord,
    DefencePrediction,
    DeliveredScores,
    EpochRecord,
    Estimates,
    FoundLabels,
    FoundValues,
    PartyFeatures,
    PartyRecord,
    PartyWeights,
    PredictionAttackOutcome,
    StepRecord,
    TrainingAttackOutcome,
)

ROOT = Path(__file__).parents[4]
RECORDS = [
    one for one in vars(run_records).values() if isinstance(one, type) and one.__module__ == run_records.__name__
]
TRAFFIC = PartyRecord(bytes_by_message={"Join: A": 3}, peak_memory_bytes=7)
PARTIES = tuple(PartyDescription(name, 2, 0, False, 5) for name in ("active", "passive"))
FULL = replace(
    TRAFFIC,
    agreement=Agreement(
        "5e55104e" * 4, TrainingPlan(epochs=2, batch_size=4, learner_options={"l2": 0.1}), 2, PARTIES, ("class_label",)
    ),
    steps=(StepRecord(0, {"encrypt": 0.5, "wait": 0.25}), StepRecord(1, {})),
    warnings=("Look out.",),
    simulation=(),
    class_names=("no", "yes"),
    transport="mtls",
    attacks=("half",),
    defences=("dp_noise",),
    predictions=(DefencePrediction("dp_noise", {"sigma": 0.5, "levels": {"epsilon": 1.0}, "note": ""}),),
    channels=(ChannelRecord("active", "passive", 4, 2, 64, 2, 30, 20, 3, 4, 1),),
    guard=(),
    epochs=(EpochRecord(0, 0.7, 1.5),),
    kept_epoch=0,
    validation_rows=1,
)
NUMBERS = np.arange(6, dtype=np.float64).reshape(3, 2)
ROWS = np.array([2, 0, 1])


def equal(one: Any, other: Any) -> bool:
    """Whether two objects of the same class hold the same arrays."""
    pairs = [(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)]
    return type(one) is type(other) and all(np.array_equal(left, right) for left, right in pairs)


# -- what is written reads back ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [TRAFFIC, FULL], ids=["without a session", "full"])
def test_a_record_reads_back_equal(tmp_path: Path, record: PartyRecord) -> None:
    RunFolder(tmp_path / "new").write_record("active", record)
    assert RunFolder(tmp_path / "new").record("active") == record
    assert RunFolder(tmp_path / "new").records() == {"active": record}


def test_a_record_has_the_keys_that_it_always_had_and_a_schema(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_record("passive", TRAFFIC)
    assert json.loads((tmp_path / "passive.json").read_text()) == {
        "schema": SCHEMA,
        "bytes_by_message": {"Join: A": 3},
        "peak_memory_bytes": 7,
    }
    folder.write_record("active", FULL)
    content = json.loads((tmp_path / "active.json").read_text())
    assert content["steps"] == [{"step": 0, "encrypt": 0.5, "wait": 0.25}, {"step": 1}]
    assert content["predictions"] == [
        {"defence": "dp_noise", "sigma": 0.5, "levels": {"epsilon": 1.0}, "note": ""},
    ]
    assert FULL.agreement is not None
    written = json.loads(json.dumps(asdict(FULL.agreement)))
    written["plan"] |= written["plan"].pop("learner_options")
    for party in written["parties"]:
        # Of a first session.
        assert party.pop("roster") is None
    assert content["agreement"] == written


def test_scores_of_the_test_are_read_from_their_file_and_from_an_older_record(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    agreement = FULL.agreement
    assert agreement is not None
    folder.write_record("active", FULL)
    assert folder.delivered_scores(agreement).scores.shape == (0, 2)
    older = {"test_rows": [4, 2], "test_scores": [[0.25, 0.75], [0.5, 0.5]], "test_labels": [1, 0]}
    path = tmp_path / "active.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | older))
    assert folder.record("active") == FULL
    read = folder.delivered_scores(agreement)
    assert {f"test_{name}": array.tolist() for name, array in vars(read).items()} == older
    written = DeliveredScores(ROWS, np.ones((3, 2)) / 2, ROWS % 2)
    folder.write_delivered_scores("active", written)
    assert equal(folder.delivered_scores(agreement), written)


@pytest.mark.parametrize(
    "change",
    [
        {"test_scores": [[0.25, 0.75], [0.5]]},
        {"test_scores": [[0.25], [0.5]]},
        {"test_scores": None},
        {"test_labels": [1]},
        {"test_labels": [2, 0]},
        {"test_labels": ["a", "b"]},
        {"test_rows": [4, 5]},
        {"test_rows": [-1, 2]},
    ],
)
def test_broken_scores_of_an_older_record_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    folder, path = RunFolder(tmp_path), tmp_path / "active.json"
    folder.write_record("active", FULL)
    older = {"test_rows": [4, 2], "test_scores": [[0.25, 0.75], [0.5, 0.5]], "test_labels": [1, 0]}
    path.write_text(json.dumps(json.loads(path.read_text()) | older | change))
    assert FULL.agreement is not None
    with pytest.raises(RunFolderError, match=r"active\.json is broken"):
        folder.delivered_scores(FULL.agreement)


def test_arrays_read_back_equal(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    weights = PartyWeights(NUMBERS, np.array(["a", "b", "bias"]))
    folder.write_part("passive-1", {"weights": weights.weights}, weights.features)
    assert equal(folder.weights("passive-1"), weights)
    for features in (PartyFeatures(NUMBERS, np.array(["a", "b"])), PartyFeatures(NUMBERS, np.array(["a", "b"]), ROWS)):
        folder.write_features("active", features)
        assert equal(folder.features("active"), features)
    np.testing.assert_array_equal(folder.labels(), ROWS)
    folder.write_estimates(3, Estimates(ROWS, {"half": NUMBERS, "ls": -NUMBERS}))
    found = folder.estimates(3)
    np.testing.assert_array_equal(found.rows, ROWS)
    assert set(found.by_attack) == {"half", "ls"}
    np.testing.assert_array_equal(found.by_attack["ls"], -NUMBERS)
    assert found.auxiliary_rows is None
    folder.write_estimates(4, Estimates(ROWS, {"posterior(prior=mean)": NUMBERS}, ROWS[:2]))
    found = folder.estimates(4)
    assert set(found.by_attack) == {"posterior(prior=mean)"}
    np.testing.assert_array_equal(found.auxiliary_rows, ROWS[:2])
    labels = FoundLabels(ROWS, ROWS, ROWS, ROWS, ROWS > 0, np.full((len(ROWS), 2), 0.5), ROWS[:2])
    folder.write_training_arrays("passive", "label_recovery", vars(labels))
    assert equal(folder.found_labels("passive", "label_recovery"), labels)
    values = {"passive-1": FoundValues(NUMBERS, ROWS), "active": FoundValues(NUMBERS[:, 0])}
    arrays = value_arrays({"passive-1": NUMBERS}, {"passive-1": ROWS}) | value_arrays({"active": NUMBERS[:, 0]})
    folder.write_training_arrays("passive-2", "x", arrays)
    read = folder.found_values("passive-2", "x")
    assert set(read) == set(values)
    assert all(equal(read[peer], one) for peer, one in values.items())


def test_outcomes_read_back_equal_and_there_are_none_without_attacks(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.prediction_outcomes() == ()
    assert folder.training_outcomes() == ()
    predicted = (
        PredictionAttackOutcome(attack="half", batch=0, records=3, status="done", seconds=0.5),
        PredictionAttackOutcome(
            attack="imputation", batch=0, records=3, status="done", level="records", sees_scores=False, seconds=0.5
        ),
        PredictionAttackOutcome(attack="gia", batch=0, records=3, status="failed", reason="No.", seconds=0.5),
    )
    folder.write_prediction_outcomes(predicted)
    assert folder.prediction_outcomes() == predicted
    assert [one.is_done for one in predicted] == [True, True, False]
    trained = TrainingAttackOutcome(
        attack="x", party="passive", kind="labels", facts={"rank": [1]}, status="done", reason="", seconds=1.0
    )
    folder.write_training_outcomes("passive", [trained])
    folder.write_training_outcomes("active", [replace(trained, party="active")])
    assert folder.training_outcomes() == (replace(trained, party="active"), trained)
    (content,) = json.loads((tmp_path / "attacks" / "training-passive.json").read_text())
    assert content == {"schema": SCHEMA, "attack": "x", "party": "passive", "kind": "labels", "rank": [1]} | {
        "status": "done",
        "reason": "",
        "seconds": 1.0,
    }


# -- what is wrong is said --------------------------------------------------------------------------------------------


def broken(change: Callable[[dict[str, Any]], object]) -> str:
    """The full record's text after a change."""
    content = json.loads(json.dumps(run_records.content_of(FULL)))
    change(content)
    return json.dumps(content)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "active.json is missing: its party writes it when training ends. See that party's log"),
        ("{", r"active.json is broken: .*line 1"),
        ("[]", "active.json has no schema number"),
        (broken(lambda content: content.pop("schema")), "active.json has no schema number"),
        (broken(lambda content: content.update(schema=99)), "has schema 99 and this version of Plumbline reads 1"),
        (broken(lambda content: content.pop("bytes_by_message")), "broken at bytes_by_message: expected an entry"),
        (broken(lambda content: content["agreement"]["plan"].update(epochs="many")), r"at agreement\.plan\.epochs: "),
        (broken(lambda content: content["steps"][1].pop("step")), r"at steps\.1\.step: expected an entry"),
        (broken(lambda content: content.update(steps=3)), "at steps: "),
        (broken(lambda content: content["steps"][0].update(wait="long")), r"at steps\.0\.seconds\.wait: "),
        (broken(lambda content: content["predictions"].append(4)), r"at predictions\.1"),
    ],
)
def test_a_missing_or_broken_record_is_named_with_what_is_wrong(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "active.json").write_text(text)
    with pytest.raises(RunFolderError, match=words) as error:
        RunFolder(tmp_path).record("active")
    assert str(tmp_path) in str(error.value)


def test_missing_and_broken_arrays_are_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with pytest.raises(RunFolderError, match=r"passive-weights\.npz is missing"):
        folder.weights("passive")
    (tmp_path / "passive-weights.npz").write_bytes(b"no archive")
    with pytest.raises(RunFolderError, match=r"passive-weights\.npz is broken"):
        folder.weights("passive")
    np.savez(tmp_path / "passive-weights.npz", weights=NUMBERS)
    with pytest.raises(RunFolderError, match=r"passive-weights\.npz is broken: it lacks the array features"):
        folder.weights("passive")
    folder.write_features("active", PartyFeatures(NUMBERS, np.array(["a", "b"])))
    with pytest.raises(RunFolderError, match="lacks the array labels"):
        folder.labels()
    folder.write_training_arrays("active", "x", {"half": NUMBERS})
    (tmp_path / "attacks" / "training-active-x.npz").rename(tmp_path / "attacks" / "estimates-0.npz")
    with pytest.raises(RunFolderError, match=r"estimates-0\.npz is broken: it lacks the array rows"):
        folder.estimates(0)


@pytest.mark.parametrize("text", ["{}", '[{"attack": "half"}]', "[3]", "no"])
def test_broken_outcomes_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "attacks").mkdir()
    for name in ("outcomes.json", "training-active.json"):
        (tmp_path / "attacks" / name).write_text(text)
    with pytest.raises(RunFolderError, match=r"outcomes\.json"):
        RunFolder(tmp_path).prediction_outcomes()
    with pytest.raises(RunFolderError, match=r"training-active\.json"):
        RunFolder(tmp_path).training_outcomes()


# -- who knows its names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [*RECORDS, Agreement, TrainingPlan, PartyDescription], ids=lambda one: one.__name__)
def test_the_page_names_every_field_in_its_own_section(record: Any) -> None:
    page = (ROOT / "docs" / "reference" / "run-folder.md").read_text()
    sections = re.split(r"^##+ ", page, flags=re.MULTILINE)
    (own,) = [text for text in sections if record.__name__ in re.split(r"[ ,\n]+", text.split("\n")[0])]
    assert not [field.name for field in fields(record) if f"`{field.name}`" not in own]


def test_the_page_names_every_stage() -> None:
    page = (ROOT / "docs" / "reference" / "run-folder.md").read_text()
    assert not [stage for stage in run_records.STAGES if f"`{stage}`" not in page]


def literals_of(path: Path) -> Iterator[str]:
    """Strings of a module that aren't docstrings, also those within f-strings."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def keys_of(path: Path) -> Iterator[str]:
    """Strings by which a module looks up something."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            yield str(node.slice.value)


def test_no_other_product_code_spells_the_files_or_keys_of_the_run_folder() -> None:
    own = {ROOT / "services" / "common" / f"{name}.py" for name in ("run_folder", "run_records")}
    others = [path for package in ("services", "plumbline") for path in (ROOT / package).rglob("*.py")]
    file = re.compile(r"-features\.npz|-weights\.npz|^estimates-|^training-|outcomes\.json|^values-|^rows-|^\*\.json$")
    names = {field.name for record in RECORDS for field in fields(record)}
    # Names of one word are common: they are looked for where the folder is used.
    telling = {name for name in names if "_" in name}
    readers = {path for path in others if "run_folder import" in path.read_text()} - own
    # Studies and sweeps that read no run have columns of their own, some of the same name.
    apart = {path for room in ("simulation", "cells") for path in (ROOT / "plumbline" / room).rglob("*.py")}
    # It reads results.json, where some names of records stand as well.
    apart.add(ROOT / "plumbline" / "audit" / "past_runs.py")
    assert {"record.py", "training.py", "predictions.py", "summary.py", "federation.py"} <= {
        one.name for one in readers
    }
    wrong = [
        f"{path.relative_to(ROOT)} spells {text!r}"
        for path in others
        if path not in own | (apart - readers)
        for text in literals_of(path)
        if file.search(text) or text in telling
    ]
    wrong += [f"{path.relative_to(ROOT)} looks up {key!r}" for path in readers for key in keys_of(path) if key in names]
    assert not wrong
