"""Tables as banks export them: each is read right, or what is wrong is told with its column and row."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest

from vfl.data import TableError, TypedTable, read_table

NAN, NEVER = float("nan"), float("inf")
ROWS = 40


def day(year: int, month: int, number: int) -> float:
    return (datetime.date(year, month, number) - datetime.date(1970, 1, 1)).days


def export(*cells: str, separator: str = ";", below: str = "", above: str = "") -> str:
    """A file whose column `Betrag` has these cells over and over, between an id and another column."""
    rows = (separator.join([str(row + 1), cells[row % len(cells)], str(row % 7)]) for row in range(ROWS))
    return above + "\n".join([separator.join(["id", "Betrag", "k"]), *rows]) + "\n" + below


def read(folder: Path, content: str, encoding: str = "utf-8") -> TypedTable:
    path = folder / "export.csv"
    path.write_bytes(content.encode(encoding))
    return read_table(str(path), id_column="id", label_column=None)


@pytest.mark.parametrize(
    ("content", "encoding", "first"),
    [
        (export("1.234,50", "12,00"), "utf-8-sig", [1234.5, 12]),
        (export("1.234,50", "12,00"), "utf-16", [1234.5, 12]),
        (export("1.234,50", "12,00", separator="\t"), "utf-8", [1234.5, 12]),
        (export('"1.234,50"', '"12,00"', separator=","), "utf-8", [1234.5, 12]),
        (export("1\u00a0234,50", "7,10"), "cp1252", [1234.5, 7.1]),
        (export("1\u202f234", "7"), "utf-8", [1234, 7]),
        (export("1.234,50 EUR", "€ -3,00"), "utf-8", [1234.5, -3]),
        (export("CHF 12.-", "CHF 1'200.50", "Fr. 1\u2019300.\u2014"), "utf-8", [12, 1200.5, 1300]),
        (export("(12.30)", "7.00"), "utf-8", [-12.3, 7]),
        (export("(1.234,50) EUR", "(EUR 7,00)", "1,00 EUR"), "utf-8", [-1234.5, -7, 1]),
        (export("12,30-", "\u22127,00"), "utf-8", [-12.3, -7]),
        (export("12,5 %", "7\u202f%"), "utf-8", [12.5, 7]),
        (export("1,5E+03", "2,0E-02"), "utf-8", [1500, 0.02]),
        # No group of thousands begins with 0.
        (export("0.634", "1.234"), "utf-8", [0.634, 1.234]),
        (export("1.234", "12.500.000", "999"), "utf-8", [1234, 12_500_000, 999]),
        (export("12", "#NV", "#DIV/0!"), "utf-8", [12, NAN, NAN]),
        (export("J", "N"), "utf-8", [1, 0]),
        (export("WAHR", "FALSCH", ""), "utf-8", [1, 0, NAN]),
        (export("31.12.9999", "01.02.2024", "05.02.2024"), "utf-8", [NEVER, day(2024, 2, 1)]),
        (export("01.01.0001 00:00:00", "01.02.2024 12:00:00"), "utf-8", [-NEVER, day(2024, 2, 1) + 0.5]),
        (export("01.02.24", "31.12.99"), "utf-8", [day(2024, 2, 1), day(1999, 12, 31)]),
        (export("01/2024", "12/2023"), "utf-8", [day(2024, 1, 1), day(2023, 12, 1)]),
        (export("12.III.2024", "01.XI.2023"), "utf-8", [day(2024, 3, 12), day(2023, 11, 1)]),
        (export("1 août 2024", "15 décembre 2023"), "cp1252", [day(2024, 8, 1), day(2023, 12, 15)]),
        (export("1. Mai 2024", "03. Mrz 2024"), "utf-8", [day(2024, 5, 1), day(2024, 3, 3)]),
        (export("5 lip 2024", "3 gennaio 2024"), "utf-8", [day(2024, 7, 5), day(2024, 1, 3)]),
        (export("2024Q1", "2023-Q4"), "utf-8", [day(2024, 1, 1), day(2023, 10, 1)]),
        (export("Q2 2024", "3. Quartal 2023"), "utf-8", [day(2024, 4, 1), day(2023, 7, 1)]),
        (export("Jan-24", "Dez-23"), "utf-8", [day(2024, 1, 1), day(2023, 12, 1)]),
        (export("März 2024", "paź 2023"), "utf-8", [day(2024, 3, 1), day(2023, 10, 1)]),
        (export("Mo 01.01.2024", "Di 02.01.2024"), "utf-8", [day(2024, 1, 1), day(2024, 1, 2)]),
        (export("Mon, 01 Jan 2024", "Wed, 03 Jan 2024"), "utf-8", [day(2024, 1, 1), day(2024, 1, 3)]),
        (export("KW 1/2024", "2024-W05"), "utf-8", [day(2024, 1, 1), day(2024, 1, 29)]),
        (export("KW 77/2024", "KW 5/2024", "KW 6/2024"), "utf-8", ["KW 77/2024"]),
        (export(*["2024-02-01"] * 38, "2024-02-30", "2023-02-29"), "utf-8", [day(2024, 2, 1)]),
        # Of a language that isn't listed, whose months begin alike.
        (export("1 março 2024", "5 janeiro 2024"), "utf-8", [day(2024, 3, 1), day(2024, 1, 5)]),
        # Names, whatever they begin with, versions and codes.
        (export("Version 1.2.20", "Version 1.3.21"), "utf-8", ["Version 1.2.20", "Version 1.3.21"]),
        (export("VII-12", "III-24"), "utf-8", ["VII-12", "III-24"]),
        (export("Market 2024", "Novartis 2023"), "utf-8", ["Market 2024", "Novartis 2023"]),
        (export("0000-00-00", "2024-02-01"), "utf-8", [NAN, day(2024, 2, 1)]),
        (export("00.00.0000", "00.00.0000", "00.00.0000", "01.02.2024", "07.02.2024"), "utf-8", [NAN, NAN, NAN]),
        (export("–3,50", "1\u2007234,00"), "utf-8", [-3.5, 1234]),
        (export("tak", "nie"), "utf-8", [1, 0]),
        (export("YES", "no", "Yes", "NO"), "utf-8", [1, 0, 1, 0]),
        (export("–", "12", "—"), "utf-8", [NAN, 12, NAN]),
        (export("12\u200b", "\ufeff7"), "utf-8", [12, 7]),
        # A number that stands for a day all the same, as Excel counts them.
        (export("45292", "45293"), "utf-8", [45292, 45293]),
        (export("Köln", "Zürich"), "cp1252", ["Köln", "Zürich"]),
        (export('"Haus\nund Hof"', "Wald"), "utf-8", ["Haus\nund Hof", "Wald"]),
        (export("01067", "80331"), "utf-8", ["01067", "80331"]),
        (export('="01067"', '="80331"'), "utf-8", ["01067", "80331"]),
        (export('"=""12,50"""', '"=""7"""'), "utf-8", [12.5, 7]),
        # The mark that keeps Excel from taking a postcode for a number.
        (export("'01067", "'80331"), "utf-8", ["'01067", "'80331"]),
        (export("+49301234567", "+49307654321"), "utf-8", ["+49301234567", "+49307654321"]),
        # A float can't tell them apart.
        (export("1234567890123456781", "1234567890123456782"), "utf-8", ["1234567890123456781", "1234567890123456782"]),
    ],
)
def test_read_right(tmp_path: Path, content: str, encoding: str, first: list[Any]) -> None:
    read_cells = read(tmp_path, content, encoding).frame["Betrag"].tolist()
    assert len(read_cells) == ROWS
    np.testing.assert_array_equal(read_cells[: len(first)], first)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (export("1.234", "12.500", "999"), "Points in it (first in row 1) may separate thousands or decimals"),
        # The others say one as often as the other.
        (
            "id;Betrag;a;b\n" + "".join(f"{row};1.{row:03};{row},5;{row}.5\n" for row in range(ROWS)),
            "Points in it (first in row 1) may separate thousands or decimals",
        ),
        (export("12,00 EUR", "7,00 USD"), "counted in EUR (first in row 1) and USD (first in row 2)"),
        (export("12 %", "0,5"), "counted in % (first in row 1) and no unit (first in row 2)"),
        (export("12 kg", "7 kg"), "40 cells (first in row 1) begin with a number and read as none"),
        (export("1.234,50 S", "12,00 H"), "begin with a number and read as none"),
        (export("1,2 Mio. EUR", "3 Mio. EUR"), "begin with a number and read as none"),
        (export("99991231", "20240105"), "They read as dates written as 20241231"),
        (export("1900-01-32", "2024-02-01", "2024-02-03"), "26 cells (first in row 2) read as dates, and 14 cells"),
        (export("01.02.44", "31.12.65"), "Years of two digits are taken to be those from 1969 to 2068"),
        (export("202311", "202312", "202401", "202402"), "They read as dates written as 202412"),
        (export("Jan-24", "Feb-24"), "Years of two digits are taken to be those from 1969 to 2068"),
        (export("01.02.2024", "2024-02-03", "2024-02-04"), "26 cells (first in row 2) read as dates, and 14 cells"),
        (export("1,50", "1.50", "2.50"), "26 cells (first in row 2) read as numbers, and 14 cells (first in row 1)"),
        (export("Wort", "4508", "a", "b"), "10 cells (first in row 2) read as numbers, and 30 cells (first in row 1)"),
        (export(*map(str, range(39)), "geheim"), "1 cell (first in row 40) held no number"),
        (export(*(f"DE{row:02} 3704 0044 0532 0130 00" for row in range(ROWS))), "Hardly a value occurs twice"),
        (export(*(f"{row},50 kg" for row in range(ROWS))), "40 cells (first in row 1) begin with a number"),
    ],
)
def test_told_of_a_column(tmp_path: Path, content: str, told: str) -> None:
    (plan,) = (one for one in read(tmp_path, content).plans if one.name == "Betrag")
    assert told in plan.warning
    assert "geheim" not in plan.warning


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (export("1,00", "2,00", below="Summe;78,00;117\n"), ["The last row (row 41) is called a total"]),
        (export("1,00", "2,00", below=";78,00;117\n"), ["1 row without an id (row 41)"]),
        (export("1,00", "2,00", below="40 Zeilen\n"), ["the header's 3 (1 in row 41): a separator"]),
        (export("1,00", above="Export vom Montag\n\n"), ["put nothing above it"]),
        ("id;x\n1;2;\n2;3;\n3;4;\n", ["3 rows have more", "(3 in rows 1, 2, 3)", "no separator at the end"]),
        # Lines that don't fit hide none of the others' faults, and all have the numbers of their rows.
        (
            "id;x;k\n1;2;3\n2;3;4;5\n\n1;3;4\n5;6\n6;7\n;8;9\n7;8;9\nSumme;36\n",
            ["4 rows have", "(4 in row 2; 2 in rows 4, 5, 8)", "(row 6)", "of an earlier row (row 3)", "a total"],
        ),
        (export("1", "2", below="99;1\n") + "1;1;1\n", ["(2 in row 41)", "of an earlier row (row 42)"]),
        (export("1", below="id;Betrag;k\n41;1;1\n"), ["The header is repeated in row 41"]),
        ("id;x\n1,2346E+15;1\n1,2346E+15;2\n", ["2 rows whose id has lost digits", "earlier row (row 2)"]),
        # Rows that end in a quote's cell are missed by nobody else.
        (export("1", below='41;1;"2\n42;1;2\n43;1;2\n'), ["1 row has a quote", "(row 41)"]),
        (export("1", below='41;1;"2\n42;1;2\n43;1;"2\n1;1;2\n'), ["1 row has a quote", "(row 41)", "(row 42)"]),
        (export("1", below='41;"1;2\n42;1;2\n43;1;2\n'), ["1 row has a quote", "(row 41)"]),
        # A header's fault hides none of the rows'.
        ("id;x;x;k\n1;2;3;4\n1;3;4;5\n;4;4;6\n", ["('x')", "without an id (row 3)", "of an earlier row (row 2)"]),
        ("id;id;x\n1;1;2\n2;2;3\n", ["('id')"]),
    ],
)
def test_refused_with_rows(tmp_path: Path, content: str, told: list[str]) -> None:
    with pytest.raises(TableError) as caught:
        read(tmp_path, content)
    for part in told:
        assert part in str(caught.value)


@pytest.mark.parametrize("other", ["Köln".encode("cp1252"), b"K\xc3"], ids=["put together", "damaged"])
def test_two_encodings_in_a_file_are_told_with_their_lines(tmp_path: Path, other: bytes) -> None:
    (tmp_path / "t.csv").write_bytes("id;x\n1;Bonn\n2;Zürich\n".encode() + b"3;" + other + b"\n4;a\n")
    with pytest.raises(TableError, match=r"two encodings: line 3 has letters in UTF-8, and line 4 some"):
        read_table(str(tmp_path / "t.csv"), id_column="id", label_column=None)


def test_months_of_six_digits_are_dates_where_a_person_says_so(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(export("202311", "202312", "202401"))
    table = read_table(str(tmp_path / "t.csv"), id_column="id", label_column=None, encode={"Betrag": "date"})
    assert table.frame["Betrag"].tolist()[:3] == [day(2023, 11, 1), day(2023, 12, 1), day(2024, 1, 1)]


def test_columns_without_cells_or_a_name_are_left_out(tmp_path: Path) -> None:
    table = read(tmp_path, "id;x;leer;;\n1;2;;;\n2;3;;;\n3;4;;;\n")
    assert [plan.name for plan in table.kept] == ["x"]


def test_day_0_of_a_workbook_is_no_date(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["id", "Betrag"])
    for row in range(ROWS):
        book.active.append([row, datetime.date(2024, 1, row + 1) if row % 4 and row < 30 else 0])
        book.active.cell(row + 2, 2).number_format = "dd.mm.yyyy"
    book.save(tmp_path / "t.xlsx")
    table = read_table(str(tmp_path / "t.xlsx"), id_column="id", label_column=None)
    np.testing.assert_array_equal(table.frame["Betrag"].tolist()[:2], [NAN, day(2024, 1, 2)])
