"""Auxiliary records that an adversary makes up, to be sent for scores in place of real ones."""

from typing import Literal

import numpy as np

from vfl.arrays import FloatArray


def synthetic_features(
    kind: Literal["uniform", "normal", "laplace"], rows: int, columns: int, generator: np.random.Generator
) -> FloatArray:
    """Make up auxiliary features (rows, columns) in [0, 1], to be sent for scores in place of real ones (Jiang 5.3.1).

    Uniform on [0, 1], or standard normal or Laplace values min-max scaled per column over the rows drawn, as the
    parties scale their own. A column of one row is one half.

    Raises:
        ValueError: for an unknown kind or no rows.
    """
    if rows < 1 or columns < 1:
        raise ValueError(f"Expected at least one row and one column, got {rows} and {columns}.")
    if kind == "uniform":
        return generator.random((rows, columns))
    if kind == "normal":
        values = generator.standard_normal((rows, columns))
    elif kind == "laplace":
        values = generator.laplace(size=(rows, columns))
    else:
        raise ValueError(f"Unknown distribution {kind!r}. Choose one of: uniform, normal, laplace.")
    low, high = values.min(axis=0), values.max(axis=0)
    return np.full_like(values, 0.5) if rows == 1 else (values - low) / (high - low)
