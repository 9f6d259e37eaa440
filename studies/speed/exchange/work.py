"""The exchange that every variant must compute, and what it took."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from studies.speed.result import Spread
from vfl.arrays import IntArray
from vfl.crypto import FixedPoint, PrivateKey
from vfl.crypto.widths import BINARY, BYTE, EntryFormat

# 40 bits with the sign.
RESIDUAL = FixedPoint(fraction_bits=0, integer_bits=39)
# The columns that are measured, by their names on the command line.
KINDS = {"dense": EntryFormat(1 << 15, signed=True), "byte": BYTE, "one-hot": BINARY}
KIND_WORDS = {"dense": "dense 16-bit columns", "byte": "byte columns", "one-hot": "one-hot columns"}


@dataclass(frozen=True)
class Phases:
    """Seconds per phase of one exchange.

    Attributes:
        encrypt: the residual, by the key's owner.
        product: of the residual and the matrix.
        mask: every answer.
        decrypt: every answer, the mask taken off.
    """

    encrypt: float
    product: float
    mask: float
    decrypt: float

    @property
    def total(self) -> float:
        """Seconds of all phases."""
        return self.encrypt + self.product + self.mask + self.decrypt


PHASES = (*(field.name for field in fields(Phases)), "total")


@dataclass(frozen=True, eq=False)
class ExchangeWork:
    """One exchange.

    Attributes:
        private_key: of the key holder.
        residual: (s,) integers.
        matrix: (s, d) integers of one format.
        entries: that format.
    """

    private_key: PrivateKey
    residual: IntArray
    matrix: IntArray
    entries: EntryFormat

    @property
    def expected(self) -> list[int]:
        """The product that every variant must find."""
        return exact_product(self.matrix, self.residual)


def exact_product(matrix: IntArray, residual: IntArray) -> list[int]:
    """X^T g in Python's integers."""
    return [int(value) for value in matrix.astype(object).T @ residual.astype(object)]


def make_work(private_key: PrivateKey, rows: int, columns: int, entries: EntryFormat, seed: int = 7) -> ExchangeWork:
    """Draw a residual and a matrix. Columns of 0 and 1 are one-hot features of ten values: a tenth of them is 1."""
    draw = np.random.default_rng(seed)
    residual = draw.integers(-(2**39) + 1, 2**39, size=rows)
    if entries == BINARY:
        matrix = (draw.random((rows, columns)) < 0.1).astype(np.int64)
    else:
        least = -entries.bound if entries.signed else 0
        matrix = draw.integers(least, entries.bound + 1, size=(rows, columns))
    return ExchangeWork(private_key, residual, matrix, entries)


def spreads(runs: Sequence[Phases]) -> dict[str, Spread]:
    """Every phase and the total over some repetitions."""
    return {name: Spread.of([getattr(run, name) for run in runs]) for name in PHASES}
