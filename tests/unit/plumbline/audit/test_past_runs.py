"""Runs of a folder: their order, their status, and which one a person means."""

import json
from pathlib import Path
from typing import Any

import pytest

from plumbline.audit.configuration import write_configuration
from plumbline.audit.folder import run_at_work
from plumbline.audit.past_runs import Fact, compare_runs, find_run, option_words, past_runs, what_was_asked
from plumbline.audit.request import AuditRequest

OLDER, NEWER = "20260101-120000-wine", "20260202-120000-second"


def make_run(folder: Path, results: dict[str, Any] | None = None, **asked: Any) -> Path:
    folder.mkdir(parents=True)
    write_configuration(folder, AuditRequest.of(**{"data": "wine", **asked}), asked.get("settings", {}))
    if results is not None:
        (folder / "results.json").write_text(json.dumps(results))
    return folder


def results_of(part: float | None, accuracy: float) -> dict[str, Any]:
    verdict = None if part is None else {"mean": part, "low": 0, "high": 1}
    levels = [{"level": "nothing", "part": {"mean": 0.9}}, {"level": "marginals", "part": verdict}]
    column = {"party": "passive", "column": "hue", "levels": levels}
    attack = {"attack": "own_part", "party": "passive", "kind": "labels", "success": accuracy, "seconds": 1.0}
    return {
        "accuracy": accuracy,
        "auc": None,
        "answer": {"sentence": f"Part {part}.", "columns": [column]},
        "training_attacks": [attack, {**attack, "attack": "label_recovery", "kind": "", "success": float("nan")}],
        "steps": 7,
        "bytes_by_message": {"Align": 500_000, "Ask": 1_000_000},
    }


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    make_run(tmp_path / OLDER, results_of(0.25, 0.9), attacks=("half_star",), settings={"epochs": 2})
    make_run(tmp_path / NEWER, results_of(None, 0.8), name="second", defences=("dp_noise",), settings={"epochs": 3})
    (tmp_path / "figures-hu").mkdir()
    (tmp_path / "notes.txt").write_text("")
    return tmp_path


def test_runs_are_listed_newest_first_with_what_they_asked_and_found(runs: Path) -> None:
    newer, older = past_runs(runs)
    assert (newer.folder.name, newer.when, newer.name) == (NEWER, "2026-02-02T12:00:00", "second")
    assert newer.what == "wine, under dp_noise"
    assert (older.name, older.what, older.headline, older.status) == (
        "wine",
        "wine, 1 attack",
        "Part 0.25.",
        "finished",
    )
    assert past_runs(runs / "nowhere") == ()


def test_a_run_says_how_it_ended(tmp_path: Path) -> None:
    for name, error in (("failed", ValueError("The table is gone.")), ("stopped", KeyboardInterrupt())):
        folder = make_run(tmp_path / f"20260101-120000-{name}")
        with pytest.raises(type(error)), run_at_work(folder):
            raise error
    folder = make_run(tmp_path / "20260101-120000-running")
    with run_at_work(folder):
        found = {run.name: run for run in past_runs(tmp_path)}
    assert {name: run.status for name, run in found.items()} == {one: one for one in ("failed", "stopped", "running")}
    assert found["failed"].headline == "The table is gone."
    assert past_runs(tmp_path)[0].name == "stopped"  # of the same second, by name


@pytest.mark.parametrize(
    ("text", "meant"), [("latest", NEWER), (OLDER, OLDER), ("20260101", OLDER), ("sec", NEWER), ("wine", OLDER)]
)
def test_a_run_is_found_by_its_folder_by_how_its_name_begins_or_as_the_latest(
    runs: Path, text: str, meant: str
) -> None:
    assert find_run(text, runs).path == runs / meant
    assert find_run(str(runs / meant), runs / "nowhere").path == runs / meant


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2026", r"could be any of 2 runs \(20260202"),
        ("secnd", "Did you mean 'second'"),
        ("xyz", "See `plumbline runs`"),
    ],
)
def test_a_name_that_is_no_runs_or_several_is_refused(runs: Path, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        find_run(text, runs)
    with pytest.raises(ValueError, match="There is no run in"):
        find_run("latest", runs / "nowhere")


def test_a_password_in_a_databases_address_is_not_listed() -> None:
    asked = {"active": "postgresql+psycopg://me:secret@host/db?table=t", "passive": ["/data/shop.csv"]}
    assert what_was_asked(asked) == "postgresql+psycopg + shop.csv"


def test_two_runs_are_compared_by_what_they_asked_and_what_leaked(runs: Path) -> None:
    found = compare_runs(runs / OLDER, runs / NEWER)
    assert {(one.what, *map(str, one.values)) for one in found.settings} == {
        ("attacks", "['half_star']", "['none']"),
        ("defences", "None", "['dp_noise']"),
        ("settings.epochs", "2", "3"),
    }
    assert found.columns == (Fact("passive.hue", (0.25, None)),)
    assert found.verdicts == Fact("verdict", ("Part 0.25.", "Part None."))
    assert found.quality[0] == Fact("accuracy", (0.9, 0.8))
    # What wasn't done is of no kind.
    assert found.training == (Fact("labels: own_part by passive", (0.9, 0.8)),)
    assert found.costs == (Fact("training steps", (7, 7)), Fact("on the wire, MB", (1.5, 1.5)))


def test_runs_are_compared_by_what_their_matrices_say_of_columns_labels_and_persons(runs: Path) -> None:
    def matrix(sessions: list[int], labels: str) -> dict[str, Any]:
        cells = [{"light": "grey", "words": words} for words in ("not measured", labels)]
        return {
            "glance": {
                "sentence": "S.",
                "parameters": ["keeps its parameters", "discloses them"],
                "sessions": sessions,
                "rows": [["labels", cells]],
            }
        }

    results = results_of(0.25, 0.9)
    first = make_run(runs / "20260601-120000-a", {**results, **matrix([1], "76 % told")})
    second = make_run(runs / "20260601-120001-b", {**results, **matrix([1], "not shown")})
    found = compare_runs(first, second, runs / OLDER)
    assert found.verdicts.values == ("S.", "S.", "Part 0.25.")
    # What none measured is left out, and a run of before there was a matrix has none.
    after = "labels, parameters disclosed, after one session"
    assert found.leaks == (Fact(after, ("76 % told", "not shown", None)),)


def test_options_are_said_as_they_are_typed() -> None:
    assert list(map(option_words, [("half_star", "rcc2"), True, 3, "plain"])) == [
        "half_star, rcc2",
        "yes",
        "3",
        "plain",
    ]


def test_a_folder_that_is_no_runs_is_called_one(tmp_path: Path, runs: Path) -> None:
    (tmp_path / "tables").mkdir()
    with pytest.raises(ValueError, match=r"The folder .*tables is no run's: a run's has audit.toml."):
        find_run(str(tmp_path / "tables"), runs)


def test_of_runs_that_bear_the_name_in_full_the_newest_is_meant(runs: Path) -> None:
    for folder in ("20260303-120000-demo", "20260404-120000-demo", "20260505-120000-demo-plain"):
        make_run(runs / folder, results_of(0.1, 0.9), name=folder[16:])
    assert find_run("demo", runs).path.name == "20260404-120000-demo"
    assert find_run("demo-plain", runs).path.name == "20260505-120000-demo-plain"
    with pytest.raises(ValueError, match="could be any of 3 runs"):
        find_run("dem", runs)


def test_a_run_of_before_steps_were_counted_is_compared_all_the_same(runs: Path) -> None:
    older = make_run(runs / "20250101-120000-older", {"accuracy": 0.7, "auc": 0.8})
    found = compare_runs(older, runs / OLDER)
    assert found.costs[0] == Fact("training steps", (None, 7))
    assert found.training[0].values == (None, 0.9)


def test_an_area_stands_with_what_carries_it_in_lists_and_comparisons(tmp_path: Path) -> None:
    quality: list[dict[str, Any]] = [
        {"auc": 0.91234, "tested_by_class": [300, 100]},
        {"auc": 0.91234},  # of a release that didn't count them
        {"auc": None, "tested_by_class": [300, 0]},
    ]
    folders = [
        make_run(tmp_path / f"2026010{day}-120000-run", {**results_of(0.25, 0.9), **more})
        for day, more in enumerate(quality, start=1)
    ]
    words = ("0.912 (95 %: 0.84 to 0.95), 100 positive records", "0.91, of how many positive records wasn't kept")
    assert tuple(run.area_words for run in reversed(past_runs(tmp_path))) == (*words, "")
    assert compare_runs(*folders).sections[-1] == (
        "The model, on test records",
        (("accuracy", *("0.9000",) * 3), ("AUC", *words, "not measured")),
    )


def test_a_run_without_results_is_not_compared(runs: Path) -> None:
    unfinished = make_run(runs / "20260303-120000-unfinished")
    with pytest.raises(ValueError, match="has no results to compare"):
        compare_runs(runs / OLDER, unfinished)
