"""Where the randomness of defences comes from: the operating system, unless a test or a simulation gives a seed."""

import hashlib
import secrets

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

FloatArray = NDArray[np.float64]

# Logits of one record differ in their last bits from batch to batch; far coarser than that, far finer than scores.
_RECORD_GRID = 2.0**-24


class NoiseSource:
    """Secret randomness. Without a seed it is the operating system's, word for word.

    A seed makes it repeat bit for bit (PCG64): for tests and simulations only, since who knows the seed can subtract.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._generator = None if seed is None else np.random.default_rng((_STREAM, seed))
        self._key = secrets.token_bytes(32) if self._generator is None else self._generator.bytes(32)

    def gaussian(self, shape: tuple[int, ...]) -> FloatArray:
        """Independent standard normal numbers, fresh at each call."""
        if self._generator is not None:
            return self._generator.standard_normal(shape)
        words = np.frombuffer(secrets.token_bytes(8 * int(np.prod(shape))), dtype=np.uint64)
        return _normal(words).reshape(shape)

    def integers(self, bound: int, count: int) -> NDArray[np.int64]:
        """``count`` numbers uniform in [0, bound), fresh at each call."""
        if self._generator is not None:
            return self._generator.integers(bound, size=count)
        return np.array([secrets.randbelow(bound) for _ in range(count)], dtype=np.int64)

    def gaussian_per_record(self, records: FloatArray, columns: int) -> FloatArray:
        """Standard normal numbers, (n, columns), that are a secret function of each record of an (n, m) matrix.

        The same record gets the same noise however often it is asked for, so that answers can't be averaged. Records
        are told apart on a grid of 2^-24 (keyed SHAKE-256 over it; the key never leaves this object).
        """
        grid = np.rint(records / _RECORD_GRID).astype(np.int64)
        digests = b"".join(hashlib.shake_256(self._key + row.tobytes()).digest(8 * columns) for row in grid)
        return _normal(np.frombuffer(digests, dtype=np.uint64)).reshape(len(records), columns)


_STREAM = 0xDEFE


def _normal(words: NDArray[np.uint64]) -> FloatArray:
    """Uniform 64-bit words to standard normal numbers, by the inverse of the distribution function (52 bits)."""
    uniform = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    normal: FloatArray = ndtri(uniform)
    return normal
