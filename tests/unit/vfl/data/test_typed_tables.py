"""A raw table from the file to typed columns: what each kind of column becomes, what is said of it, what is refused."""

from __future__ import annotations

import datetime
import gzip
import math
import re
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vfl.data import ColumnPlan, TableError, TypedTable, fit_columns, read_table

NAN = float("nan")
ROWS = 40


def write(folder: Path, columns: dict[str, list[Any]], *, separator: str = ",", ending: str = "csv") -> str:
    """A file of these columns behind ids 1, 2, ..., cells quoted where they need it."""
    rows = len(next(iter(columns.values())))
    frame = pd.DataFrame({"id": range(1, rows + 1), **columns})
    path = folder / f"t.{ending}"
    save(frame, path, separator)
    return str(path)


def save(frame: pd.DataFrame, path: Path, separator: str = ",") -> None:
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".xlsx":
        frame.to_excel(path, index=False)
    else:
        frame.to_csv(path, index=False, sep=separator)


def read(source: str, **options: Any) -> TypedTable:
    return read_table(source, **{"id_column": "id", "label_column": None, **options})


def column(folder: Path, cells: list[Any], *, separator: str = ",", **options: Any) -> tuple[ColumnPlan, list[Any]]:
    """The plan of one column, beside one that is always kept, and its typed cells."""
    others = [row % 2 for row in range(len(cells))]
    table = read(write(folder, {"x": cells, "other": others}, separator=separator), **options)
    plan = next(one for one in table.plans if one.name == "x")
    return plan, table.frame["x"].tolist() if "x" in table.frame else []


def repeated(*cells: Any) -> list[Any]:
    return [cells[row % len(cells)] for row in range(ROWS)]


@pytest.mark.parametrize(
    ("cells", "encoding", "found", "becomes", "first"),
    [
        ([3, 1, 2], "number", "numbers from 1 to 3", "1 feature", [3, 1, 2]),
        (["1,5", "2,25"], "number", "numbers from 1.5 to 2.25 with decimal commas", "1 feature", [1.5, 2.25]),
        (["1,234.5", "7"], "number", "numbers from 7 to 1,234", "1 feature", [1234.5, 7]),
        (["12 %", "7 %"], "number", "numbers from 7 to 12", "1 feature", [12, 7]),
        ([0, 1], "number", "0 or 1", "1 feature", [0, 1]),
        (["yes", "No"], "number", "yes or no", "1 feature", [1, 0]),
        (["True", "False"], "number", "yes or no", "1 feature", [1, 0]),
        (["a", "b", "c"], "onehot", "3 categories", "3 features, one per category", ["a", "b", "c"]),
        (
            ["a", "", "c"],
            "onehot",
            "2 categories, 32 % missing",
            "3 features, one per category and one for missing",
            None,
        ),
        ([1, "", 3, 4], "number", "numbers from 1 to 4, 25 % missing", "2 features: the number, and whether", [1, NAN]),
        (
            ["2024-01-31", "2024-02-01"],
            "date",
            "dates from 2024-01-31 to 2024-02-01",
            "1 feature: days",
            [19753, 19754],
        ),
        (["31.01.2024", "?"], "date", "dates from 2024-01-31 to 2024-01-31, day first, 50 %", "2 features: days", None),
        # What banks write for "for ever" is no day, whatever it is written as and however many rows have it.
        (
            ["2024-01-31", "2023-02-01", *["9999-12-31"] * 8],
            "date",
            "dates from 2023-02-01 to 2024-01-31, 32 rows with no end",
            "2 features: days since 1970, and whether it has no end",
            [19753, 19389, float("inf")],
        ),
        (
            ["31.12.9999", "01.01.0001", "31.01.2024", ""],
            "date",
            "dates from 2024-01-31 to 2024-01-31, day first, 10 rows with no end, 10 rows with no beginning, 25 %",
            "4 features: days since 1970, and whether it is missing, and whether it has no end, and whether it has no",
            [float("inf"), -float("inf"), 19753],
        ),
        (["1066-10-14", "1215-06-15", "1492-10-12", "1517-10-31"], "date", "dates from 1066-10-14", "1 feature", None),
        (["1.234,50 EUR", "12,00 EUR"], "number", "numbers from 12 to 1,234 with", "1 feature", [1234.5, 12]),
        (["CHF 12.-", "CHF 1'200.50"], "number", "numbers from 12 to 1,200", "1 feature", [12, 1200.5]),
        (["(12.30)", "7"], "number", "numbers from -12.3 to 7", "1 feature", [-12.3, 7]),
        (["12,5 %", "7 %"], "number", "numbers from 7 to 12.5 with", "1 feature", [12.5, 7]),
        (["1 234", "7"], "number", "numbers from 7 to 1,234", "1 feature", [1234, 7]),
        (["07", "12"], "onehot", "2 categories", "2 features", ["07", "12"]),
        (["same"], "drop", "the same value in every row", "left out: every row has the same value", []),
        ([5.5], "drop", "the same value in every row", "left out", []),
        (["NA", ""], "drop", "nothing: every cell is empty", "left out", []),
        (["same", ""], "onehot", "1 category, 50 % missing", "2 features", None),
    ],
)
def test_what_a_column_becomes(
    tmp_path: Path, cells: list[Any], encoding: str, found: str, becomes: str, first: list[Any] | None
) -> None:
    plan, typed = column(tmp_path, repeated(*cells))
    assert plan.encoding == encoding
    assert plan.found.startswith(found)
    assert plan.becomes.startswith(becomes)
    if first is not None:
        np.testing.assert_array_equal(typed[: len(first)], first)


@pytest.mark.parametrize(
    ("cells", "encoding", "found", "warning"),
    [
        ([f"c{row % 21}" for row in range(210)], "ordinal", "21 categories", "become one number"),
        ([f"secret {row}" for row in range(99)], "drop", "text, 99 different values in 99 rows", "--encode x=ordinal"),
        (
            [*range(38), "secret", "?"],
            "number",
            "numbers from 0 to 37, 5 % missing",
            "1 cell (first in row 39) held no number",
        ),
        ([f"0{row % 9}" for row in range(40)], "onehot", "9 categories", "leading zeros are taken for codes"),
        (list(range(7, 127)), "number", "numbers from 7 to 126", "if it is an id, drop the column"),
        (repeated("01/02/2024", "03/04/2024"), "date", "dates from 2024-02-01", "Days and months can't be told apart"),
        (
            repeated("1,234", "5,678"),
            "number",
            "numbers from 1,234",
            "Commas in it (first in row 1) may",
        ),
        (
            ["secret", "4508", "9999-12-31", "secret"],
            "onehot",
            "3 categories",
            "1 cell (first in row 2) read as numbers, and 3 cells (first in row 1) don't",
        ),
        (
            repeated("secret", "2024-01-31"),
            "onehot",
            "2 categories",
            "20 cells (first in row 2) read as dates, and 20 cells (first in row 1) don't",
        ),
        (repeated("1", "2", "inf"), "number", "numbers from 1 to 2, 32 % missing", "held infinity"),
    ],
)
def test_warnings_say_what_to_do(tmp_path: Path, cells: list[Any], encoding: str, found: str, warning: str) -> None:
    plan, _ = column(tmp_path, cells)
    assert plan.encoding == encoding
    assert plan.found.startswith(found)
    assert warning in plan.warning
    assert "secret" not in plan.found + plan.warning + plan.becomes


def test_plain_columns_have_no_warning(tmp_path: Path) -> None:
    for cells in (repeated(3.5, 1, 2), repeated("a", "b"), repeated("2024-01-31", "2024-02-01"), repeated("yes", "no")):
        assert not column(tmp_path, cells)[0].warning


def test_what_one_column_leaves_open_another_decides(tmp_path: Path) -> None:
    columns = {"open": repeated("1,234", "5,678"), "sure": repeated("0,5", "12,25")}
    table = read(write(tmp_path, columns))
    assert table.frame["open"].tolist()[:2] == [1.234, 5.678]
    assert not table.plans[0].warning
    assert (
        read(write(tmp_path, {"open": columns["open"], "n": list(range(ROWS))}, separator=";")).frame["open"][0]
        == 1.234
    )


@pytest.mark.parametrize(
    ("cells", "asked", "encoding", "first"),
    [
        ([1, 2], "onehot", "onehot", ["1", "2"]),
        ([1.5, 2], "ordinal", "ordinal", ["1.5", "2"]),
        (["07", "12"], "number", "number", [7, 12]),
        ([20240131, 20240201], "date", "date", [19753, 19754]),
        (["yes", "no"], "onehot", "onehot", ["yes", "no"]),
        (["yes", "no"], "number", "number", [1, 0]),
        (["1", "word"], "number", "number", [1, NAN]),
        (["2024-01-31", "2024-02-01"], "onehot", "onehot", ["2024-01-31", "2024-02-01"]),
        ([3, 4], "drop", "drop", []),
    ],
)
def test_encodings_that_are_asked_for(
    tmp_path: Path, cells: list[Any], asked: str, encoding: str, first: list[Any]
) -> None:
    plan, typed = column(tmp_path, repeated(*cells), encode={"x": asked})
    assert plan.encoding == encoding
    np.testing.assert_array_equal(typed[: len(first)], first)


def test_distinct_text_is_kept_when_asked_for(tmp_path: Path) -> None:
    plan, typed = column(tmp_path, [f"t{row}" for row in range(99)], encode={"x": "ordinal"})
    assert plan.becomes == "1 feature: a code by how often a value occurs"
    assert len(set(typed)) == 99


def test_everything_wrong_with_a_table_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,age,job,y\n1,secret,x,a\n1,2,y,\n,3,z,a\n")
    with pytest.raises(TableError) as caught:
        read(
            str(path), label_column="y", columns=["age", "jop", "job"], drop=["z*"], encode={"job": "date", "q": "drop"}
        )
    told = caught.value.problems
    for problem, part in zip(
        told,
        [
            "no feature column 'jop'; the columns are 'id', 'age', 'job', 'y'. Did you mean 'job'?",
            "no column to drop 'z*'",
            "no column 'q' to encode",
            "1 row without an id (row 3)",
            "1 row with the id of an earlier row (row 2)",
            "Label column 'y' is empty in row 2",
            "'job' can't become a date",
        ],
        strict=True,
    ):
        assert part in problem
    assert str(caught.value) == "\n".join(told)
    assert "secret" not in str(caught.value)


def test_rows_that_are_exact_copies_are_called_so(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("id,age\na,31\nb,45\na,31\nb,46\n")
    with pytest.raises(TableError) as caught:
        read(str(path))
    assert caught.value.problems == (
        "There are 2 rows with the id of an earlier row (rows 3, 4): keep one row per id.",
        "Copies of an earlier row in all columns that are used: row 3 (1 in all). Remove them.",
    )


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([row * 1.5 for row in range(ROWS)], "looks like a number, not a class: it has 40 different values"),
        ([f"{row},5" for row in range(ROWS)], "looks like a number, not a class"),
        (list(range(60)), "looks like a number, not a class: it has 60 different values"),
        ([f"class {row}" for row in range(200)], "has 200 classes, and at most 100"),
        (repeated("same"), "labels with one class only"),
        (repeated("a", "", "b"), r"is empty in rows 2, 5, 8, ... \(13 in all\)"),
    ],
)
def test_labels_that_are_no_classes(tmp_path: Path, labels: list[Any], message: str) -> None:
    source = write(tmp_path, {"x": [row % 7 for row in range(len(labels))], "y": labels})
    with pytest.raises(TableError, match=message):
        read(source, label_column="y")


def test_a_label_that_is_the_id(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="cannot be both the id and the label"):
        read(write(tmp_path, {"x": [1, 2]}), label_column="id")


def test_a_file_without_a_header_shows_no_cell(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("39,Secretgov,77516\n50,Secretself,83311\n")
    with pytest.raises(TableError, match="first line looks like a row of data") as caught:
        read(str(path))
    assert "Secret" not in str(caught.value)


def test_nothing_left_to_learn_from(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"No column is left to learn from: 'x' \(left out: every row has the same"):
        read(write(tmp_path, {"x": [1, 1]}))


def test_a_saved_row_index_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    pd.DataFrame({"id": [1, 2], "x": [3, 4]}).to_csv(path)
    table = read(str(path))
    assert [plan.encoding for plan in table.plans] == ["drop", "number"]
    assert "no name in the header" in table.plans[0].warning


def test_patterns_and_names(tmp_path: Path) -> None:
    columns = {"c1": [1, 2], "c2": [1, 2], "c*": [1, 2], "d": [3, 4]}
    source = write(tmp_path, columns)
    assert list(read(source, columns=["d", "c?"], drop=["c2"]).frame) == ["d", "c1", "c*"]
    # A column of just this name comes before what the pattern means.
    assert list(read(source, columns=["c*"]).frame) == ["c*"]


# --- ids ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "ids"),
    [
        (["1.0", "2.0", "100000.0"], ("1", "2", "100000")),
        (["1", "2", "1e+05"], ("1", "2", "100000")),
        # What one row has says nothing of the next: another party's column has other rows.
        (["1.5", "2.0"], ("1.5", "2")),
        (["01", "2.0"], ("01", "2")),
        (["007", "7"], ("007", "7")),
        (["1.0", "a"], ("1", "a")),
        # Wing E, bed 2; only programs write the plus.
        (["1E2", "2E2", "4e1"], ("1E2", "2E2", "4e1")),
        (["1E+05", "1.5e+01"], ("100000", "15")),
        (["12345678901234567890", "1"], ("12345678901234567890", "1")),
        (["1.2345678e+05", "1"], ("1.2345678e+05", "1")),
        (["NA", "null"], ("NA", "null")),
    ],
)
def test_ids_of_text(tmp_path: Path, cells: list[str], ids: tuple[str, ...]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,x\n" + "".join(f"{cell},{row}\n" for row, cell in enumerate(cells)))
    assert read(str(path)).ids == ids


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "xlsx"])
@pytest.mark.parametrize("kind", [int, float, str])
def test_ids_of_every_file_meet(tmp_path: Path, ending: str, kind: type) -> None:
    path = tmp_path / f"t.{ending}"
    save(pd.DataFrame({"id": [kind(1), kind(20)], "x": [0.5, 1.5]}), path)
    assert read(str(path)).ids == ("1", "20")


# --- the same table from any source -----------------------------------------------------------------------------


def raw() -> dict[str, list[Any]]:
    """A column of each kind; as Python values, which Parquet, Excel and a database have as such."""
    days = [datetime.datetime(2024, 1, 1) + datetime.timedelta(days=row) for row in range(ROWS)]
    return {
        "age": [20 + row % 30 for row in range(ROWS)],
        "income": [None if row == 3 else row * 1.25 for row in range(ROWS)],
        "job": [None if row == 7 else ("clerk", "smith", "Bäcker")[row % 3] for row in range(ROWS)],
        "member": [row % 2 == 0 for row in range(ROWS)],
        "since": days,
    }


def features(source: str) -> tuple[list[str], np.ndarray]:
    table = read(source)
    fitted = fit_columns(table, np.arange(30), "minmax")
    return [one.name for one in fitted.columns], fitted.transform(table)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "txt", "parquet", "xlsx", "db"])
def test_every_source_gives_the_same_features(tmp_path: Path, ending: str) -> None:
    if ending == "db":
        source = f"sqlite:///{tmp_path / 't.db'}?table=t"
        frame = pd.DataFrame({"id": range(1, ROWS + 1), **raw()}).astype({"since": str})
        with sqlite3.connect(tmp_path / "t.db") as connection:
            frame.to_sql("t", connection, index=False)
        connection.close()
    else:
        source = write(tmp_path, raw(), ending=ending)
    names, made = features(source)
    expected_names, expected = features(write(tmp_path, raw(), separator=";", ending="other.csv"))
    assert names == expected_names
    np.testing.assert_array_equal(made, expected)


def test_roles_are_of_columns_that_are_there_and_one_each(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,age,pay,paid\n1,30,5,1\n2,40,6,2\n")
    table = read(str(path))
    assert table.with_roles(["age"], ["pa*"]).roles == {"age": "public", "pay": "sensitive", "paid": "sensitive"}
    with pytest.raises(TableError, match="There is no column to call public 'agee'"):
        table.with_roles(["agee"], [])
    with pytest.raises(TableError, match="'pay' can't be both public and sensitive"):
        table.with_roles(["pay"], ["p*"])
    assert not table.with_roles(["of another share"], [], is_share=True).roles


def test_columns_of_odd_types(tmp_path: Path) -> None:
    source = tmp_path / "t.parquet"
    frame = pd.DataFrame(
        {
            "id": [1, 2, 3],
            "exact": [Decimal("1.50"), Decimal("2"), None],
            "spans": pd.to_timedelta([1, 2, 3], unit="D"),
            "known": pd.Categorical(["b", "a", "b"], categories=["a", "b", "never"]),
            "gap": pd.array([1, None, 3], dtype="Int64"),
            "lists": [[1], [2], [3]],
            "moments": [datetime.date(2024, 1, 1), None, datetime.date(2024, 1, 3)],
            "until": [datetime.date(9999, 12, 31), datetime.date(2024, 1, 1), datetime.date(2024, 1, 3)],
        }
    )
    frame.to_parquet(source)
    table = read(str(source))
    assert [plan.encoding for plan in table.plans] == ["number", "number", "onehot", "number", "drop", "date", "date"]
    assert table.frame["spans"].tolist() == [1, 2, 3]
    assert table.frame["known"].tolist() == ["b", "a", "b"]
    assert "2 categories" in table.plans[2].found
    assert table.frame["exact"].tolist()[:2] == [1.5, 2]
    assert math.isnan(table.frame["gap"][1])
    assert table.frame["moments"][2] == 19725
    assert table.frame["until"].tolist() == [math.inf, 19723, 19725]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 2)), min_size=3, max_size=8, unique=True),
    decimal=st.sampled_from(".,"),
    grouped=st.booleans(),
    separator=st.sampled_from(";\t|"),
    encoding=st.sampled_from(["utf-8", "utf-16", "cp1252"]),
    packed=st.booleans(),
)
def test_numbers_of_any_notation_come_back(
    tmp_path: Path, values: list[float], decimal: str, grouped: bool, separator: str, encoding: str, packed: bool
) -> None:
    other = {".": ",", ",": "."}[decimal]
    texts = [
        f"{value:,.2f}".replace(",", "G").replace(".", decimal).replace("G", other if grouped else "")
        for value in values
    ]
    lines = [separator.join(("id", "größe"))] + [f"{row}{separator}{text}" for row, text in enumerate(texts)]
    content = "\n".join(lines).encode(encoding)
    path = tmp_path / ("t.csv.gz" if packed else "t.txt")
    path.write_bytes(gzip.compress(content) if packed else content)
    assert read(str(path)).frame["größe"].tolist() == values


def test_excel_without_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    pd.DataFrame().to_excel(path, index=False)
    with pytest.raises(TableError, match="The sheet 'Sheet1', is empty"):
        read(str(path))
    path.write_bytes(b"no workbook")
    with pytest.raises(TableError, match="as an Excel workbook"):
        read(str(path))


def test_excel_with_rows_around_the_table(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame({"id": ["a", "b", None], "x": [1, 2, None]}).to_excel(book, index=False, startrow=2)
        pd.DataFrame({"id": [9]}).to_excel(book, index=False, sheet_name="more")
    table = read(str(path))
    assert table.ids == ("a", "b")
    assert table.read_as == "sheet 'Sheet1', one of 2"


@pytest.mark.parametrize("distinct", [900, 1_100])
@pytest.mark.parametrize("kind", ["names", "codes"])
def test_what_a_column_is_advised_to_become_it_can_become(tmp_path: Path, distinct: int, kind: str) -> None:
    """Of 1,100 categories, a feature each was advised and then refused."""
    texts = {
        "names": [f"K{row % distinct:05d}" for row in range(2 * distinct)],
        "codes": [f"{row % distinct}E3" if row % distinct < 5 else str(row % distinct) for row in range(2 * distinct)],
    }
    source = write(tmp_path, {"x": texts[kind], "other": [row % 2 for row in range(2 * distinct)]})
    (plan,) = [one for one in read(source).plans if one.name == "x"]
    said = plan.warning
    assert said
    advised = re.findall(r"--encode x=(\w+)", said)
    assert ("onehot" in advised) == (distinct == 900)
    for encoding in advised:
        (again,) = [one for one in read(source, encode={"x": encoding}).plans if one.name == "x"]
        assert again.encoding == encoding
