"""Made-up tables of two parties with columns of chosen widths, and a federation about them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plumbline.federation import Federation

# Values of a column that travels as 0 to 255.
_BYTES = 256


@dataclass(frozen=True)
class TableShape:
    """What a party's table has.

    Attributes:
        rows: records.
        full: columns of real numbers.
        byte: columns of whole numbers from 0 to 255.
        binary: columns of 0 and 1.
    """

    rows: int
    full: int
    byte: int = 0
    binary: int = 0

    @property
    def columns(self) -> int:
        """All columns."""
        return self.full + self.byte + self.binary


def made_tables(shape: TableShape, seed: int = 15) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Make an active and a passive table of the same ids, in different orders."""
    draw = np.random.default_rng(seed)
    ids = [f"r{row:07}" for row in range(shape.rows)]
    active, passive = (_columns(shape, draw).assign(id=ids) for _ in range(2))
    told = active.iloc[:, 0] + passive.iloc[:, 0]
    active["label"] = np.where(told + draw.normal(scale=0.1, size=shape.rows) > told.median(), "yes", "no")
    return active, passive.sample(frac=1.0, random_state=seed)


def _columns(shape: TableShape, draw: np.random.Generator) -> pd.DataFrame:
    made = np.hstack(
        [
            draw.random((shape.rows, shape.full)),
            draw.integers(_BYTES, size=(shape.rows, shape.byte)).astype(np.float64),
            draw.integers(2, size=(shape.rows, shape.binary)).astype(np.float64),
        ]
    )
    # Every column has both ends of its range: its width is that of its whole table.
    made[0], made[-1] = 0, [1] * shape.full + [_BYTES - 1] * shape.byte + [1] * shape.binary
    return pd.DataFrame(made, columns=[f"c{number}" for number in range(shape.columns)])


@contextmanager
def started(shape: TableShape, folder: Path, settings: Mapping[str, Any]) -> Iterator[Federation]:
    """A coordinator, an active and a passive party about made-up tables, which write their records into a folder."""
    active, passive = made_tables(shape)
    with Federation.local(
        active=active, passive=[passive], label="label", settings={**settings, "run_dir": folder}
    ) as federation:
        yield federation
