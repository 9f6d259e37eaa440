"""Ids as every reader of a table must give them, so that the same people meet: 1, "1" and 1.0 are one id.

Ids are personal data: no message of this module shows one.
"""

from __future__ import annotations

import math
import numbers
import re
import uuid
from collections.abc import Iterable
from decimal import Decimal

import numpy as np

from vfl.data.faults import Problems, TableError, counted, row_list
from vfl.data.id_array import MOST_ID_BYTES, IdArray

# How programs write whole numbers that they keep as floats: 12.0 and, of R, 1e+05.
_WHOLE_FLOAT = re.compile(r"(-?(?:0|[1-9]\d*))\.0*|(-?[1-9])(?:\.(\d+))?e\+?(\d{1,2})", re.IGNORECASE)
# How Excel shows numbers of twelve and more digits, unless asked not to.
_ROUNDED = re.compile(r"[1-9](?:[.,]\d{1,5})?E\+(?:1[1-9]|[2-9]\d)", re.IGNORECASE)
# What exports call the row of sums below a table.
_TOTALS = frozenset(
    {
        *("total", "totals", "grand total", "subtotal", "sum", "sums"),
        *("summe", "gesamt", "gesamtsumme", "zwischensumme", "somme", "totale", "totaal", "suma", "summa"),
    }
)
_WHOLE = re.compile(r"-?(?:0|[1-9]\d*)")


def record_ids(values: Iterable[object], column: str) -> IdArray:
    """Make the ids of a column's cells: text without blanks around it, whole numbers as their digits.

    Leading zeros stay. Text that is whole numbers throughout, some written as 12.0 or 1e+05, becomes digits as well.

    Raises:
        TableError: for ids that are missing, twice there, rounded, the column's own name, or neither text nor exact
            whole numbers.
    """
    ids = id_array(id_text(value, row) for row, value in enumerate(values, start=1))
    problems = Problems()
    if headers := [row for row, text in enumerate(ids, start=1) if text == column]:
        problems.add(f"The header is repeated in {row_list(headers)}: remove it from there.")
    if rounded := [row for row, text in enumerate(ids, start=1) if _ROUNDED.fullmatch(text)]:
        problems.add(
            f"There {_are(rounded)} whose id has lost digits, as 1.23E+15 has ({row_list(rounded)}): export the ids as "
            "text, or as numbers without decimals."
        )
    ids = _digits_of_floats(ids)
    with problems.noted():
        check_ids(ids)
    problems.tell()
    return ids


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

    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))


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
        return value.strip()
    if is_missing(value):
        return ""
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, (numbers.Integral, Decimal, float)) and not isinstance(value, (bool, np.bool_)):
        # Beyond 2**53 neighbouring ids share a float: two people would become one.
        exact = not isinstance(value, float) or abs(value) < 2**53
        if exact and math.isfinite(value) and value == int(value):
            return str(int(value))
    raise TableError(
        f"The id in row {row} is neither text nor an exact whole number: store the ids as text or as integers."
    )


def _digits_of_floats(ids: IdArray) -> IdArray:
    """Take the same ids; where all are whole numbers, without the marks of floats."""
    if all(_WHOLE.fullmatch(text) for text in ids) or not all(
        not text or _WHOLE.fullmatch(text) or _is_exact_float(text) for text in ids
    ):
        return ids
    return IdArray.of(text if not text or _WHOLE.fullmatch(text) else str(int(Decimal(text))) for text in ids)


def _is_exact_float(text: str) -> bool:
    found = _WHOLE_FLOAT.fullmatch(text)
    # A number in tenths of a million lost digits when it was written so.
    return found is not None and (found[1] is not None or len(found[3] or "") <= int(found[4]) <= 15)
