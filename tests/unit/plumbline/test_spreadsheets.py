"""No cell that another party names becomes a formula in a spreadsheet, and every number stays what it is."""

import csv
import io

import pandas as pd
import pytest

from plumbline.spreadsheets import inert, write_csv

FORMULAS = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "  =1",
    "\u00a0=1",
    "＝1+1",
    "-",
    "+1_000",
    "-0x10",
    "-inf",
    "-٣",
    "-1e5=",
]


@pytest.mark.parametrize("cell", FORMULAS)
def test_what_a_spreadsheet_would_calculate_has_a_quote_before_it(cell: str) -> None:
    assert inert(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", ["", "a", "a=1", "'=1", "-0.5", "+4917", "-1e-05", "-.5", "1", "größe", -0.5, None])
def test_words_and_numbers_stay_what_they_are(cell: object) -> None:
    assert inert(cell) is cell


def test_ids_and_names_are_made_inert_and_real_numbers_are_written_as_numbers() -> None:
    table = pd.DataFrame({"=class": [-0.5, 0.25], "error": ["", "-x"]}, index=pd.Index(["@id", "b"], name="id"))
    written = io.StringIO()
    write_csv(table.reset_index(), written)
    assert written.getvalue() == "id,'=class,error\n'@id,-0.5,\nb,0.25,'-x\n"


def test_a_cell_is_not_split_where_another_sign_separates_cells() -> None:
    table = pd.DataFrame({"id": ["a;=1+1", "b"], "score": [-0.5, 0.5]})
    written = io.StringIO()
    write_csv(table, written)
    assert '"a;=1+1",-0.5' in written.getvalue()
    assert next(csv.reader(['"a;=1+1"'], delimiter=";")) == ["a;=1+1"]


def test_names_that_stand_twice_are_both_written() -> None:
    written = io.StringIO()
    write_csv(pd.DataFrame([["=a", -1.5]], columns=["id", "id"]), written)
    assert written.getvalue() == "id,id\n'=a,-1.5\n"
