"""Record ids as one array of text: 10 to 20 bytes an id where a list of Python strings takes 70."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, overload

import numpy as np

from vfl.arrays import BoolArray, IntArray

if TYPE_CHECKING:
    import pyarrow as pa

# UTF-8 bytes of one id: what a peer sends as one is no longer than that either.
MOST_ID_BYTES = 1_024
# Ids that are Python strings at a time.
_PART = 4096


class IdArray(Sequence[str]):
    """Ids in an order. It reads like a tuple of strings, equals one of the same ids, and never changes."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, texts: pa.LargeStringArray) -> None:
        """Hold texts without gaps; ``IdArray.of`` makes them of strings."""
        self._texts = texts

    @classmethod
    def of(cls, ids: Iterable[str]) -> IdArray:
        """Take the same ids as an array.

        Raises:
            ValueError: for what is not valid Unicode text. It doesn't show which.
        """
        import pyarrow as pa

        if isinstance(ids, IdArray):
            return ids
        remaining, parts = iter(ids), [pa.array([], pa.large_string())]
        try:
            while part := list(islice(remaining, _PART)):
                parts.append(pa.array(part, pa.large_string()))
        except UnicodeEncodeError:
            raise ValueError("An id is not valid Unicode text: repair the id column.") from None
        return cls(pa.concat_arrays(parts))

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> IdArray: ...

    def __getitem__(self, index: int | slice) -> str | IdArray:
        if isinstance(index, slice):
            return IdArray(self._texts[index])
        text: str = self._texts[index].as_py()
        return text

    def __iter__(self) -> Iterator[str]:
        for part in self.parts(_PART):
            yield from part

    def __eq__(self, other: object) -> bool:
        if isinstance(other, IdArray):
            return bool(self._texts.equals(other._texts))
        if isinstance(other, (list, tuple)):
            return len(self) == len(other) and all(one == another for one, another in zip(self, other, strict=True))
        return NotImplemented

    def __repr__(self) -> str:
        # Ids are personal data.
        return f"IdArray of {len(self)} ids"

    def parts(self, size: int) -> Iterator[list[str]]:
        """So many at a time, as strings."""
        for start in range(0, len(self), size):
            yield self._texts[start : start + size].to_pylist()

    def take(self, rows: IntArray) -> IdArray:
        """Give the ids of some rows, in their order."""
        return IdArray(self._texts.take(rows))

    def order(self) -> IntArray:
        """Sort by code point: the rows (n,) in that order."""
        import pyarrow.compute as pc

        # UTF-8 sorts as its code points do.
        rows: IntArray = pc.array_sort_indices(self._texts).to_numpy().astype(np.int64)
        return rows

    @property
    def has_repeats(self) -> bool:
        """Whether an id is there twice."""
        hashes = _hashes(self, len(self))
        order = np.argsort(hashes)
        ascending = hashes[order]
        alike = np.zeros(len(self) + 1, dtype=np.bool_)
        alike[1:-1] = ascending[1:] == ascending[:-1]
        # Only ids of one hash can be equal.
        suspects = list(self.take(order[alike[1:] | alike[:-1]]))
        return len(set(suspects)) < len(suspects)

    @property
    def longest(self) -> int:
        """UTF-8 bytes of the longest id; 0 without any."""
        import pyarrow.compute as pc

        return int(pc.max(pc.binary_length(self._texts)).as_py() or 0)


class IdIndex(Mapping[str, int]):
    """Tells the rows of distinct ids: 16 bytes an id besides the ids themselves, where a dict of them takes 170.

    Python's own hash of each text is kept, sorted; its key is random in every process. What is found is compared.
    """

    def __init__(self, ids: IdArray) -> None:
        """Index distinct ids by their place in the array."""
        self.ids = ids
        hashes = _hashes(ids, len(ids))
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def rows(self, values: Sequence[str]) -> IntArray:
        """Find the row of each value, (values,); -1 where there is none."""
        wanted = _hashes(values, len(values))
        rows = np.full(len(values), -1, dtype=np.int64)
        places = np.searchsorted(self._hashes, wanted)
        waiting = np.arange(len(values))
        # A second turn is for two ids with one hash.
        while len(waiting := waiting[self._have(places[waiting], wanted[waiting])]):
            candidates = self._order[places[waiting]]
            texts = self.ids.take(candidates)
            equal = np.fromiter(
                (text == values[place] for text, place in zip(texts, waiting.tolist(), strict=True)),
                np.bool_,
                len(waiting),
            )
            rows[waiting[equal]] = candidates[equal]
            waiting = waiting[~equal]
            places[waiting] += 1
        return rows

    def __getitem__(self, value: str) -> int:
        row = int(self.rows([value])[0])
        if row < 0:
            raise KeyError("no such id")
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def _have(self, places: IntArray, wanted: IntArray) -> BoolArray:
        inside = places < len(self._hashes)
        inside[inside] = self._hashes[places[inside]] == wanted[inside]
        return inside


def _hashes(values: Iterable[str], count: int) -> IntArray:
    return np.fromiter(map(hash, values), np.int64, count)
