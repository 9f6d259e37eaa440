"""Text files as people export them: any separator, encoding, quoting and end."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vfl.data import TableError
from vfl.data.delimited import read_delimited

# What Windows-1252 and Latin-1 both have; no quote alone, no line end, no blank at an end.
WORDS = st.text(st.sampled_from("abcXYZ019 .-_äöéñ;,|'\""), max_size=8).map(str.strip)
ENCODINGS = {
    "utf-8": "UTF-8",
    "utf-8-sig": "UTF-8",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16",
    "utf-32": "UTF-32",
    "cp1252": "cp1252",
}


def write(folder: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.lists(WORDS, min_size=3, max_size=3), min_size=3, max_size=6),
    separator=st.sampled_from(",;\t|"),
    encoding=st.sampled_from(sorted(ENCODINGS)),
    ends=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
def test_what_was_written_is_read(
    tmp_path: Path, rows: list[list[str]], separator: str, encoding: str, ends: str, quoting: int
) -> None:
    written = io.StringIO()
    # A row of empty cells at the end is taken for the end of a spreadsheet.
    table = [["key", "größe", "x y"], *rows, ["last", "", "é"]]
    csv.writer(written, delimiter=separator, lineterminator=ends, quoting=quoting).writerows(table)  # type: ignore[arg-type]
    # Words of any letters are of no language.
    said = encoding if encoding == "cp1252" else ""
    read = read_delimited(write(tmp_path, written.getvalue().encode(encoding)), encoding=said)
    assert list(read.frame.columns) == table[0]
    assert read.frame.to_numpy().tolist() == table[1:]
    assert (read.encoding, read.separator) == (ENCODINGS[encoding], separator)


@pytest.mark.parametrize("ending", [".csv.gz", ".csv"])
def test_gzip_is_recognised_by_its_content(tmp_path: Path, ending: str) -> None:
    frame = read_delimited(write(tmp_path, gzip.compress(b"a;b\n1;2\n"), f"t{ending}")).frame
    assert frame.to_numpy().tolist() == [["1", "2"]]


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("sep=|\na|b,c\n1|2\n", [["1", "2"]]),
        ("\n\na,b\n1,2\n", [["1", "2"]]),
        ("a,b\n1,2\n\n\n3,4", [["1", "2"], ["3", "4"]]),
        ("a,b\n1,2\n,\n,\n", [["1", "2"]]),
        ("a;b\n1,5;2,5\n3,5;4\n", [["1,5", "2,5"], ["3,5", "4"]]),
        ('a,b\n"x\ny","say ""no"""\n', [["x\ny", 'say "no"']]),
        ("a , b\n 1 ,  two words \n", [["1", "two words"]]),
        ("a\n1\n2\n", [["1"], ["2"]]),
        ("a,b\r1,2\r", [["1", "2"]]),
    ],
)
def test_ends_blanks_and_hints(tmp_path: Path, text: str, cells: list[list[str]]) -> None:
    assert read_delimited(write(tmp_path, text)).frame.to_numpy().tolist() == cells


def test_columns_without_a_name(tmp_path: Path) -> None:
    frame = read_delimited(write(tmp_path, ",a,\n0,1,\n1,2,\n")).frame
    assert list(frame.columns) == ["Unnamed: 0", "a", "Unnamed: 2"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf\n\n", "is empty"),
        (b"PK\x03\x04secret", r"an Excel workbook .* end in \.xlsx"),
        (b"PAR1secret", r"Parquet"),
        (b"\xff\xfea\x00\x00\xd8secret", "begins as UTF-16 text and isn't"),
        (b"\x00\x01\x02\xffsecre", "isn't text"),
        (gzip.compress(b"secret" * 999, mtime=0)[:-9], "file is complete"),
    ],
)
def test_faults_show_no_cell(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(TableError, match=message) as caught:
        read_delimited(write(tmp_path, content))
    assert "secret" not in str(caught.value)
