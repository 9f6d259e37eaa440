"""What a person is shown of the tables before anything starts."""

from __future__ import annotations

import io

import pandas as pd
import pytest
from rich.console import Console

from plumbline.audit.table_words import print_tables
from plumbline.audit.tables import ExaminedTables
from vfl.data import ColumnPlan, TypedTable


def shown(*plans: ColumnPlan, source: str = "bank.csv") -> str:
    table = TypedTable(("1", "2"), pd.DataFrame(), plans, read_as="UTF-8 text separated by bars")
    told = io.StringIO()
    examined = ExaminedTables({"active": table}, {"active": {"data": source}}, 2)
    print_tables(Console(file=told, width=120), examined, None)
    return told.getvalue()


def test_columns_and_warnings_are_shown() -> None:
    text = shown(
        ColumnPlan("age", "numbers from 17 to 98", "number", "1 feature"),
        ColumnPlan(
            "note", "text", "drop", "left out: most rows have a text of their own", "Hardly a value occurs twice."
        ),
    )
    assert "active: bank.csv, 2 rows, UTF-8 text separated by bars" in text
    for words in ("age", "numbers from 17 to 98", "1 feature", "left out", "note: Hardly a value occurs twice."):
        assert words in text
    assert "2 records are in all tables." in text


def test_of_many_columns_plain_numbers_give_way() -> None:
    plain = [ColumnPlan(f"n{at}", "numbers from 0 to 1", "number", "1 feature") for at in range(99)]
    odd = ColumnPlan("job", "12 categories", "onehot", "12 features, one per category")
    text = shown(*plain, odd)
    assert "12 categories" in text
    assert "and 60 more" in text
    assert "n38" in text
    assert "n39" not in text


@pytest.mark.parametrize("name", ["[red]x[/red]", "\x1b]0;title\x07"])
def test_names_obey_no_terminal(name: str) -> None:
    text = shown(ColumnPlan(name, "0 or 1", "number", "1 feature", "Mind."))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert ("[red]x[/red]" in text) == name.startswith("[")


def test_a_database_is_shown_without_its_password() -> None:
    assert "secret" not in shown(source="postgresql://u:secret@h/d?table=t")


def test_every_column_says_the_digits_that_it_takes() -> None:
    frame = pd.DataFrame(
        {
            "age": [17.0, 98.0, 40.0],
            "pay": [0.01, 1234.56, 8.25],
            "job": pd.Categorical(["clerk", "smith", "clerk"]),
            "kids": [2.0, None, 0.0],
        }
    )
    plans = tuple(ColumnPlan(name, "", "onehot" if name == "job" else "number", "") for name in frame.columns)
    examined = ExaminedTables(
        {"active": TypedTable(("1", "2", "3"), frame, plans)}, {"active": {"data": "bank.csv"}}, 3
    )
    told = {}
    for encoder in ("minmax", "standardise", None):
        text = io.StringIO()
        print_tables(Console(file=text, width=120), examined, encoder)
        rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.getvalue().splitlines()]
        told[encoder] = {row[0]: row[-1] for row in rows if row}
    assert told["minmax"] == {"age": "8", "pay": "full", "job": "1 each", "kids": "8 and 1"}
    assert told["standardise"] == {"age": "full", "pay": "full", "job": "1 each", "kids": "full and 1"}
    assert set(told[None].values()) == {"full"}
