"""Initial weights of one party's part of the linear model (Hu, section 4)."""

import math
from typing import Literal, get_args

import numpy as np

from vfl.arrays import FloatArray

Initialisation = Literal["zero", "xavier", "kaiming", "normal"]
INITIALISATIONS: tuple[Initialisation, ...] = get_args(Initialisation)


def initial_weights(
    kind: str, features: int, columns: int, *, total_features: int, generator: np.random.Generator
) -> FloatArray:
    """Draw one party's block of theta_0, (features, columns).

    Xavier is uniform on +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010), Kaiming is uniform on
    +-sqrt(6 / fan_in) (He et al. 2015), ``normal`` has standard deviation 0.01.

    Args:
        kind: one of INITIALISATIONS.
        features: of this party.
        columns: of the residual: k, or 1 for two classes.
        total_features: fan_in of the whole model, so that every party scales its own block alike.
        generator: private to the party: weights that others can guess are weights that leak.

    Raises:
        ValueError: for an unknown kind.

    Examples:
        >>> initial_weights("zero", 2, 1, total_features=5, generator=np.random.default_rng()).shape
        (2, 1)
    """
    shape = (features, columns)
    if kind == "zero":
        return np.zeros(shape)
    if kind == "normal":
        return generator.normal(0.0, 0.01, size=shape)
    if kind == "xavier":
        bound = math.sqrt(6.0 / (total_features + columns))
    elif kind == "kaiming":
        bound = math.sqrt(6.0 / total_features)
    else:
        raise ValueError(f"Unknown initialisation {kind!r}. Choose one of: {', '.join(INITIALISATIONS)}.")
    return generator.uniform(-bound, bound, size=shape)
