"""What a column of a party's table is found to be, what it becomes, and which features of the federation are of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from vfl.arrays import FloatArray

# Of a category among many, the code of a value that no fitted row has: those that were seen count from 0.
UNSEEN_CODE = -1
Encoding = Literal["number", "date", "onehot", "ordinal", "drop"]
# How much coarser a number, a date or a code may become: see `vfl.data.coarsening`.
Coarsening = Literal["bins2", "bins4", "bins10", "round4", "round10"]
COARSENINGS: tuple[Coarsening, ...] = get_args(Coarsening)
# What a person may ask a column to become.
AskedEncoding = Literal[Encoding, Coarsening]
ENCODINGS: tuple[AskedEncoding, ...] = get_args(AskedEncoding)
# What a column's owner says of it: a published figure, which is no secret to anybody, or one to protect first.
ColumnRole = Literal["", "public", "sensitive"]
ROLES: tuple[ColumnRole, ...] = get_args(ColumnRole)
# What a feature tells of its source column.
FeatureKind = Literal["number", "date", "code", "category", "missing", "bias"]


@dataclass(frozen=True)
class ColumnPlan:
    """What a party decides of one column of its table, from that table alone and before anything starts.

    Attributes:
        name: of the column.
        found: what it holds, in words: ``numbers from 17 to 98, 3 % missing``, ``4 categories``.
        encoding: what it becomes.
        becomes: the same in words: ``4 features, one per category``, ``left out: every row has the same value``.
        warning: what its owner should know, a sentence; empty for nothing.
        role: what its owner says of it; empty for nothing.
        coarsening: how much coarser its values become, as its owner asks; empty for not at all.

    Examples:
        >>> typed_table_of(Table(("a", "b"), np.array([[31.0], [45.0]]), ("age",))).plans[0]
        ColumnPlan(name='age', found='numbers from 31 to 45', encoding='number', becomes='1 feature', ...)
    """

    name: str
    found: str
    encoding: Encoding
    becomes: str
    warning: str = ""
    role: ColumnRole = ""
    coarsening: Coarsening | Literal[""] = ""


@dataclass(frozen=True)
class EncodedColumn:
    """One feature as the federation trains on it, and what it is of.

    Attributes:
        name: of the feature: that of its source, ``marital=single`` for a category, ``age is missing`` for a gap,
            ``valid has no end`` for a date that stands for none.
        source: column of the party's table.
        kind: ``number``, ``date`` and ``code`` (of a category among many) are scaled values, ``category`` and
            ``missing`` (a gap, or a date without end) are 0 or 1 before scaling, ``bias`` is constant.
        offset: the source's value is ``offset + scale * feature``: days since 1970 for a date, 1 for a category that
            is there.
        scale: see there; NaN where features of several columns are scaled together.
    """

    name: str
    source: str
    kind: FeatureKind
    offset: float = 0.0
    scale: float = 1.0


# What a date may lack, and what stands for it in days since 1970.
OPEN_ENDS = (("has no end", float("inf")), ("has no beginning", float("-inf")))


def open_ends(days: FloatArray) -> Iterator[tuple[str, float, int]]:
    """Say what dates (n,) lack, what stands for it, and how many lack it: see `vfl.data.cell_words.with_open_ends`."""
    for phrase, stands_for_it in OPEN_ENDS:
        if count := int((days == stands_for_it).sum()):
            yield phrase, stands_for_it, count
