"""Files as they come: letters of any encoding, folders of parts, several sheets, numbers that stand for none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest

from vfl.data import TableError, TypedTable
from vfl.data.reading_rules import ReadingRules
from vfl.data.selection import Selection
from vfl.data.typed_tables import read_selected

ROWS = 40
CITIES = {
    "gb18030": ["北京", "上海", "广州", "深圳"],
    "gbk": ["猫", "狗", "鸟", "鱼"],
    "big5": ["臺北", "高雄", "臺中", "花蓮"],
    "shift_jis": ["東京", "大阪", "名古屋", "札幌"],
    "euc_kr": ["서울", "부산", "대구", "인천"],
    "cp1251": ["Москва", "Казань", "Пермь", "Тверь"],
    "koi8_r": ["Москва", "Казань", "Пермь", "Тверь"],
    "cp1253": ["Αθήνα", "Πάτρα", "Λάρισα", "Βόλος"],
    "cp1250": ["Łódź", "Kraków", "Wrocław", "Śląsk"],
    "cp1252": ["Köln", "Zürich", "Orléans", "Besançon"],
}


def read(path: Path, **rules: Any) -> TypedTable:
    return read_selected(str(path), lambda _: Selection("id", None), None, ReadingRules(**rules))


def text(words: list[str], header: str = "id,x,n") -> str:
    return header + "\n" + "".join(f"{row},{words[row % len(words)]},{row % 7}\n" for row in range(ROWS))


# -- encodings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", CITIES)
def test_letters_are_read_as_what_they_are_and_a_guess_is_told(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text(CITIES[encoding]).encode(encoding))
    guessed = read(path)
    assert guessed.frame["x"].tolist()[:4] == CITIES[encoding]
    assert "a guess by its letters" in guessed.notes[0]
    assert "--encoding" in guessed.notes[0]
    said = read(path, encoding=encoding)
    assert said.frame["x"].tolist()[:4] == CITIES[encoding]
    assert said.read_as == f"{encoding} text separated by commas"
    assert not said.notes


@pytest.mark.parametrize("words", [["12 €", "7 €"], ["10°", "12°"], ["1\u00a0234,50", "7,10"], ["it’s", "– no"]])
def test_signs_alone_are_the_same_in_all_of_windows_encodings(tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text([f'"{word}"' for word in words]).encode("cp1252"))
    table = read(path)
    assert table.read_as == "Windows-1252 text separated by commas"
    assert not table.notes


@pytest.mark.parametrize("content", [b"id,x\n1,\x81\xfe\n2,\x8d\xff\n", b"id,x\n1,\xff\xfe\xfd\xfc\n2,b\n"])
def test_letters_that_tell_nothing_are_asked_for(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(TableError, match=r"isn't UTF-8, and its letters don't tell what it is: say it with --encoding"):
        read(path)


def test_what_is_said_of_an_encoding_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text(CITIES["cp1251"]).encode("cp1251"))
    with pytest.raises(TableError, match="is no text in utf-8: check --encoding"):
        read(path, encoding="utf-8")


# -- folders of part files -----------------------------------------------------------------------------------------


def parts(folder: Path, ending: str, count: int = 12) -> tuple[Path, pd.DataFrame]:
    """A table in parts as Spark writes them, with all that lies beside."""
    frame = pd.DataFrame({"id": range(2**60, 2**60 + 120), "x": np.arange(120) / 8, "c": ["a", "b", "c"] * 40})
    made = folder / f"table.{ending}"
    made.mkdir()
    for at, rows in enumerate(np.array_split(np.arange(120), count)):
        part = frame.iloc[rows]
        path = made / f"part.{at}.{ending}"
        part.to_parquet(path, index=False) if ending == "parquet" else part.to_csv(path, index=False)
    (made / "_SUCCESS").touch()
    (made / f".part.0.{ending}.crc").write_bytes(b"crc")
    (made / f"part.99.{ending}").touch()
    return made, frame


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz"])
def test_a_folder_of_part_files_is_a_table(tmp_path: Path, ending: str) -> None:
    made, frame = parts(tmp_path, ending)
    table = read(made)
    assert list(table.ids) == frame["id"].astype(str).tolist()
    assert table.frame["x"].tolist() == frame["x"].tolist()
    assert table.frame["c"].tolist() == frame["c"].tolist()
    assert table.read_as.endswith("12 part files")


def test_parts_of_other_types_keep_their_ids(tmp_path: Path) -> None:
    """Whole numbers beside floats would be rounded to other people's."""
    made, _ = parts(tmp_path, "parquet", 2)
    pd.DataFrame({"id": [7.0], "x": [1.0], "c": ["a"]}).to_parquet(made / "part.5.parquet", index=False)
    ids = list(read(made).ids)
    assert (ids[0], ids[-1]) == (str(2**60), "7")


def test_parts_that_are_no_table(tmp_path: Path) -> None:
    made, _ = parts(tmp_path, "csv")
    (made / "part.7.csv").write_text("id,other,c\n1,2,3\n")
    with pytest.raises(TableError, match=r"part 'part\.7\.csv' has other columns than 'part\.0\.csv'"):
        read(made)
    (tmp_path / "empty").mkdir()
    with pytest.raises(TableError, match="has no part of a table"):
        read(tmp_path / "empty")
    (tmp_path / "hive" / "year=2024").mkdir(parents=True)
    (tmp_path / "hive" / "year=2024" / "part.0.csv").write_text("id,x\n1,2\n")
    with pytest.raises(TableError, match=r"divided by column 'year', whose values are names of folders"):
        read(tmp_path / "hive")


# -- sheets --------------------------------------------------------------------------------------------------------


@pytest.fixture
def workbook(tmp_path: Path) -> Path:
    """Three sheets, of which the first is hidden."""
    book = openpyxl.Workbook()
    for name in ("Old", "Data", "Notes"):
        sheet = book.active if name == "Old" else book.create_sheet()
        sheet.title = name
        sheet.append(["id", "x"])
        for row in range(5):
            sheet.append([f"{name}{row}", row])
    book["Old"].sheet_state = "hidden"
    book.create_sheet("Bare")
    book.save(tmp_path / "t.xlsx")
    return tmp_path / "t.xlsx"


def test_the_sheet_that_is_read_is_named_and_hidden_ones_are_told(workbook: Path) -> None:
    table = read(workbook)
    assert table.ids[0] == "Data0"
    assert table.read_as == "sheet 'Data', one of 4, of which 1 hidden ('Old')"
    assert read(workbook, sheet="Notes").ids[0] == "Notes0"
    assert read(workbook, sheet="Old").ids[0] == "Old0"


def test_a_sheet_that_is_not_there_or_has_nothing(workbook: Path) -> None:
    with pytest.raises(TableError, match=r"no sheet 'Date'; there are 'Old', 'Data', .*\. Did you mean 'Data'"):
        read(workbook, sheet="Date")
    with pytest.raises(TableError, match=r"'Bare', one of 4, .* is empty: put the table there, or name its sheet"):
        read(workbook, sheet="Bare")


# -- numbers that stand for none -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "stand_in"),
    [
        ([17, 30, 45, 60, 98, -9999], -9999),
        ([17.5, 30, 45, 60, 98, 999], 999),
        ([1200, 3000, 4500, 6000, 999999], 999999),
        ([0, 1, 2, 5, 8, -1], -1),
        ([36.5, 37.2, 38, 39, 40.1, 888], 888),
        ([-20, -3, 5, 31, 40, -999], -999),
    ],
)
def test_numbers_that_stand_for_none_are_told_and_taken_out_where_somebody_says_so(
    tmp_path: Path, cells: list[float], stand_in: int
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text([str(cell) for cell in cells]))
    plan = read(path).plans[0]
    times = sum(cells[row % len(cells)] == stand_in for row in range(ROWS))
    assert f"{times} cells (first in row {len(cells)}) are {stand_in}, and others go from" in plan.warning
    assert f"use --missing={stand_in}." in plan.warning
    for rule in (str(stand_in), f"x={stand_in}", f"?={stand_in}.0"):
        without = read(path, missing=(rule,)).plans[0]
        assert "missing" in without.found
        assert "stands for no value" not in without.warning
    assert "missing" not in read(path, missing=(f"n={stand_in}",)).plans[0].found


@pytest.mark.parametrize(
    "cells", [[-1, 0, 1], [1, 2, 3, 4], [100, 500, 800, 998, 999], [-60, -5, 0, 20, -99], [-1.5, -1, 0, 3]]
)
def test_numbers_that_belong_to_their_column_are_left_alone(tmp_path: Path, cells: list[float]) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text([str(cell) for cell in cells]))
    assert not read(path).plans[0].warning


def test_two_numbers_may_stand_for_none(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text(["1", "2", "3", "4", "5", "888", "999"]))
    assert "--missing=999." in (warning := read(path).plans[0].warning)
    assert "--missing=888." in warning


def test_words_stand_for_none_as_well(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text(["a", "b", "unknown"]))
    assert read(path, missing=("x=unknown",)).plans[0].found == "2 categories, 32 % missing"


def test_codes_like_1E3_among_features_are_told(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text(["1E3", "2E1", "12"]))
    plan = read(path).plans[0]
    assert plan.found == "numbers from 12 to 1,000"
    assert "27 cells (first in row 1) read as numbers as 1E3 reads as 1,000: if they are codes" in plan.warning
    path.write_text(text(["1.5e+03", "20", "12"]))
    assert not read(path).plans[0].warning
