"""Labels as classes: what a label column may hold, what its classes are called, and their numbers.

Labels are cell values: no message of this module shows one.
"""

from __future__ import annotations

import math
import numbers
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from vfl.arrays import IntArray
from vfl.data.cell_forms import LABEL_FORMS, bare_text, plain_text, whole_text
from vfl.data.cell_words import is_missing_word
from vfl.data.faults import TableError, counted, quoted, row_list
from vfl.data.record_ids import is_missing

Labels = npt.NDArray[np.object_]
# The class index of a record without a label.
NO_LABEL = -1
# A softmax of more isn't trained here (`services.common.limits`).
MOST_CLASSES = 100
# Distinct numbers from which a label is an amount and no class.
_MOST_WHOLE_CLASSES, _MOST_FRACTIONAL_CLASSES = 50, 10
# Classes that a sentence counts.
_MOST_TOLD = 6
# Of fewer records hardly anything is learned, and nothing can be judged.
FEW_RECORDS = 5
# Beside words these may be a class (None, Mild, Severe) as well as no label; beside a plus, a dash is a minus.
_CLASS_OR_MISSING, _DASHES = frozenset({"none", "nil"}), frozenset({"-", "–", "—", "−"})
# 1,0 and +1 where others write 1.
_WHOLE_WITH_COMMA, _WITH_PLUS = re.compile(r"(-?(?:0|[1-9]\d*)),0{1,2}"), re.compile(r"\+(\d+)")


def class_names(labels: Iterable[object]) -> tuple[str, ...]:
    """List the distinct label values as strings: in numeric order when all are numbers, else alphabetically.

    1, 1.0, np.int64(1), True, "1" and "1.0" name the same class; None is no label.

    Examples:
        >>> class_names(["yes", "no", None]), class_names([10, "9", True])
        (('no', 'yes'), ('1', '9', '10'))
    """
    names = {str(_label_value(label)) for label in labels if label is not None}
    if all(reads_as_number(name) for name in names):
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    return tuple(sorted(names))


def encode_labels(labels: Iterable[object]) -> tuple[IntArray, tuple[str, ...]]:
    """Turn labels into class indices (n,) in 0..k-1, and list the k class names that they index; -1 for None.

    Examples:
        >>> encode_labels(["no", "yes", "no"])
        (array([0, 1, 0]), ('no', 'yes'))
    """
    values = list(labels)
    names = class_names(values)
    index_of = {name: index for index, name in enumerate(names)}
    indices = [NO_LABEL if value is None else index_of[str(_label_value(value))] for value in values]
    return np.array(indices, dtype=np.int64), names


def label_array(values: Iterable[object], name: str, *, ignored: Sequence[str] = (), may_lack: bool = False) -> Labels:
    """Read labels as str or int objects; text that is whole numbers throughout (a CSV's) becomes int.

    Words for a missing value are one, as in any other column.

    Args:
        values: the column's cells.
        name: of the column.
        ignored: differences that don't make two classes, of `vfl.data.cell_forms.LABEL_FORMS`.
        may_lack: whether rows may have no label: theirs is None.

    Raises:
        TableError: for labels that are missing or may be, of one class, of too many classes, or amounts.
    """
    labels = [_label_of(value, ignored) for value in values]
    # One object for all rows of a class: a workbook has 1 beside the text 1.
    named: dict[str, str | int] = {}
    labels = [label if label is None else named.setdefault(str(label), label) for label in labels]
    classes = dict(zip(named.values(), named.values(), strict=True))
    column = f"Label column {quoted(name)}"
    missing = _words_for_none(labels, classes, column)
    labels = [None if label in missing else label for label in labels]
    empty = [row for row, label in enumerate(labels, start=1) if label is None]
    if empty and not may_lack:
        raise TableError(
            f"{column} is empty in {row_list(empty)} ({len(empty):,} in all), words such as NA included: give every "
            "row a label or remove it; an audit takes --unlabelled predict: it trains on the others and predicts these."
        )
    classes = {label: label for label in classes if label not in missing}
    # "01" stays text: as a number it would merge with "1".
    if all(re.fullmatch(r"0|-?[1-9]\d{0,99}", str(label)) for label in classes):
        classes = {label: int(label) for label in classes}
    _check_classes(class_names(classes), column)
    array = np.empty(len(labels), dtype=object)
    array[:] = [label if label is None else classes[label] for label in labels]
    return array


def _words_for_none(labels: Sequence[object], classes: Iterable[str | int], column: str) -> set[str | int]:
    """Find the labels that say that there is none; raises TableError where a word may be a class as well."""
    missing: set[str | int] = {label for label in classes if isinstance(label, str) and is_missing_word(label)}
    if "+" in classes:
        missing -= _DASHES
    are_words = not all(reads_as_number(label) for label in classes if label not in missing)
    doubtful = {label for label in missing if are_words and str(label).lower() in _CLASS_OR_MISSING | _DASHES}
    if rows := [row for row, label in enumerate(labels, start=1) if label in doubtful]:
        raise TableError(
            f"{column} has a word in {row_list(rows)} ({len(rows):,} in all) that may be a class, as None is beside "
            "mild and severe, or say that there is no label: if it is a class, call it otherwise, such as 'no "
            "finding'; if the label is missing, leave these cells empty."
        )
    return missing


def label_notes(labels: Labels, name: str) -> Iterator[str]:
    """Say, without showing one, which classes may be the same, written otherwise."""
    counts = Counter(label for label in labels if label is not None)
    for word, form in LABEL_FORMS.items():
        alike: dict[str, list[str | int]] = {}
        for label in counts:
            alike.setdefault(form.bare(str(label)), []).append(label)
        if len(alike) == len(counts):
            continue
        first = {
            label: int((labels == label).argmax()) + 1 for same in alike.values() if len(same) > 1 for label in same
        }
        records = ", ".join(f"{counts[label]:,} from row {row:,} on" for label, row in list(first.items())[:_MOST_TOLD])
        more = ", ..." if len(first) > _MOST_TOLD else ""
        yield (
            f"Label column {quoted(name)} has {len(counts):,} classes, and would have {len(alike):,} if {form.words} "
            f"didn't count (records: {records}{more}): if they are the same, use --ignore-in-labels {word}."
        )
    if lacking := sum(label is None for label in labels):
        yield (
            f"{counted(lacking, 'row')} of label column {quoted(name)} {'has' if lacking == 1 else 'have'} no label: "
            "not trained on and not judged, but predicted."
        )


def reads_as_number(value: object) -> bool:
    """Tell whether the text of a value is a finite number."""
    try:
        return math.isfinite(float(str(value)))
    except ValueError:
        return False


def _check_classes(names: Sequence[str], column: str) -> None:
    if len(names) < 2:
        raise TableError(f"{column} has labels with one class only: training needs two or more classes.")
    # Decimal commas are numbers here too.
    texts = [name.replace(",", ".", 1) for name in names]
    numeric = all(reads_as_number(text) for text in texts)
    are_integers = numeric and all(float(text).is_integer() for text in texts)
    if numeric and len(names) > (_MOST_WHOLE_CLASSES if are_integers else _MOST_FRACTIONAL_CLASSES):
        raise TableError(
            f"{column} looks like a number, not a class: it has {len(names):,} different values. A federation learns "
            "classes: make a column of two or more, such as below and above a limit, and name that one."
        )
    if len(names) > MOST_CLASSES:
        raise TableError(
            f"{column} has {len(names):,} classes, and at most {MOST_CLASSES} can be learned: merge the rare ones, or "
            "check that it is the right column."
        )


def _label_of(value: object, ignored: Sequence[str]) -> str | int | None:
    """Read one cell, None where it is empty."""
    if is_missing(value):
        return None
    label = _label_value(value)
    if isinstance(label, str):
        label = _label_value(bare_text(label, ignored, LABEL_FORMS)) if ignored else label
    return None if label == "" else label


def _label_value(label: object) -> str | int:
    """Read one label as int (booleans and whole numbers of any type) or str (everything else)."""
    if isinstance(label, (numbers.Integral, np.bool_)):
        return int(label)
    if isinstance(label, (float, np.floating, Decimal)):
        return int(label) if math.isfinite(label) and label == int(label) else str(label)
    text = whole_text(plain_text(str(label)))
    number = _WHOLE_WITH_COMMA.fullmatch(text) or _WITH_PLUS.fullmatch(text)
    return number[1] if number else text
