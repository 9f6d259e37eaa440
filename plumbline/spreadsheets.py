"""CSV files that people open in spreadsheets: no cell of another's table becomes a formula (OWASP, CSV injection)."""

import csv
import re
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

# What a spreadsheet takes for the beginning of a formula, behind spaces and line ends too; of full width as well.
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# What separates cells where a comma is the decimal point: a quoted cell stays one.
_SEPARATOR = re.compile(r"[;\t]")


def inert(cell: object) -> object:
    """Make a cell that no spreadsheet calculates: text that would begin a formula gets a quote before it."""
    if not isinstance(cell, str) or not _FORMULA.match(cell) or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def write_csv(table: pd.DataFrame, target: Path | TextIO) -> None:
    """Write a table's columns as CSV, every cell and name of it inert."""
    inert_table = pd.DataFrame({number: _inert_column(table.iloc[:, number]) for number in range(table.shape[1])})
    inert_table.columns = table.columns.map(inert)
    texts = [
        *inert_table.columns,
        *(cell for _, one in inert_table.select_dtypes(exclude="number").items() for cell in one),
    ]
    is_split = any(_SEPARATOR.search(str(text)) for text in texts)
    inert_table.to_csv(target, index=False, quoting=csv.QUOTE_NONNUMERIC if is_split else csv.QUOTE_MINIMAL)


def _inert_column(column: "pd.Series[Any]") -> "pd.Series[Any]":
    return column if pd.api.types.is_numeric_dtype(column) else column.map(inert)
