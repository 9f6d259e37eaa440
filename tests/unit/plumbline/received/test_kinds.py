"""What received columns are taken for, told or guessed, what is refused, and how an adversary reads them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from plumbline.received.kinds import MOST_INDICATORS, MOST_READ, Kind, ReceivedColumn, encoded, grouped, kinds_of
from vfl.data import TableError, TypedTable
from vfl.data.typed_tables import read_table

ROWS = 200
GENERATOR = np.random.default_rng(0)
NORMAL = GENERATOR.normal(size=ROWS)


def table(folder: Path, **columns: Any) -> TypedTable:
    frame = pd.DataFrame({"id": [f"r{row}" for row in range(ROWS)], **columns})
    frame.to_csv(path := folder / "received.csv", index=False)
    return read_table(str(path), id_column="id", label_column=None)


@pytest.mark.parametrize(
    ("name", "values", "kind", "about"),
    [
        ("score", 1 / (1 + np.exp(-NORMAL)), "probability", ""),
        ("margin", NORMAL, "log-odds", ""),
        ("fico", np.arange(ROWS) + 400, "points", ""),
        ("price", NORMAL * 1e6, "points", ""),
        ("leaf_17", np.arange(ROWS) // 2, "category", ""),
        ("tier", np.arange(ROWS) % 5, "category", ""),
        ("segment", np.where(NORMAL > 0, "gold", "silver"), "category", ""),
        ("emb3", NORMAL, "embedding", ""),
        ("grad_0", NORMAL, "gradient", ""),
        ("shap_income", NORMAL, "explanation", "income"),
        ("income", NORMAL, "explanation", "income"),
        ("shap_base", NORMAL, "explanation", ""),
    ],
)
def test_kinds_are_guessed_by_name_and_values(tmp_path: Path, name: str, values: Any, kind: Kind, about: str) -> None:
    (found,) = kinds_of(table(tmp_path, **{name: values}), [], {"income", "age"})
    assert (found.name, found.kind, found.about) == (name, kind, about)
    assert found.why.startswith("guessed: ")


def test_columns_alike_are_told_together() -> None:
    one, other = (ReceivedColumn(name, "category", "told") for name in ("a", "b"))
    about = ReceivedColumn("c", "explanation", "told", "age")
    assert grouped([one, about, other]) == [(["a", "b"], "category", "told"), (["c"], "explanation of age", "told")]


def test_a_leaf_number_of_its_own_in_most_rows_is_no_category(tmp_path: Path) -> None:
    (found,) = kinds_of(table(tmp_path, leaf=GENERATOR.permutation(ROWS)), [], ())
    assert (found.kind, found.why) == ("points", "guessed: called as a category, but hardly two rows are alike")


def test_who_judges_may_tell_the_kind_of_one_of_some_and_of_all(tmp_path: Path) -> None:
    received = table(tmp_path, tier_a=np.arange(ROWS) % 5, tier_b=np.arange(ROWS) % 7, other=NORMAL)
    found = kinds_of(received, ["points", "tier_*=category", "tier_b=gradient"], ())
    assert [(one.kind, one.why) for one in found] == [("category", "told"), ("gradient", "told"), ("points", "told")]


@pytest.mark.parametrize(
    ("told", "values", "words"),
    [
        ("x=leaves", NORMAL, "--kind is one of probability, log-odds, points"),
        ("y=points", NORMAL, "What was received has no column 'y', which --kind names."),
        ("x=probability", NORMAL, "rows: is it log-odds, points, or percent?"),
        ("x=category", NORMAL, "has 200 values in 200 rows, so that hardly two are alike"),
        ("x=points", np.where(NORMAL > 0, "much", "little"), "'x' is text, and --kind calls it points"),
    ],
)
def test_what_cant_be_is_refused_without_a_cell(tmp_path: Path, told: str, values: Any, words: str) -> None:
    with pytest.raises(TableError) as caught:
        kinds_of(table(tmp_path, x=values), [told], ())
    assert words in str(caught.value)
    assert "much" not in str(caught.value)
    assert str(values[0]) not in str(caught.value)


def read(folder: Path, kind: Kind, values: Any) -> np.ndarray:
    received = table(folder, x=values)
    return encoded(received.frame, [ReceivedColumn("x", kind, "told")], np.arange(0, ROWS, 2))


def test_scores_are_read_as_log_odds_and_numbers_as_they_are(tmp_path: Path) -> None:
    odds = read(tmp_path, "probability", 1 / (1 + np.exp(-NORMAL)))
    scaled = (NORMAL - NORMAL.min()) / np.ptp(NORMAL)
    np.testing.assert_allclose(odds[:, 0], scaled, atol=1e-9)
    np.testing.assert_allclose(read(tmp_path, "embedding", NORMAL)[:, 0], scaled, atol=1e-9)


def test_sure_scores_and_gaps_leave_numbers(tmp_path: Path) -> None:
    scores = np.where(NORMAL > 1, 1.0, np.where(NORMAL < -1, 0.0, 0.5))
    scores[:3] = np.nan
    found = read(tmp_path, "probability", scores)
    assert np.isfinite(found).all()
    assert found.min() == 0
    assert found.max() == 1
    assert found[:, 1].tolist() == [1.0] * 3 + [0.0] * (ROWS - 3)


def test_a_leaf_is_a_value_that_three_known_records_share_beside_its_number(tmp_path: Path) -> None:
    leaves = np.repeat([4, 9, 30], [100, 98, 2])
    found = read(tmp_path, "category", leaves)
    # The number, and indicators of both values that known records have often enough.
    assert found.shape == (ROWS, 3)
    assert {tuple(row) for row in found[:, 1:]} == {(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)}


def test_many_leaves_are_read_as_their_leading_components(tmp_path: Path) -> None:
    received = table(tmp_path, **{f"leaf_{tree}": GENERATOR.integers(0, 20, ROWS) for tree in range(12)})
    columns = kinds_of(received, [], ())
    found = encoded(received.frame, columns, np.arange(ROWS))
    assert found.shape == (ROWS, 12 + MOST_INDICATORS)
    assert found.min() == 0
    assert found.max() == 1


def test_of_thousands_of_columns_the_leading_directions_are_read(tmp_path: Path) -> None:
    latent, width = GENERATOR.normal(size=(ROWS, 3)), 2_100
    received = table(
        tmp_path, **{f"emb_{at}": one for at, one in enumerate((latent @ GENERATOR.normal(size=(3, width))).T)}
    )
    found = encoded(received.frame, kinds_of(received, [], ()), np.arange(ROWS))
    assert found.shape == (ROWS, MOST_READ)
    seen = np.hstack([np.ones((ROWS, 1)), found[:, :3]])
    np.testing.assert_allclose(seen @ np.linalg.lstsq(seen, latent)[0], latent, atol=1e-6)


@pytest.mark.slow("directions of a thousand indicators")
def test_of_thousands_of_leaf_numbers_some_are_named(tmp_path: Path) -> None:
    received = table(tmp_path, **{f"leaf_{tree}": GENERATOR.integers(0, 20, ROWS) for tree in range(2_100)})
    found = encoded(received.frame, kinds_of(received, [], ()), np.arange(ROWS))
    assert found.shape == (ROWS, MOST_READ)
