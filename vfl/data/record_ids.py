"""Ids as every reader of a table must give them, so that the same people meet: 1, "1" and 1.0 are one id.

Ids are personal data: no message of this module shows one.
"""

from __future__ import annotations

import math
import numbers
import re
import uuid
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from vfl.data.cell_forms import ID_FORMS, bare_text, has_lost_digits, plain_text, whole_text
from vfl.data.faults import Problems, TableError, counted, row_list
from vfl.data.id_array import MOST_ID_BYTES, IdArray

# How Excel shows numbers of twelve and more digits, unless asked not to.
_ROUNDED = re.compile(r"[1-9](?:[.,]\d{1,5})?E\+(?:1[1-9]|[2-9]\d)", re.IGNORECASE)
# What exports call the row of sums below a table.
_TOTALS = frozenset(
    {
        *("total", "totals", "grand total", "subtotal", "sum", "sums"),
        *("summe", "gesamt", "gesamtsumme", "zwischensumme", "somme", "totale", "totaal", "suma", "summa"),
    }
)


def record_ids(values: Iterable[object], column: str, ignored: Sequence[str] = ()) -> IdArray:
    """Make the ids of a column's cells: text without blanks around it, whole numbers as their digits.

    Leading zeros stay. Text that is a whole number written as 12.0 or 1e+05 becomes digits as well, whatever the other
    rows have.

    Args:
        values: the column's cells.
        column: its name.
        ignored: differences that don't make two ids, of `vfl.data.cell_forms.ID_FORMS`.

    Raises:
        TableError: for ids that are missing, twice there, rounded, the column's own name, or neither text nor exact
            whole numbers.
    """
    ids = id_array(id_text(value, row) for row, value in enumerate(values, start=1))
    problems = Problems()
    if headers := [row for row, text in enumerate(ids, start=1) if text == column]:
        problems.add(f"The header is repeated in {row_list(headers)}: remove it from there.")
    if rounded := [row for row, text in enumerate(ids, start=1) if _ROUNDED.fullmatch(text) or has_lost_digits(text)]:
        problems.add(
            f"There {_are(rounded)} whose id has lost digits, as 1.23E+15 has ({row_list(rounded)}): export the ids as "
            "text, or as numbers without decimals."
        )
    ids = id_array(bare_id(text, ignored) for text in ids)
    with problems.noted():
        check_ids(ids)
    problems.tell()
    return ids


def bare_id(text: str, ignored: Sequence[str] = ()) -> str:
    """Write an id in the one form that it has, without the differences that its owner lets not count."""
    return bare_text(whole_text(text), ignored, ID_FORMS) if ignored else whole_text(text)


def id_array(ids: Iterable[str]) -> IdArray:
    """Take the same ids as an array. Raises TableError for what is not valid Unicode text."""
    try:
        return IdArray.of(ids)
    except TableError:
        raise
    except ValueError as error:
        raise TableError(str(error)) from None


def check_ids(ids: IdArray) -> None:
    """Accept ids only if none is empty and all differ.

    Raises:
        TableError: otherwise.
    """
    empty = [row for row, value in enumerate(ids, start=1) if not value.strip()]
    repeated = _repeated(ids) if ids.has_repeats else []
    problems = []
    if empty:
        problems.append(f"There {_are(empty)} without an id ({row_list(empty)}): give every row an id or remove it.")
    if repeated:
        problems.append(
            f"There {_are(repeated)} with the id of an earlier row ({row_list(repeated)}): keep one row per id."
        )
    if len(ids) and ids[len(ids) - 1].strip(" :").lower() in _TOTALS:
        problems.append(f"The last row ({row_list([len(ids)])}) is called a total and is nobody's: remove it.")
    if problems:
        raise TableError(*problems)


def _repeated(ids: IdArray) -> list[int]:
    """Find the rows whose id an earlier row has, empty ones left out."""
    first_row: dict[str, int] = {}
    return [row for row, value in enumerate(ids, start=1) if value and first_row.setdefault(value, row) != row]


def is_missing(value: object) -> bool:
    """Tell whether a cell is None, NaN, or what pandas has for a gap."""
    import pandas as pd

    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    return value is None or value is pd.NA or value is pd.NaT


def _are(rows: list[int]) -> str:
    return f"{'is' if len(rows) == 1 else 'are'} {counted(len(rows), 'row')}"


def id_text(value: object, row: int = 1) -> str:
    """Write one id as text, a missing one as the empty text. Raises TableError as ``record_ids`` does, with the row."""
    if isinstance(value, str):
        if len(value) > MOST_ID_BYTES:
            raise TableError(
                f"The id in row {row:,} has more than {MOST_ID_BYTES:,} letters: check the separator and the quotes, "
                "or choose another id column."
            )
        return plain_text(value)
    if is_missing(value):
        return ""
    if isinstance(value, uuid.UUID):
        return str(value)
    is_number = isinstance(value, (numbers.Integral, Decimal, float, np.floating))
    if is_number and not isinstance(value, (bool, np.bool_)) and is_exact(value):
        return str(int(value))  # type: ignore[call-overload]
    raise TableError(
        f"The id in row {row} is neither text nor an exact whole number: store the ids as text or as integers."
    )


def is_exact(value: Any) -> bool:
    """Tell whether a number is whole and below those that share a float: there two people would become one."""
    kind = np.float64 if isinstance(value, float) else type(value)
    limit = 2.0 ** (np.finfo(kind).nmant + 1) if issubclass(kind, np.floating) else math.inf
    return math.isfinite(value) and abs(value) < limit and bool(value == int(value))
