"""What an audit gives its adversary: never a record that a model is trained on, never one that is judged."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from attacks.prediction.known_moments import known_moments
from plumbline.audit.federating import auxiliary_rows, write_knowledge, write_known_labels
from plumbline.audit.folder import AuditFolder
from plumbline.audit.request import AuditRequest
from plumbline.audit.tables import JoinedTables
from services.adversary.prior_knowledge import read_moments
from services.common.settings import Settings, load_settings
from services.party.features import load_party_data
from services.passive.server import known_labels
from vfl.data import common_order, rows_of
from vfl.learning import split_rows


def settings_of(**asked: Any) -> dict[str, Settings]:
    request = AuditRequest.of(data="wine", parties=3, attacks=("half_star",), **asked)
    return request.recipe(request.tables.party_settings).checked().settings(Path())


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
    rows = np.array([joined.ids.index(one) for one in given])
    is_validation = np.isin(rows, split.validation)
    assert is_validation.tolist() == [True] * min(records, 17) + [False] * max(0, records - 17)
    assert not set(given) & set(joined.ids_of(split.train))
    # Ids often go with time: the first and the last of each are known.
    for known, free in ((rows[is_validation], split.validation), (rows[~is_validation], split.test)):
        assert not len(known) or (known.min(), known.max()) == (free.min(), free.max())
    expected = np.hstack([joined.features(name, rows) for name in ("passive-1", "passive-2")])
    np.testing.assert_array_equal(table.to_numpy(), expected)
    assert (tmp_path / "auxiliary.parquet").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("records", [0, 30])
def test_moments_are_over_all_that_is_not_judged(tmp_path: Path, records: int) -> None:
    settings = settings_of(auxiliary=records)
    changes = write_knowledge(JoinedTables(settings), AuditFolder(tmp_path), records)
    assert ("auxiliary" in changes) == (records > 0)
    joined = JoinedTables(settings)
    judged = set(joined.split.test.tolist()) - set(auxiliary_rows(joined, records).tolist())
    rows = np.array([row for row in range(len(joined.ids)) if row not in judged])
    expected = known_moments(np.hstack([joined.features(name, rows) for name in ("passive-1", "passive-2")]))
    found = read_moments(changes["prior_knowledge"])
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(np.asarray(found.covariance), np.asarray(expected.covariance))


def test_known_labels_are_of_training_records_and_some_are_left_to_judge(tmp_path: Path) -> None:
    settings = AuditRequest.of(data="wine", parties=3, attacks=("own_part",), known_labels=12)
    joined = JoinedTables(settings.recipe(settings.tables.party_settings).checked().settings(Path()))
    path = write_known_labels(joined, AuditFolder(tmp_path), 12)
    table = known_labels(load_settings(known_labels=path))
    assert table is not None
    rows = np.array([joined.ids.index(one) for one in table.ids])
    assert len(np.intersect1d(rows, joined.split.train)) == 12
    np.testing.assert_array_equal(table.features[:, 0], joined.labels[rows])
    assert Path(path).stat().st_mode & 0o777 == 0o600
    with pytest.raises(ValueError, match="at least one must be left to judge"):
        write_known_labels(joined, AuditFolder(tmp_path), len(joined.split.train))


@pytest.mark.parametrize("cells", ["id,class\na,.5\n", "id,class\na,-1\n", "id,class\na,100\n", "id,x,y\na,1,0\n"])
def test_what_tells_no_classes_is_refused_in_a_sentence(tmp_path: Path, cells: str) -> None:
    (tmp_path / "labels.csv").write_text(cells)
    with pytest.raises(ValueError, match="PLUMBLINE_KNOWN_LABELS needs ids"):
        known_labels(load_settings(known_labels=str(tmp_path / "labels.csv")))


def test_labels_for_no_adversary_are_refused() -> None:
    with pytest.raises(ValueError, match="no attack of theirs is asked for"):
        AuditRequest.of(data="wine", known_labels=5, attacks=("half_star",))


def test_some_record_is_left_to_judge(tmp_path: Path) -> None:
    settings = settings_of(auxiliary=52)
    joined = JoinedTables(settings)
    free = len(joined.split.validation) + len(joined.split.test)
    assert write_knowledge(JoinedTables(settings), AuditFolder(tmp_path), free - 1)
    with pytest.raises(
        ValueError, match=f"there are {free} validation and test records, and at least one must be left"
    ):
        write_knowledge(JoinedTables(settings), AuditFolder(tmp_path), free)


def raw_tables(folder: Path) -> dict[str, Settings]:
    """Three parties with text, gaps and numbers; ``home`` has a category that one test record has alone."""
    draw, rows = np.random.default_rng(0), 120
    ids = [f"r{row}" for row in range(rows)]
    split = split_rows(rows, validation_fraction=0.1, test_fraction=0.2, seed=0)
    home = draw.choice(["owner", "tenant"], rows).astype(object)
    home[int(ids.index(common_order(ids)[split.test[0]]))] = "boat"
    frames = {
        "active": pd.DataFrame({"age": draw.normal(size=rows), "y": draw.integers(0, 2, rows)}),
        "passive-1": pd.DataFrame({"pay": draw.normal(size=rows), "home": home}),
        "passive-2": pd.DataFrame(
            {
                "home": draw.choice(np.array(["x", "y", None]), rows),
                "due": draw.choice(np.array([1.5, np.nan]), rows),
            }
        ),
    }
    for name, frame in frames.items():
        frame.assign(id=ids).to_csv(folder / f"{name}.csv", index=False)
    passive = tuple(str(folder / f"{name}.csv") for name in ("passive-1", "passive-2"))
    request = AuditRequest.of(
        active=str(folder / "active.csv"), passive=passive, label="y", attacks=("half_star",), settings={"seed": 0}
    )
    return request.recipe(request.tables.party_settings).checked().settings(folder)


def test_one_hot_groups_are_known_from_the_columns_and_each_partys_own(tmp_path: Path) -> None:
    settings = raw_tables(tmp_path)
    joined = JoinedTables(settings)
    names = [one.name for party in joined.passive_names for one in joined.columns(party)]
    assert names == [
        *("pay", "home=boat", "home=owner", "home=tenant"),
        *("home=x", "home=y", "home is missing", "due", "due is missing"),
    ]
    changes = write_knowledge(joined, AuditFolder(tmp_path), 5)
    # One record has none of the first: no search in the records would find it. "due" is a number beside its gap.
    found = read_moments(changes["prior_knowledge"])
    assert [group.tolist() for group in found.groups] == [[1, 2, 3], [4, 5, 6]]
    auxiliary = pd.read_parquet(changes["auxiliary"])
    assert auxiliary.columns.tolist() == [
        "id",
        *(f"passive-1: {name}" for name in names[:4]),
        *(f"passive-2: {name}" for name in names[4:]),
    ]


def test_parties_and_auditor_encode_alike(tmp_path: Path) -> None:
    """On the training rows of the session, without a word between them."""
    settings = raw_tables(tmp_path)
    joined = JoinedTables(settings)
    for name, own in settings.items():
        if name != "coordinator":
            data = load_party_data(own, with_bias=name == "active")
            aligned = data.aligned(rows_of(data.ids, joined.ids), own.plan())
            width = joined.aligned[name].features.shape[1]
            np.testing.assert_array_equal(aligned.features[:, :width], joined.features(name, np.arange(120)))


def test_columns_are_in_the_agreements_order(tmp_path: Path) -> None:
    request = AuditRequest.of(data="wine", parties=12, attacks=("half_star",))
    joined = JoinedTables(request.recipe(request.tables.party_settings).checked().settings(tmp_path))
    assert tuple(joined.passive_names) == request.tables.passive_names
