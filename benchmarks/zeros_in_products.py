"""What zeros in a batch save, and what the time of a product tells of them: 2,048 bits, 256 rows of bytes, portable.

    python -m benchmarks.zeros_in_products

The median of three interleaved runs is shown, process-CPU seconds.
"""

from statistics import median

import numpy as np
from gmpy2 import mpz
from rich.console import Console
from rich.table import Table

from benchmarks.stopwatch import timed
from vfl.arrays import IntArray
from vfl.crypto import RESIDUAL, ColumnWidths, FixedPoint, encrypt_vector, keygen, layouts_for
from vfl.crypto.kernels import PortableKernel
from vfl.crypto.vectors import product_task

ROWS, COLUMNS, REPETITIONS = 256, 392, 3
MNIST_INK = 0.17


def sparse_product(ciphertexts: list[mpz], matrix: IntArray, modulus: mpz) -> list[int]:
    """Multiply by the entries that aren't 0, from 15 powers of each row: a product per half-byte that isn't 0."""
    tables = []
    for c in ciphertexts:
        powers = [mpz(1), c]
        for _ in range(14):
            powers.append(powers[-1] * c % modulus)
        tables.append(powers)
    sums = []
    for column in matrix.T.tolist():
        high, low = mpz(1), mpz(1)
        for powers, entry in zip(tables, column, strict=True):
            if entry >> 4:
                high = high * powers[entry >> 4] % modulus
            if entry & 15:
                low = low * powers[entry & 15] % modulus
        sums.append(int(high**16 % modulus * low % modulus))
    return sums


def main() -> None:
    """Measure dense, thin and empty batches, and print."""
    _, private_key = keygen()
    modulus, generator = private_key.public_key.n_squared, np.random.default_rng(0)
    columns = ColumnWidths(byte=COLUMNS).formats(FixedPoint(16, 0, signed=False).entries)
    layout = layouts_for([columns], batch_size=ROWS, classes=1, residual_format=RESIDUAL, key_bits=2048)[0]
    ciphertexts = encrypt_vector(private_key, generator.uniform(-1, 1, ROWS), layout=layout).ciphertexts
    dense = generator.integers(1, 255, (ROWS, COLUMNS), endpoint=True)
    thin = np.where(generator.random(dense.shape) < MNIST_INK, dense, 0)
    kernel, seconds = PortableKernel(), dict[str, list[float]]()
    for _ in range(REPETITIONS):
        for name, matrix in (("no entry is 0", dense), ("83 % are 0", thin), ("all are 0", np.zeros_like(dense))):
            taken, _ = timed(kernel.product, ciphertexts, product_task(matrix, columns, layout), modulus)
            seconds.setdefault(name, []).append(taken)
            unpacked, sums = timed(kernel.product, ciphertexts, product_task(matrix, columns, None), modulus)
            seconds.setdefault(f"{name}, not packed", []).append(unpacked)
        sparse, found = timed(sparse_product, [mpz(c) for c in ciphertexts], thin, mpz(modulus))
        seconds.setdefault("83 % are 0, not packed, zeros left out", []).append(sparse)
        _, sums = timed(kernel.product, ciphertexts, product_task(thin, columns, None), modulus)
        if found != sums:
            raise ValueError("The sparse product is another one.")
    table = Table(title=f"{ROWS} x {COLUMNS} bytes")
    table.add_column("batch")
    table.add_column("seconds", justify="right")
    for name, taken in seconds.items():
        table.add_row(name, f"{median(taken):.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
