"""Reading tables: what is kept, and every bad input refused with a sentence that shows no personal data."""

from __future__ import annotations

import datetime
import gzip
import math
import os
import sqlite3
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from vfl.data import Table, TableError, class_names, encode_labels, load_table, table_from_frame

GOOD = "client,age,income,member,y\n007,31,1.5,True,no\nNA,45,2.25,False,yes\n12,28,-3e2,True,no\n"


def write(folder: Path, text: str, name: str = "clients.csv") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def load(source: str, **options: Any) -> Table:
    return load_table(source, **{"id_column": "client", "label_column": "y", **options})


def check_good(table: Table) -> None:
    assert table.ids == ("007", "NA", "12")
    assert table.feature_names == ("age", "income", "member")
    np.testing.assert_array_equal(table.features, [[31, 1.5, 1], [45, 2.25, 0], [28, -300, 1]])
    assert table.features.dtype == np.float64
    assert table.labels is not None
    assert table.labels.tolist() == ["no", "yes", "no"]


def good_frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "client": ["007", "NA", "12"],
            "age": [31, 45, 28],
            "income": [1.5, 2.25, -300.0],
            "member": [True, False, True],
            "y": ["no", "yes", "no"],
        }
    )


# --- formats ------------------------------------------------------------------------------------------------


def test_csv(tmp_path: Path) -> None:
    check_good(load(write(tmp_path, GOOD)))


def test_csv_with_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    check_good(load(write(tmp_path, "\ufeff" + GOOD.replace("\n", "\r\n"))))


def test_csv_gz(tmp_path: Path) -> None:
    path = tmp_path / "clients.csv.gz"
    path.write_bytes(gzip.compress(GOOD.encode()))
    check_good(load(str(path)))


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "clients.parquet"
    good_frame().to_parquet(path)
    check_good(load(str(path)))


def test_parquet_whose_id_was_the_index(tmp_path: Path) -> None:
    path = tmp_path / "clients.parquet"
    good_frame().set_index("client").to_parquet(path)
    check_good(load(str(path)))


def test_parquet_saved_with_a_filtered_index_gains_no_feature(tmp_path: Path) -> None:
    path = tmp_path / "clients.parquet"
    good_frame().set_axis([3, 5, 8]).to_parquet(path)
    check_good(load(str(path)))


def test_parquet_columns_with_dots_in_their_names(tmp_path: Path) -> None:
    path = tmp_path / "clients.parquet"
    good_frame().rename(columns={"age": "emp.var.rate"}).to_parquet(path)
    assert load(str(path), columns=["emp.var.rate"]).features[:, 0].tolist() == [31, 45, 28]


def test_parquet_reads_only_the_columns_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "clients.parquet"
    good_frame().assign(note="x").to_parquet(path)
    table = load(str(path), columns=["income", "age"], label_column=None)
    assert table.feature_names == ("income", "age")
    assert table.labels is None


def test_frame_ignores_its_index() -> None:
    table = table_from_frame(good_frame().set_axis([9, 9, 9]), id_column="client", label_column="y")
    check_good(table)


def sqlite_clients(folder: Path, table: str = "clients") -> str:
    path = folder / "x.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f'CREATE TABLE "{table}" (client TEXT, age INTEGER, income REAL, member BOOLEAN, y TEXT)')
        rows = [("007", 31, 1.5, 1, "no"), ("NA", 45, 2.25, 0, "yes"), ("12", 28, -300.0, 1, "no")]
        connection.executemany(f'INSERT INTO "{table}" VALUES (?, ?, ?, ?, ?)', rows)  # noqa: S608 - a test's name
    connection.close()
    return f"sqlite:///{path}"


def test_sqlite(tmp_path: Path) -> None:
    check_good(load(f"{sqlite_clients(tmp_path)}?table=clients"))


def test_sqlite_reads_only_the_columns_asked_for(tmp_path: Path) -> None:
    table = load(f"{sqlite_clients(tmp_path)}?table=clients", columns=["income"], label_column=None)
    assert table.feature_names == ("income",)


def test_table_name_is_quoted(tmp_path: Path) -> None:
    url = sqlite_clients(tmp_path, table="x; DROP TABLE y -- select")
    check_good(load(f"{url}?table=x%3B DROP TABLE y -- select"))


def test_sqlite_whole_number_ids(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE clients (client INTEGER, age REAL)")
        connection.executemany("INSERT INTO clients VALUES (?, ?)", [(2**60 + 1, 1.0), (7, 2.0)])
    connection.close()
    assert load(f"sqlite:///{path}?table=clients", label_column=None).ids == (str(2**60 + 1), "7")


# --- ids ----------------------------------------------------------------------------------------------------


def ids_of(values: list[object]) -> Sequence[str]:
    frame = pd.DataFrame({"id": pd.Series(values, dtype=object), "x": np.arange(len(values), dtype=float)})
    return table_from_frame(frame, id_column="id", label_column=None).ids


def test_whole_number_ids_become_their_digits() -> None:
    assert ids_of([1, np.int64(2), 3.0, Decimal("4"), Decimal("5.00")]) == ("1", "2", "3", "4", "5")


def test_padding_of_ids_is_removed_and_uuids_are_text() -> None:
    key = uuid.UUID(int=7)
    assert ids_of(["  a ", key]) == ("a", str(key))


def test_parquet_integer_ids_stay_integers(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"id": [10**17 + 1, 2], "x": [0.5, 1.5]}).to_parquet(path)
    assert load_table(str(path), id_column="id", label_column=None).ids == ("100000000000000001", "2")


def test_parquet_integer_ids_with_a_gap_name_the_row(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"id": pd.array([1, None, 3], dtype="Int64"), "x": [0.5, 1.5, 2.5]}).to_parquet(path)
    with pytest.raises(TableError, match=r"1 row without an id \(row 2\)"):
        load_table(str(path), id_column="id", label_column=None)


@pytest.mark.parametrize(
    "bad", [1.5, float(2**60), Decimal("1.5"), Decimal("NaN"), math.inf, True, b"x", datetime.date(2020, 1, 1)]
)
def test_ids_that_are_not_exact(bad: object) -> None:
    with pytest.raises(TableError, match=r"id in row 2 is neither text nor an exact whole number"):
        ids_of(["a", bad])


@pytest.mark.parametrize("empty", ["", "  ", None, math.nan, pd.NA, pd.NaT])
def test_empty_ids(empty: object) -> None:
    with pytest.raises(TableError, match=r"2 rows without an id \(rows 2, 4\)"):
        ids_of(["a", empty, "b", empty])


def test_duplicate_ids_are_counted_and_not_shown(tmp_path: Path) -> None:
    rows = "".join(f"{client},{row}\n" for row, client in enumerate(["secret", "b", *["secret"] * 5]))
    with pytest.raises(TableError, match=r"5 rows with the id of an earlier row \(rows 3, 4, 5, ...\)") as caught:
        load(write(tmp_path, f"client,x\n{rows}"), label_column=None)
    assert "secret" not in str(caught.value)


# --- faults -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, r"is empty"),
        ("client,age,y\n", {}, r"no rows"),
        ("client,y\n1,a\n2,b\n", {}, r"no feature columns"),
        (GOOD, {"columns": []}, r"no feature columns"),
        (GOOD, {"id_column": "klient"}, r"no id column 'klient'; .*'client', 'age'.*Did you mean 'client'\?"),
        (GOOD, {"label_column": "target"}, r"no label column 'target'"),
        (GOOD, {"columns": ["age", "incme"]}, r"no feature column 'incme'.*Did you mean 'income'"),
        (GOOD, {"columns": ["age", "age"]}, r"names a column twice"),
        (GOOD, {"columns": ["age", "y"]}, r"'y' is the id or the label"),
        (GOOD, {"label_column": "client"}, r"both the id and the label"),
        (GOOD.replace("45", "secret"), {}, r"'age' holds text, not a number, in row 2"),
        (GOOD.replace("45", ""), {}, r"'age' is empty \(or NaN\) in row 2 \(1 in all\)"),
        (GOOD.replace("45", "NaN"), {}, r"'age' is empty \(or NaN\) in row 2"),
        (GOOD.replace("45", "inf"), {}, r"'age' is infinite in row 2"),
        (GOOD.replace("False", ""), {}, r"'member' is empty \(or NaN\) in row 2"),
        (GOOD.replace("yes", ""), {}, r"Label column 'y' is empty in row 2"),
        (GOOD.replace("yes", "no"), {}, r"labels with one class"),
        (GOOD.replace("NA,", "007,"), {}, r"1 row with the id of an earlier row \(row 2\)"),
        (GOOD.replace("NA,", ","), {}, r"1 row without an id \(row 2\)"),
        (GOOD.replace("45,", "45,9,9,"), {}, r"more or fewer cells than the header"),
        (",client,x\n0,a,1\n1,b,2\n", {"label_column": None}, r"no name in the header"),
        ("client,x\n1,2,3\n4,5,6\n", {"label_column": None}, r"more or fewer cells than the header"),
        ("client,x,x\n1,2,3\n", {"label_column": None}, r"Two columns have the same name"),
        (
            "client,x\n1\n2,3\n",
            {"label_column": None},
            r"1 row has more or fewer cells than the header's 2 \(1 in row 1\)",
        ),
    ],
)
def test_bad_csv(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message) as caught:
        load(write(tmp_path, text), **options)
    assert "secret" not in str(caught.value)


def test_truncated_gzip(tmp_path: Path) -> None:
    path = tmp_path / "clients.csv.gz"
    path.write_bytes(gzip.compress((GOOD * 500).encode())[:-20])
    with pytest.raises(TableError, match="complete"):
        load(str(path))


def test_parquet_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="as Parquet"):
        load(write(tmp_path, GOOD, "clients.parquet"))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="There is no file"):
        load(str(tmp_path / "none.csv"))


@pytest.mark.parametrize("source", ["clients.xls", "clients", "clients.csv.zip"])
def test_unknown_format(source: str) -> None:
    with pytest.raises(TableError, match=r"Cannot tell the format.*\.parquet"):
        load(source)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["a", "b", "a"], dtype="category"),
        pd.Series([1, 2, 1], dtype="category"),
        pd.Series(["1", "2", "3"]),
        pd.Series([1.0, "secret", 2.0], dtype=object),
        pd.Series(pd.to_datetime(["2020-01-01"] * 3)),
        pd.Series([1j, 2j, 3j]),
    ],
)
def test_columns_that_need_encoding(column: pd.Series[Any]) -> None:
    with pytest.raises(TableError, match=r"'age' .*encode it as numbers first") as caught:
        table_from_frame(good_frame().assign(age=column), id_column="client", label_column="y")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "float32", "uint8", "object"])
def test_number_types(dtype: str) -> None:
    frame = good_frame().assign(age=pd.Series([31, 45, 28], dtype=dtype))
    check_good(table_from_frame(frame, id_column="client", label_column="y"))


def test_decimals_and_nullable_booleans() -> None:
    frame = good_frame().assign(
        age=pd.Series([Decimal("31"), Decimal("45"), Decimal("28")], dtype=object),
        member=pd.array([True, False, True], dtype="boolean"),
    )
    check_good(table_from_frame(frame, id_column="client", label_column="y"))


def test_nullable_gap_is_a_missing_value() -> None:
    frame = good_frame().assign(age=pd.array([1, None, 3], dtype="Int64"))
    with pytest.raises(TableError, match=r"'age' is empty \(or NaN\) in row 2"):
        table_from_frame(frame, id_column="client", label_column="y")


def test_two_columns_of_one_name() -> None:
    frame = good_frame().set_axis(["client", "age", "age", "member", "y"], axis="columns")
    with pytest.raises(TableError, match="same name"):
        table_from_frame(frame, id_column="client", label_column="y")


def test_parts_of_a_table_must_fit() -> None:
    two, labels = np.zeros((2, 1)), np.array(["a", "b"], dtype=object)
    bad_tables: list[Callable[[], Table]] = [
        lambda: Table((), np.zeros((0, 1)), ("x",)),
        lambda: Table(("a", "b"), two, ()),
        lambda: Table(("a",), two, ("x",)),
        lambda: Table(("a", "b"), two, ("x", "z")),
        lambda: Table(("a", "a"), two, ("x",)),
        lambda: Table(("a", "b"), two * np.nan, ("x",)),
        lambda: Table(("a", "b"), two, ("x",), labels[:1]),
    ]
    for bad in bad_tables:
        with pytest.raises(TableError):
            bad()


# --- databases ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:///{db}", r"names no table: end it in \?table=NAME"),
        ("sqlite:///{db}?table=", r"names no table"),
        ("sqlite:///{db}?table=client", r"no table 'client' \(1 others\)\. Did you mean 'clients'\?"),
        ("sqlite:///{db}?table=main.nothing", r"no table 'main.nothing'"),
        ("sqlite:///{db}.missing?table=clients", r"There is no file"),
        ("nosuch://u:secret@h/d?table=t", r"Unknown kind of database in nosuch://u:\*\*\*@h/d:"),
        ("postgresql+psycopg://u:secret@h:port/d?table=t", r"Cannot read the database URL .*u:\*\*\*@h:\*\*\*:"),
        ("://x?table=t", r"Cannot read the database URL"),
        ("postgresql+psycopg://u:begin@secret@h/d?table=t", r"contains @: write it as %40"),
        ("postgresql+psycopg://u:begin?secret@h/d?table=t", r"u:\*\*\*@h/d"),
    ],
)
def test_bad_database_urls(tmp_path: Path, url: str, message: str) -> None:
    sqlite_clients(tmp_path)
    with pytest.raises(TableError, match=message) as caught:
        load(url.format(db=tmp_path / "x.db"))
    assert "secret" not in str(caught.value)
    assert not (tmp_path / "x.db.missing").exists()


def test_missing_columns_in_a_database(tmp_path: Path) -> None:
    url = f"{sqlite_clients(tmp_path)}?table=clients"
    with pytest.raises(TableError, match="no label column 'target'"):
        load(url, label_column="target")
    with pytest.raises(TableError, match=r"no feature column 'incom'.*Did you mean 'income'"):
        load(url, columns=["incom"])


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD * 50, "x.db")
    with pytest.raises(TableError, match="not a database"):
        load(f"sqlite:///{path}?table=clients")


def test_database_that_does_not_answer_hides_the_password() -> None:
    pytest.importorskip("psycopg")
    # Port 1 of the own machine: refused at once.
    for url in (
        "postgresql+psycopg://u:topsecret@127.0.0.1:1/d?table=t",
        "postgresql+psycopg://u@127.0.0.1:1/d?table=t&password=topsecret",
    ):
        with pytest.raises(TableError, match=r"Cannot read table 't' from postgresql\+psycopg://u") as caught:
            load(url)
        assert "topsecret" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_missing_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(TableError, match=r"plumbline\[postgres\]") as caught:
        load("postgresql+psycopg://u:topsecret@127.0.0.1:1/d?table=t")
    assert "topsecret" not in str(caught.value)


@pytest.fixture
def postgres() -> Iterator[Callable[[str], str]]:
    """Runs DDL in a schema of its own and hands out URLs of tables in it."""
    url = os.environ.get("PLUMBLINE_TEST_POSTGRES_URL")
    if not url:
        pytest.skip("set PLUMBLINE_TEST_POSTGRES_URL to a postgresql+psycopg:// URL")
    schema = f"plumbline_{uuid.uuid4().hex[:12]}"
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.schema.CreateSchema(schema))

    def run(ddl: str) -> str:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"SET search_path TO {schema}")
            connection.exec_driver_sql(ddl)
        joint = "&" if "?" in url else "?"
        return f"{url}{joint}table={schema}"

    yield run
    with engine.begin() as connection:
        connection.execute(sa.schema.DropSchema(schema, cascade=True))
    engine.dispose()


def test_postgres(postgres: Callable[[str], str]) -> None:
    url = postgres(
        """
        CREATE TABLE "Client list" (client char(8), age numeric(6, 2), income double precision, member
        boolean, y text); INSERT INTO "Client list" VALUES ('007', 31, 1.5, true, 'no'), ('NA', 45, 2.25,
        false, 'yes'), ('12', 28, -300, true, 'no');
        """
    )
    check_good(load(f"{url}.Client list"))


def test_postgres_view_with_numeric_ids_and_boolean_labels(postgres: Callable[[str], str]) -> None:
    url = postgres(
        """
        CREATE TABLE t (client numeric(30, 0), x real, y boolean);
        INSERT INTO t VALUES (123456789012345678901234, 0.5, true), (7, 1.5, false);
        CREATE VIEW people AS SELECT * FROM t;
        """
    )
    table = load(f"{url}.people")
    assert table.ids == ("123456789012345678901234", "7")
    assert table.labels is not None
    assert table.labels.tolist() == [1, 0]


def test_postgres_faults(postgres: Callable[[str], str]) -> None:
    url = postgres("CREATE TABLE t (client bigint, x real, y text); INSERT INTO t VALUES (1, NULL, 'a'), (2, 1, 'b')")
    with pytest.raises(TableError, match=r"'x' is empty \(or NaN\) in row 1"):
        load(f"{url}.t")
    with pytest.raises(TableError, match="no table"):
        load(f"{url}.nothing")


# --- labels -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["yes", "no", "yes"], ("no", "yes")),
        ([10, 9, 2], ("2", "9", "10")),
        (["10", "9", 2], ("2", "9", "10")),
        ([1.0, 0.0], ("0", "1")),
        ([True, False], ("0", "1")),
        ([0.5, -1.5], ("-1.5", "0.5")),
        ([1, "b"], ("1", "b")),
        (["nan", "2", "10"], ("10", "2", "nan")),
    ],
)
def test_class_names(labels: list[object], names: tuple[str, ...]) -> None:
    assert class_names(labels) == names
    index, encoded_names = encode_labels(labels)
    assert encoded_names == names
    assert index.dtype == np.int64
    assert index.shape == (len(labels),)


@given(st.lists(st.one_of(st.integers(), st.text(min_size=1).map(str.strip)), min_size=1))
def test_encoded_labels_name_their_class(labels: list[object]) -> None:
    index, names = encode_labels(labels)
    assert [names[i] for i in index] == [str(label) for label in labels]
    assert list(dict.fromkeys(names)) == list(names)


@pytest.mark.parametrize(
    ("cells", "labels"),
    [(["0", "1"], [0, 1]), (["01", "1"], ["01", "1"]), (["-3", "12"], [-3, 12]), (["1.0", "0"], [1, 0])],
)
def test_labels_of_a_csv(tmp_path: Path, cells: list[str], labels: list[object]) -> None:
    rows = "".join(f"{row},{row},{cell}\n" for row, cell in enumerate(cells))
    table = load(write(tmp_path, f"client,x,y\n{rows}"))
    assert table.labels is not None
    assert table.labels.tolist() == labels
