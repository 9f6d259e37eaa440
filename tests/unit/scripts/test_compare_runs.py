"""Two runs compared: what counts as the same, what as lost, and what may be new."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scripts.compare_runs import AUDITS, RunsUnusable, compare, report, runs_of

RESULTS: dict[str, Any] = {
    "auc": 0.99,
    "loss": float("nan"),
    "total": {"seconds": 3.0},
    "attacks": [{"attack": "half", "mse": {"mean": 0.1}}],
}
ARRAYS = {"weights": np.array([1.0, np.nan]), "features": np.array(["a", "b"])}


def write(run: Path, results: dict[str, Any] = RESULTS, **arrays: Any) -> Path:
    """Write one run's folder."""
    (run / "parties").mkdir(parents=True)
    (run / "results.json").write_text(json.dumps(results))
    np.savez(run / "parties" / "active-weights.npz", **{**ARRAYS, **arrays})
    return run


def test_runs_with_the_same_numbers_are_the_same_whatever_they_took(tmp_path: Path) -> None:
    old = write(tmp_path / "old")
    new = write(tmp_path / "new", {**RESULTS, "total": {"seconds": 4.0}, "warnings": "better words"})
    one = compare("plain", old, new)
    # auc, loss, the mean, one length; two arrays of two.
    assert (one.same, one.numbers, one.added) == (True, 8, ())


@pytest.mark.parametrize(
    ("results", "place"),
    [
        ({**RESULTS, "auc": float(np.nextafter(0.99, 1))}, "results.json: auc"),
        ({**RESULTS, "loss": 0.5}, "results.json: loss"),
        ({**RESULTS, "attacks": [{"mse": {"mean": 0.2}}]}, "results.json: attacks[0].mse.mean"),
        ({**RESULTS, "attacks": [{"mse": {"mean": 0.1}}, {}]}, "results.json: attacks#"),
    ],
)
def test_the_last_bit_a_nan_and_a_length_count(tmp_path: Path, results: dict[str, Any], place: str) -> None:
    one = compare("plain", write(tmp_path / "old"), write(tmp_path / "new", results))
    assert not one.same
    assert [line.split(": ")[:2] for line in one.different] == [place.split(": ")]


@pytest.mark.parametrize("weights", [np.array([1.0, 2.0]), np.array([1.0])])
def test_arrays_count(tmp_path: Path, weights: Any) -> None:
    one = compare("plain", write(tmp_path / "old"), write(tmp_path / "new", weights=weights))
    assert [line.partition(": ")[2].split(":")[0] for line in one.different] == ["weights"]


def test_what_only_the_old_one_has_is_lost_and_what_only_the_new_one_has_is_named(tmp_path: Path) -> None:
    less, more = {**RESULTS}, {**RESULTS, "schema": 1, "attacks": [{**RESULTS["attacks"][0], "notes": ["a"]}]}
    del less["auc"]
    old, new = write(tmp_path / "old"), write(tmp_path / "new", more, extra=np.zeros(3))
    assert compare("plain", old, new).added == ("extra", "notes", "schema")
    assert compare("plain", old, new).same
    lost = compare("plain", old, write(tmp_path / "less", less))
    assert (lost.same, lost.lost) == (False, ("results.json: auc",))


def test_a_run_that_is_not_there_is_not_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write(tmp_path / "old")
    both, gone = compare("plain", run, run), compare("paillier", run, None)
    assert report([both])
    assert not report([both, gone])
    assert not report([])
    shown = capsys.readouterr().out
    assert "paillier, results.json: auc: only in the old one" in shown
    assert shown.count("The numbers are the same.") == 1


def test_runs_are_found_by_name_and_the_latest_counts(tmp_path: Path) -> None:
    for name in ("20260101-120000-plain", "20260102-120000-plain", "20260101-120000-paillier-defended"):
        write(tmp_path / name)
    runs = runs_of(tmp_path, tmp_path / "unused")
    assert {name: run.name for name, run in runs.items()} == {
        "plain": "20260102-120000-plain",
        "paillier-defended": "20260101-120000-paillier-defended",
    }
    shutil.rmtree(tmp_path)
    with pytest.raises(RunsUnusable, match="neither a checkout nor a folder of runs"):
        runs_of(tmp_path, tmp_path / "unused")


def test_an_exception_is_counted_as_one_and_only_where_it_may_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = write(tmp_path / "old"), write(tmp_path / "new")
    (new / "parties" / "active-weights.npz").unlink()
    assert not compare("wine-plain", old, new).same
    excepted = compare("wine-installed", old, new)
    assert excepted.same
    assert report([excepted])
    assert "gone as it may be: random weights" in capsys.readouterr().out
    # What is there is compared all the same.
    other = write(tmp_path / "other", weights=np.array([2.0]))
    assert not compare("wine-installed", old, other).same


def test_a_plan_that_trains_nothing_may_lack_options_of_training(tmp_path: Path) -> None:
    old, new = write(tmp_path / "old"), write(tmp_path / "new")
    for run, rate in ((old, {"learning_rate": 0.1, "l2": 0.0}), (new, {})):
        record = {"agreement": {"plan": {"epochs": 3, **rate}}}
        (run / "parties" / "active.json").write_text(json.dumps(record))
    assert compare("credit-installed", old, new).same
    assert not compare("credit-plain", old, new).same


@pytest.mark.parametrize(("scores", "same"), [([[0.25, 0.75]], True), ([[0.25, 0.5]], False)])
def test_what_moved_to_another_file_is_compared_there(tmp_path: Path, scores: list[list[float]], same: bool) -> None:
    old, new = write(tmp_path / "old"), write(tmp_path / "new")
    record = {"test_rows": [3], "test_scores": scores, "test_labels": [1], "kept_epoch": 2}
    (old / "parties" / "active.json").write_text(json.dumps(record))
    (new / "parties" / "active.json").write_text(json.dumps({"kept_epoch": 2}))
    np.savez(new / "parties" / "active-test-scores.npz", rows=[3], scores=[[0.25, 0.75]], labels=[1])
    one = compare("plain", old, new)
    assert (one.same, one.added, one.lost) == (same, (), ())


def test_every_data_set_is_audited_in_every_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def audited(checkout: Path, folder: Path, name: str, options: tuple[str, ...]) -> None:
        asked.append((name, *options[:2]))
        write(folder / f"20260101-120000-{name}")

    monkeypatch.setattr("scripts.compare_runs.audit", audited)
    (tmp_path / "plumbline").mkdir()
    (tmp_path / "plumbline" / "__main__.py").touch()
    runs = runs_of(tmp_path, tmp_path / "runs", ["credit", "wine"])
    assert sorted(runs) == sorted(f"{data}-{way}" for data in ("credit", "wine") for way in AUDITS)
    assert ("wine-plain", "--data", "wine") in asked


@pytest.mark.parametrize(("change", "same"), [(1e-3, True), (1e-2, False)])
def test_runs_on_shared_weights_are_the_same_up_to_what_their_masks_round(
    tmp_path: Path, change: float, same: bool
) -> None:
    old = write(tmp_path / "old")
    new = write(tmp_path / "new", {**RESULTS, "auc": 0.5}, weights=ARRAYS["weights"] + change)
    assert compare("wine-shared", old, new).same == same
    assert not compare("plain", old, new).same
