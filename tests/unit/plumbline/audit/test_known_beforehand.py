"""What an audit gives its adversary: never a record that a model is trained on, never one that is judged."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from attacks.known_moments import known_moments
from plumbline.audit.folder import AuditFolder
from plumbline.audit.joined_tables import JoinedTables
from plumbline.audit.known_beforehand import write_knowledge
from plumbline.audit.request import AuditRequest
from services.adversary.prior_knowledge import read_moments
from services.common.settings import Settings


def settings_of(**asked: Any) -> dict[str, Settings]:
    request = AuditRequest(data="wine", parties=3, attacks=("half_star",), **asked)
    return request.recipe().checked().settings(Path())


@pytest.mark.parametrize("records", [5, 17, 30])
def test_complete_records_are_validation_rows_then_test_rows_and_never_trained_on(tmp_path: Path, records: int) -> None:
    # Once: the first training rows.
    settings = settings_of(auxiliary=records)
    changes = write_knowledge(JoinedTables(settings), AuditFolder(tmp_path), records)
    joined = JoinedTables(settings)
    split = joined.split
    assert len(split.validation) == 17
    table = pd.read_parquet(changes["auxiliary"])
    given = table.pop("id").tolist()
    assert given == joined.ids_of(np.concatenate([split.validation, split.test]))[:records]
    assert not set(given) & set(joined.ids_of(split.train))
    rows = np.array([joined.ids.index(one) for one in given])
    expected = np.hstack([joined.features(name, rows) for name in ("passive-1", "passive-2")])
    np.testing.assert_array_equal(table.to_numpy(), expected)
    assert (tmp_path / "auxiliary.parquet").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("records", [0, 30])
def test_moments_are_over_all_that_is_not_judged(tmp_path: Path, records: int) -> None:
    settings = settings_of(auxiliary=records)
    changes = write_knowledge(JoinedTables(settings), AuditFolder(tmp_path), records)
    assert ("auxiliary" in changes) == (records > 0)
    joined = JoinedTables(settings)
    judged = set(joined.split.test.tolist()) - set(
        np.concatenate([joined.split.validation, joined.split.test])[:records].tolist()
    )
    rows = np.array([row for row in range(len(joined.ids)) if row not in judged])
    expected = known_moments(np.hstack([joined.features(name, rows) for name in ("passive-1", "passive-2")]))
    found = read_moments(changes["prior_knowledge"])
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(np.asarray(found.covariance), np.asarray(expected.covariance))


def test_some_record_is_left_to_judge(tmp_path: Path) -> None:
    settings = settings_of(auxiliary=52)
    joined = JoinedTables(settings)
    free = len(joined.split.validation) + len(joined.split.test)
    assert write_knowledge(JoinedTables(settings), AuditFolder(tmp_path), free - 1)
    with pytest.raises(
        ValueError, match=f"there are {free} validation and test records, and at least one must be left"
    ):
        write_knowledge(JoinedTables(settings), AuditFolder(tmp_path), free)


def test_columns_are_in_the_agreements_order(tmp_path: Path) -> None:
    request = AuditRequest(data="wine", parties=12, attacks=("half_star",))
    joined = JoinedTables(request.recipe().checked().settings(tmp_path))
    assert tuple(joined.passive_names) == request.passive_names
