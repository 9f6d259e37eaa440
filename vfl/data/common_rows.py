"""The rows that parties have in common, in the order that all of them take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vfl.arrays import IntArray
from vfl.data.id_array import IdArray, IdIndex
from vfl.data.psi import PsiError


class EmptyIntersection(PsiError):
    """The parties have no id in common."""


def common_order(intersection: Iterable[str]) -> list[str]:
    """Put the common rows in their public order: the ids sorted by code point, so that no file's order shows.

    Raises:
        EmptyIntersection: when there is no id.
    """
    ids = sorted(set(intersection))
    _check_any(len(ids))
    return ids


def rows_in_common_order(table_ids: IdArray, common_rows: IntArray) -> IntArray:
    """Put the rows of common ids (m,), numbers of a table's rows, in the order of `common_order`.

    Raises:
        EmptyIntersection: when there is none.
    """
    _check_any(len(common_rows))
    ordered: IntArray = common_rows[table_ids.take(common_rows).order()]
    return ordered


def _check_any(common: int) -> None:
    if not common:
        raise EmptyIntersection(
            "The parties have no id in common: check that all use the same id, written the same way "
            "(leading zeros, upper and lower case, accents)."
        )


def rows_of(table_ids: Sequence[str], common_ids: Sequence[str]) -> IntArray:
    """Find the row numbers (m,), from 0, of m common ids in a table, in the order of common_ids.

    Raises:
        PsiError: when the table lacks one of them.
    """
    rows = IdIndex(IdArray.of(table_ids)).rows(common_ids)
    if missing := int((rows < 0).sum()):
        raise PsiError(f"This table lacks {missing} of the {len(common_ids)} common ids: align the tables again.")
    return rows
