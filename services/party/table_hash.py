"""What a model remembers of the table that it was trained on: hashes, which tell another table and show nothing."""

import hashlib
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vfl.arrays import FloatArray
from vfl.data import TypedTable

# Kinds of numpy's types whose bytes are their values: booleans, integers, floats, dates and spans of time.
_PLAIN_KINDS = "biufmM"


def hash_of_table(table: TypedTable, *settings: object) -> str:
    """SHA-256 of all that an encoding can depend on: ids, labels, typed columns, what each becomes, and settings."""
    digest = _Digest()
    digest.add(repr(settings))
    digest.add(f"{len(table.ids)} {table.labels is not None}")
    for text in chain(table.ids, () if table.labels is None else map(repr, table.labels)):
        digest.add(text)
    for plan in table.plans:
        digest.add(plan.name)
        digest.add(plan.encoding)
        if plan.coarsening:
            digest.add(plan.coarsening)
        if plan.encoding != "drop":
            digest.add_column(table.frame[plan.name])
    return digest.value


def hash_of_features(features: FloatArray) -> str:
    """Hash features as a model was trained on them, (aligned rows, d), by SHA-256."""
    digest = _Digest()
    digest.add(str(features.shape))
    digest.add_bytes(np.ascontiguousarray(features).tobytes())
    return digest.value


_KEY_BYTES = 8


def keys_of_records(ids: Iterable[str], secret: bytes) -> NDArray[np.uint64]:
    """Numbers that stand for records whatever their place in the table; who lacks the secret can't tell ids by them."""
    digests = (hashlib.blake2b(one.encode(), digest_size=_KEY_BYTES, key=secret).digest() for one in ids)
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


class _Digest:
    """SHA-256 over parts, each with its length first: neighbours can't be taken for each other's ends."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, text: str) -> None:
        self.add_bytes(text.encode())

    def add_bytes(self, content: bytes) -> None:
        self._hash.update(len(content).to_bytes(8, "big"))
        self._hash.update(content)

    def add_column(self, column: "pd.Series[Any]") -> None:
        """Add a column's values, whatever their type."""
        values = column.to_numpy()
        if values.dtype.kind in _PLAIN_KINDS:
            self.add(values.dtype.str)
            self.add_bytes(values.tobytes())
            return
        codes, categories = pd.factorize(values)
        self.add_bytes(codes.astype(np.int64).tobytes())
        for category in categories:
            self.add(repr(category))

    @property
    def value(self) -> str:
        return self._hash.hexdigest()
