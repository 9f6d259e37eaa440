"""Finished measurements on disk: exact, whole or not at all, for several processes, whatever else lies there."""

import errno
import json
import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.measurements.outcomes import Outcome, done
from studies.measurements.store import SweepStopped, open_store


def row(key: str, outcome: Outcome) -> dict[str, object]:
    return {
        "key": key,
        "cell": "{}",
        "versions": "{}",
        "status": outcome.status,
        "reason": outcome.reason,
        "measures": outcome.measures,
        "seconds": outcome.seconds,
        "elapsed": outcome.elapsed,
    }


def filled(folder: Path, parts: int) -> None:
    with open_store(folder) as store:
        for number in range(parts):
            store.append([row(f"k{number:05}", replace(done({"n": number}), seconds=0.5))])


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True)))
def test_measures_come_back_to_the_last_bit(values: list[float]) -> None:
    back = done({"values": values}).columns["values"]
    assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(values, back, strict=True))


def test_what_was_appended_is_read_by_key(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    with open_store(tmp_path) as store:
        found = store.read(["k00001", "k00002", "unknown"])
    assert {key: json.loads(one.measures) for key, one in found.items()} == {"k00001": {"n": 1}, "k00002": {"n": 2}}
    assert found["k00001"].seconds == 0.5


def test_a_result_outranks_a_failure(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.append([row("k", done({"n": 1}))])
        store.append([row("k", Outcome("failed", "died"))])
        assert store.read(["k"])["k"].status == "done"


def test_many_parts_become_one_and_nothing_is_lost(tmp_path: Path) -> None:
    filled(tmp_path, 40)
    with open_store(tmp_path) as store:
        store.append([row("k00003", Outcome("failed", "died")), row("other", Outcome("failed", "died"))])
    assert len(list(tmp_path.glob("*.parquet"))) == 2
    keys = [f"k{number:05}" for number in range(40)]
    with open_store(tmp_path) as store:
        store.tidy()
        found = store.read([*keys, "other"])
    assert [found[key].columns["n"] for key in keys] == list(range(40))
    assert found["other"].status == "failed"


def test_joining_keeps_one_row_a_key(tmp_path: Path) -> None:
    for _ in range(2):
        filled(tmp_path, 30)
    with open_store(tmp_path):
        (part,) = tmp_path.glob("*.parquet")
    kept = pd.read_parquet(part)
    assert list(kept.key) == [f"k{number:05}" for number in range(30)]


def test_nobody_joins_parts_while_another_works_in_the_folder(tmp_path: Path) -> None:
    filled(tmp_path, 40)
    left = tmp_path / ".x.parquet.abc.unfinished"
    with open_store(tmp_path) as first:
        # Opening joined them; these come while `first` is at work.
        for number in range(40):
            first.append([row(f"new{number}", done({}))])
        left.write_bytes(b"")
        with open_store(tmp_path) as second:
            assert len(list(tmp_path.glob("*.parquet"))) == 41
            assert left.exists()
            assert len(second.read([f"new{number}" for number in range(40)])) == 40
    with open_store(tmp_path):
        assert len(list(tmp_path.glob("*.parquet"))) == 1
        assert not left.exists()


def test_what_is_no_part_is_named_once_and_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    filled(tmp_path, 40)
    torn, foreign = tmp_path / "torn.parquet", tmp_path / "foreign.parquet"
    torn.write_bytes(b"PAR1")
    pd.DataFrame({"key": ["k00000"], "a": [1]}).to_parquet(foreign)
    with open_store(tmp_path) as store:
        assert len(store.read(["k00000", "k00039"])) == 2
        assert len(store.read(["k00000"])) == 1
    named = [one.message for one in caplog.records]
    assert sum("torn.parquet" in words for words in named) == sum("foreign.parquet" in words for words in named) == 1
    assert torn.exists()
    assert foreign.exists()


def test_a_full_disk_ends_in_a_sentence_and_leaves_no_half_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, 2)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("services.common.durable.os.fsync", full)
        with open_store(tmp_path) as store, pytest.raises(SweepStopped, match=r"No space left on device.*stay") as told:
            store.append([row("new", done({}))])
    assert "\n" not in str(told.value)
    assert {one.suffix for one in tmp_path.iterdir() if one.name != "lock"} == {".parquet"}
    with open_store(tmp_path) as store:
        assert set(store.read(["k00000", "k00001", "new"])) == {"k00000", "k00001"}


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SweepStopped, match="file"), open_store(tmp_path / "file" / "cells"):
        pass
