"""Labels as classes: what a label column may hold, what its classes are called, and their numbers.

Labels are cell values: no message of this module shows one.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from vfl.arrays import IntArray
from vfl.data.faults import TableError, quoted, row_list
from vfl.data.record_ids import is_missing

Labels = npt.NDArray[np.object_]
# A softmax of more isn't trained here (`services.common.limits`).
MOST_CLASSES = 100
# Distinct numbers from which a label is an amount and no class.
_MOST_WHOLE_CLASSES, _MOST_FRACTIONAL_CLASSES = 50, 10


def class_names(labels: Iterable[object]) -> tuple[str, ...]:
    """List the distinct label values as strings: in numeric order when all are numbers, else alphabetically.

    1, 1.0, np.int64(1), True and "1" name the same class.

    Examples:
        >>> class_names(["yes", "no", "yes"]), class_names([10, "9", True])
        (('no', 'yes'), ('1', '9', '10'))
    """
    names = {str(_label_value(label)) for label in labels}
    if all(reads_as_number(name) for name in names):
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    return tuple(sorted(names))


def encode_labels(labels: Iterable[object]) -> tuple[IntArray, tuple[str, ...]]:
    """Turn labels into class indices (n,) in 0..k-1, and list the k class names that they index.

    Examples:
        >>> encode_labels(["no", "yes", "no"])
        (array([0, 1, 0]), ('no', 'yes'))
    """
    values = list(labels)
    names = class_names(values)
    index_of = {name: index for index, name in enumerate(names)}
    return np.array([index_of[str(_label_value(value))] for value in values], dtype=np.int64), names


def label_array(values: Iterable[object], name: str) -> Labels:
    """Read labels as str or int objects; text that is digits throughout (a CSV's) becomes int.

    Raises:
        TableError: for labels that are missing, of one class, of too many classes, or amounts.
    """
    labels: list[str | int] = []
    empty: list[int] = []
    # One object for all rows of a class.
    classes: dict[str | int, str | int] = {}
    for row, label in enumerate(values, start=1):
        if is_missing(label) or (isinstance(label, str) and not label.strip()):
            empty.append(row)
        else:
            known = _label_value(label)
            labels.append(classes.setdefault(known, known))
    if empty:
        raise TableError(
            f"Label column {quoted(name)} is empty in {row_list(empty)} ({len(empty):,} in all): give every row a "
            "label or remove it."
        )
    # "01" stays text: as a number it would merge with "1".
    if all(isinstance(label, str) and re.fullmatch(r"0|-?[1-9]\d{0,99}", label) for label in classes):
        numbers_of = {label: int(label) for label in classes}
        labels = [numbers_of[label] for label in labels]
    _check_classes(class_names(classes), f"Label column {quoted(name)}")
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def reads_as_number(value: object) -> bool:
    """Tell whether the text of a value is a finite number."""
    try:
        return math.isfinite(float(str(value)))
    except ValueError:
        return False


def _check_classes(names: Sequence[str], column: str) -> None:
    if len(names) == 1:
        raise TableError(f"{column} has labels with one class only: training needs two or more classes.")
    # Decimal commas are numbers here too.
    texts = [name.replace(",", ".", 1) for name in names]
    numeric = all(reads_as_number(text) for text in texts)
    whole = numeric and all(float(text).is_integer() for text in texts)
    if numeric and len(names) > (_MOST_WHOLE_CLASSES if whole else _MOST_FRACTIONAL_CLASSES):
        raise TableError(
            f"{column} looks like a number, not a class: it has {len(names):,} different values. A federation learns "
            "classes: make a column of two or more, such as below and above a limit, and name that one."
        )
    if len(names) > MOST_CLASSES:
        raise TableError(
            f"{column} has {len(names):,} classes, and at most {MOST_CLASSES} can be learned: merge the rare ones, or "
            "check that it is the right column."
        )


def _label_value(label: object) -> str | int:
    """Read one label as int (booleans and whole numbers of any type) or str (everything else)."""
    if isinstance(label, (numbers.Integral, np.bool_)):
        return int(label)
    if isinstance(label, (float, np.floating, Decimal)):
        return int(label) if math.isfinite(label) and label == int(label) else str(label)
    return str(label).strip()
