"""What a dry run says beforehand: too few records to judge by, and a column that is the label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plumbline.audit.forewarnings import forewarnings
from plumbline.audit.request import AdversaryOptions, AuditRequest
from plumbline.audit.tables import JoinedTables, examine_tables
from services.common.settings import Settings


def joined(folder: Path, rows: int, label: Any = None, **columns: Any) -> JoinedTables:
    draw = np.random.default_rng(1)
    label = np.arange(rows) % 2 if label is None else label
    active = pd.DataFrame({"id": range(rows), "a": draw.random(rows), "y": label})
    passive = pd.DataFrame({"id": range(rows), "b": draw.random(rows), **columns})
    for name, frame in (("active", active), ("passive", passive)):
        frame.to_csv(folder / f"{name}.csv", index=False)
    asked = {"active": str(folder / "active.csv"), "passive": (str(folder / "passive.csv"),), "label": "y"}
    found = examine_tables(AuditRequest.of(**asked).tables)
    return JoinedTables({party: Settings(**own) for party, own in found.settings.items()}, found.tables)


def told(tables: JoinedTables, **adversary: Any) -> list[str]:
    return list(forewarnings(tables, AdversaryOptions(**adversary)))


def test_too_few_records_are_told_before_anything_runs(tmp_path: Path) -> None:
    small = joined(tmp_path, 60)
    words = told(small, attacks=("all",))
    assert words[0].startswith("12 test records will judge what predictions give away, and 50 are needed")
    assert "records will be trained on, and 50 are needed" in words[1]
    assert any("of the rarest class" in one.lower() for one in words)
    assert not [one for one in told(small, attacks=()) if "needed" in one]
    assert told(joined(tmp_path, 600), attacks=("all",)) == []
    (few,) = told(joined(tmp_path, 600), attacks=("posterior",), auxiliary=19)
    assert few.startswith("--auxiliary 19: from fewer than 20 complete records")
    assert "what such attacks find of columns will be grey" in few


@pytest.mark.parametrize(
    ("label", "made"),
    [
        (None, lambda label, draw: np.where(label == 1, "bad", "good")),
        (None, lambda label, draw: label * 100 + draw.random(len(label))),
        (None, lambda label, draw: -label - draw.random(len(label)) / 2),
        (None, lambda label, draw: np.where(draw.random(len(label)) < 0.01, 1 - label, label)),
        (np.arange(300) % 3, lambda label, draw: np.array(["x", "y", "z"])[label]),
    ],
    ids=["its words", "ordered", "ordered the other way", "nearly", "three classes"],
)
def test_a_passive_column_that_is_the_label_is_told(tmp_path: Path, label: Any, made: Any) -> None:
    draw = np.random.default_rng(2)
    values = np.arange(300) % 2 if label is None else label
    tables = joined(
        tmp_path, 300, label, made=made(values, draw), fair=np.where(draw.random(300) < 0.2, 1 - values, values)
    )
    words = [one for one in told(tables) if "by itself tells" in one]
    assert len(words) == 1
    assert words[0].startswith("Column 'made' of passive by itself tells the label of ")
    assert "--drop passive:made" in words[0]


def test_a_rare_class_makes_no_column_look_like_the_label(tmp_path: Path) -> None:
    """Who always says the larger class is right nearly always, and tells nothing."""
    label = (np.arange(600) % 100 == 0).astype(int)
    words = told(joined(tmp_path, 600, label, c=np.arange(600) % 7))
    assert not [one for one in words if "by itself" in one]
