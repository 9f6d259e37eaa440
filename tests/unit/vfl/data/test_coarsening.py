"""Coarser columns: few values, in the same order, no further from the truth than a bin or a step is wide."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.arrays import FloatArray
from vfl.data import TableError, read_table
from vfl.data.coarsening import coarsened
from vfl.data.columns import COARSENINGS, Coarsening, ColumnPlan, EncodedColumn

CELLS = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=60)


def made(values: FloatArray, kind: Coarsening, rows: int | None = None) -> FloatArray:
    """One column made coarser, learned from its first rows, or all."""
    plan = ColumnPlan("age", "numbers", "number", "1 feature", coarsening=kind)
    learned = np.arange(len(values) if rows is None else rows)
    return coarsened(values[:, None], learned, [EncodedColumn("age", "age", "number")], [plan])[:, 0]


@given(cells=CELLS, kind=st.sampled_from(COARSENINGS))
def test_values_become_few_in_the_same_order(cells: list[float], kind: Coarsening) -> None:
    values = np.sort(np.array(cells))
    found = made(values, kind)
    parts = int(kind.removeprefix("bins").removeprefix("round"))
    assert len(np.unique(found)) <= parts + kind.startswith("round")
    assert (np.diff(found) >= 0).all()
    if kind.startswith("round"):
        assert np.abs(found - values).max() <= np.ptp(values) / parts / 2 + 1e-9
    else:
        assert found.mean() == pytest.approx(values.mean())


def test_bins_hold_as_many_records_each_and_stand_for_their_mean() -> None:
    np.testing.assert_allclose(made(np.arange(8.0), "bins4"), [0.5, 0.5, 2.5, 2.5, 4.5, 4.5, 6.5, 6.5])
    # What is as frequent as that makes bins fewer; other rows fall into the bins of those that are learned from.
    np.testing.assert_allclose(made(np.array([0.0, 0.0, 0.0, 9.0, -5.0, 99.0]), "bins2", rows=4), [2.25] * 6)
    np.testing.assert_allclose(made(np.array([0.0, 1.0, 8.0, 10.0, 99.0]), "bins2", rows=4), [0.5, 0.5, 9, 9, 9])


def test_other_columns_and_features_are_as_they_were() -> None:
    features = np.random.default_rng(0).random((20, 3))
    columns = [
        EncodedColumn("age", "age", "number"),
        EncodedColumn("age is missing", "age", "missing"),
        EncodedColumn("sum", "sum", "number"),
    ]
    plans = [
        ColumnPlan("age", "numbers", "number", "1 feature", coarsening="bins2"),
        ColumnPlan("sum", "numbers", "number", "1 feature"),
    ]
    found = coarsened(features, np.arange(20), columns, plans)
    np.testing.assert_array_equal(found[:, 1:], features[:, 1:])
    assert len(np.unique(found[:, 0])) == 2
    assert coarsened(features, np.arange(20), columns, plans[1:]) is features


def test_an_owner_asks_for_it_by_column_and_categories_refuse(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("id,age,job\n" + "".join(f"{row},{row % 40},{'ab'[row % 2]}\n" for row in range(80)))
    table = read_table(str(file), id_column="id", label_column=None, encode={"age": "bins4"})
    assert [(plan.encoding, plan.coarsening) for plan in table.plans] == [("number", "bins4"), ("onehot", "")]
    assert table.plans[0].becomes == "1 feature, coarser (bins4)"
    with pytest.raises(TableError, match=r"'job' is of categories, and only numbers, dates and codes become coarser"):
        read_table(str(file), id_column="id", label_column=None, encode={"job": "bins4"})
    again = table.changed({"age": "round10", "job": "drop"})
    assert [(plan.name, plan.coarsening) for plan in again.kept] == [("age", "round10")]
