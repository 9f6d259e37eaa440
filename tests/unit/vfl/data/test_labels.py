"""Labels are read as cells are: what says nothing is no class, one number is one class, and who differs is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.data import TableError, TypedTable, encode_labels, read_table
from vfl.data.cell_words import is_missing_word
from vfl.data.labels import label_array, label_notes
from vfl.data.reading_rules import ReadingRules
from vfl.data.selection import Selection
from vfl.data.typed_tables import read_selected


def read(folder: Path, labels: list[Any], **rules: Any) -> TypedTable:
    path = folder / "t.csv"
    pd.DataFrame({"id": range(len(labels)), "x": range(len(labels)), "y": labels}).to_csv(path, index=False)
    return read_selected(str(path), lambda _: Selection("id", "y"), None, ReadingRules(**rules))


def classes(labels: list[Any], **options: Any) -> list[Any]:
    return list(label_array(labels, "y", **options))


@pytest.mark.parametrize("word", ["NA", "n/a", "nan", "NULL", "?", "<NA>", "", "#NV", "None", "-"])
def test_words_for_nothing_are_no_class_of_numbers(tmp_path: Path, word: str) -> None:
    with pytest.raises(TableError, match=r"is empty in rows 1, 4 \(2 in all\).*--unlabelled predict"):
        read(tmp_path, [word, 0, 1, word, 1])


@pytest.mark.parametrize("word", ["None", "none", "nil", "-", "–"])
def test_a_word_that_may_be_a_class_is_asked_about(tmp_path: Path, word: str) -> None:
    for may_lack in ("refuse", "predict"):
        with pytest.raises(TableError) as caught:
            read(tmp_path, ["Mild", word, "Severe", word], unlabelled=may_lack)
        assert "rows 2, 4 (2 in all) that may be a class" in str(caught.value)
        assert "call it otherwise" in str(caught.value)
        assert "leave these cells empty" in str(caught.value)


def test_a_minus_beside_a_plus_is_a_class() -> None:
    assert classes(["+", "-", "+"]) == ["+", "-", "+"]


@pytest.mark.parametrize("ways", [["1", "1.0", " 1 ", "1.", "+1", "1,0"], [1, 1.0, "1", True, np.float32(1), " 1.00"]])
def test_one_number_is_one_class(ways: list[Any]) -> None:
    indices, names = encode_labels(label_array([*ways, "0"], "y"))
    assert names == ("0", "1")
    assert indices.tolist() == [1] * len(ways) + [0]


def test_what_looks_alike_is_told_and_merged_only_where_somebody_says_so(tmp_path: Path) -> None:
    labels = ["Yes", "no", "yes", "yes.", "no", "no"]
    table = read(tmp_path, labels)
    assert table.labels is not None
    assert table.labels.tolist() == labels
    assert "4 classes, and would have 3 if capital letters didn't count" in table.notes[0]
    assert "(records: 1 from row 1 on, 1 from row 3 on)" in table.notes[0]
    assert "marks at the end" in table.notes[1]
    assert "--ignore-in-labels case" in table.notes[0]
    merged = read(tmp_path, labels, ignore_in_labels=("case", "marks"))
    assert merged.labels is not None
    assert merged.labels.tolist() == ["yes", "no", "yes", "yes", "no", "no"]
    assert not merged.notes


@pytest.mark.parametrize("ways", [("é", "e\u0301"), ("１", "1")])
def test_how_letters_are_composed_is_told_and_merged_only_where_somebody_says_so(ways: tuple[str, str]) -> None:
    labels = [*ways, "other"]
    (words,) = label_notes(label_array(labels, "y"), "y")
    assert "3 classes, and would have 2 if how letters are composed didn't count" in words
    assert "--ignore-in-labels unicode" in words
    assert len(set(classes(labels, ignored=["unicode"]))) == 2


def test_a_number_beside_its_text_is_one_class_without_a_word() -> None:
    """As a workbook has them."""
    labels = label_array([0, "1 ", 1, "0.0"], "y")
    assert labels.tolist() == [0, 1, 1, 0]
    assert list(label_notes(labels, "y")) == []
    assert list(label_notes(label_array(["yes", 1, "1", "no"], "y"), "y")) == []


def test_leading_zeros_are_classes_of_their_own_until_somebody_says_otherwise() -> None:
    assert classes(["01", "1", "2"]) == ["01", "1", "2"]
    assert "leading zeros" in next(label_notes(label_array(["01", "1", "2"], "y"), "y"))


def test_truth_as_a_word_beside_truth_as_a_number_is_told_and_merged_when_asked() -> None:
    cells = ["True", "1", "FALSE", "0", "1"]
    (words,) = label_notes(label_array(cells, "y"), "y")
    assert "4 classes, and would have 2 if True and False for 1 and 0 didn't count" in words
    assert list(label_array(cells, "y", ignored=("booleans",))) == [1, 1, 0, 0, 1]
    assert list(label_notes(label_array(["True", "False"], "y"), "y")) == []
    assert classes(["01", "1", "2"], ignored=["zeros"]) == [1, 1, 2]


def test_marks_inside_a_label_always_count() -> None:
    assert classes([">50K.", "<=50K", ">50K"], ignored=["marks"]) == [">50K", "<=50K", ">50K"]


def test_rows_without_a_label_where_their_owner_says_so(tmp_path: Path) -> None:
    table = read(tmp_path, ["a", "", "b", "NA"], unlabelled="predict")
    assert table.labels is not None
    assert table.labels.tolist() == ["a", None, "b", None]
    assert "2 rows of label column 'y' have no label" in table.notes[0]
    assert encode_labels(table.labels)[0].tolist() == [0, -1, 1, -1]
    with pytest.raises(TableError, match="one class only"):
        read(tmp_path, ["", "NA", "?"], unlabelled="predict")


@given(st.lists(st.text(min_size=6), min_size=2, max_size=8, unique=True), st.sampled_from(["", "None", "NA"]))
def test_no_message_shows_a_label(labels: list[str], word: str) -> None:
    """Of texts that no message has by itself: six letters and more."""
    told = []
    try:
        told = list(label_notes(label_array([*labels, *labels, word], "y", may_lack=True), "y"))
        label_array([*labels, word], "y")
    except TableError as error:
        told.append(str(error))
    known = {label.strip() for label in labels if not label.strip().isdigit() and not is_missing_word(label.strip())}
    assert not any(label in sentence for label in known if len(label) > 5 for sentence in told)


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_a_second_header_line_is_told(tmp_path: Path, ending: str) -> None:
    """As survey tools export them: codes, and the question's text under each."""
    rows = 30
    frame = pd.DataFrame({"id": range(rows), "q1": range(rows), "q2": [row % 7 for row in range(rows)]}, dtype=object)
    frame.loc[0] = ["Response ID", "How old are you?", "How satisfied are you?"]
    path = tmp_path / f"t.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_excel(path, index=False)
    with pytest.raises(TableError, match=r"Row 1 looks like a second header: in each of 2 columns") as caught:
        read_table(str(path), id_column="id", label_column=None)
    assert "satisfied" not in str(caught.value)


def test_a_word_in_the_first_row_of_one_column_is_no_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    pd.DataFrame({"id": range(30), "a": ["x", *range(29)], "b": range(30)}).to_csv(path, index=False)
    plans = read_table(str(path), id_column="id", label_column=None).plans
    assert "1 cell (first in row 1) held no number" in plans[0].warning
