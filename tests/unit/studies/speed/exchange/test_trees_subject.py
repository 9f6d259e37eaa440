"""`plumbline bench trees`: the same tree under ciphertexts and in plain, and what libraries take."""

from dataclasses import replace

import pytest

from studies.speed.exchange.trees_subject import TreesAsked, measure_trees
from studies.speed.repetition import WrongResult
from vfl.crypto.bin_sums import SumLayout

TINY = TreesAsked(rows=150, columns=2, depth=3, bins=4, key_bits=512)


def test_every_kernel_grows_the_tree_and_the_limit_is_counted() -> None:
    result = measure_trees(TINY)
    size = "--rows 150 --columns 2 --depth 3 --bins 4"
    assert result.command == f"plumbline bench trees {size} --repetitions 1 --key-bits 512"
    (table,) = result.tables
    encrypted = [row for row in table.rows if str(row["variant"]).startswith("encrypted")]
    assert encrypted
    for row in encrypted:
        assert row["sent"] == 150 * 128 / 1e6
        assert isinstance(row["limit"], float)
        assert row["limit"] > 0
    assert {"plain, this project", "plain, XGBoost hist", "plain, scikit-learn"} < {
        row["variant"] for row in table.rows
    }


def test_growth_is_over_a_16_fold_range_of_rows_and_of_columns() -> None:
    result = measure_trees(replace(TINY, rows=320, scaling=True))
    assert " --scaling " in result.command
    table = result.table("scaling")
    assert table is not None
    assert [(row["rows"], row["columns"]) for row in table.rows] == [
        *((rows, 2) for rows in (20, 40, 80, 160, 320)),
        *((40, columns) for columns in (1, 2, 4, 8, 16)),
    ]
    assert [row["growth"] for row in table.rows if row["rows"] == 20 or row["columns"] == 1] == [1.0, 1.0]


def test_a_library_that_is_not_installed_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("studies.speed.exchange.trees_subject.import_module", missing)
    row = measure_trees(TINY).tables[0].row(variant="plain, XGBoost hist")
    assert row is not None
    assert row["total"] == "not installed"


def test_another_tree_than_the_plain_one_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read = SumLayout.read
    monkeypatch.setattr(SumLayout, "read", lambda self, plaintexts, rows: 0 * read(self, plaintexts, rows))
    with pytest.raises(WrongResult):
        measure_trees(TINY)
