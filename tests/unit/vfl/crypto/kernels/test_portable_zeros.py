"""The portable kernel has no product by 1, which would be quicker: whatever is zero, numbers of full length meet."""

from collections.abc import Iterable

import numpy as np
import pytest
from gmpy2 import mpz

from vfl.crypto.kernels import PortableKernel, ProductTask, portable

MODULUS = (1_000_003 * 998_244_353) ** 2


@pytest.mark.parametrize("ones", [0.0, 0.1, 1.0])
def test_no_entry_of_a_table_is_one(monkeypatch: pytest.MonkeyPatch, ones: float) -> None:
    chosen: list[mpz] = []

    def watched(pick: object, indices: Iterable[int]) -> list[mpz]:
        found = list(map(pick, indices))  # type: ignore[call-overload]
        chosen.extend(found)
        return found

    monkeypatch.setattr(portable, "map", watched, raising=False)
    generator = np.random.default_rng(1)
    entries = (generator.random((12, 6)) < ones).astype(np.int64)
    ciphertexts = [int(c) for c in generator.integers(2, 2**60, 12)]
    columns = np.arange(6)
    task = ProductTask(entries, np.ones_like(columns), 0 * columns, 0 * columns, columns)
    expected = []
    for column in entries.T:
        product = 1
        for c, entry in zip(ciphertexts, column, strict=True):
            product = product * (c if entry else 1) % MODULUS
        expected.append(product)
    assert PortableKernel().product(ciphertexts, task, MODULUS) == expected
    assert len(chosen) >= 6
    assert all(one.bit_length() > 60 for one in chosen)
