"""Encrypted products cut into jobs, for tests of the cores that compute them."""

from collections.abc import Sequence

import numpy as np

from vfl.crypto import PrivateKey
from vfl.crypto.engine import ProductJob
from vfl.crypto.kernels import PortableKernel, ProductTask


def product_jobs(key: PrivateKey, count: int, *, rows: int = 24, columns: int = 4, seed: int = 0) -> list[ProductJob]:
    """So many parts of a product of ciphertexts under a key, all of the same rows."""
    generator = np.random.default_rng(seed)
    ciphertexts: Sequence[int] = [key.raw_encrypt(int(one)) for one in generator.integers(0, 1000, size=rows)]
    each = np.arange(columns)
    return [
        ProductJob(
            PortableKernel(),
            ciphertexts,
            ProductTask(generator.integers(0, 1 << 17, size=(rows, columns)), 0 * each + 17, 0 * each, 0 * each, each),
            key.public_key.n_squared,
        )
        for _ in range(count)
    ]
