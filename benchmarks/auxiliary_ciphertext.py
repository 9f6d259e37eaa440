"""What Algorithm 2 costs its adversary beyond the u-fold product: 2,048 bits, s = 256, process-CPU seconds in one run.

    python -m benchmarks.auxiliary_ciphertext

The honest iteration of the same party is measured between, on the same ciphertexts; the median of three is shown.
"""

from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

from attacks.auxiliary_ciphertext import AuxiliaryCiphertext, compress, extend, split
from attacks.training_views import Equations, SolvedShares, solve_shares
from benchmarks.stopwatch import timed
from vfl.arrays import FloatArray
from vfl.crypto import RESIDUAL, FixedPoint, decrypt_integers, encrypt_vector, keygen, mask_vector, matvec, unmask

ROWS = 256
REPETITIONS = 3
FEATURES = FixedPoint(16, 0, signed=False)


def measure(d: int, most_copies: int | None) -> tuple[int, float, float]:
    """(u, honest seconds, attacker's seconds), each beyond its own product, for d honest features."""
    _, private_key = keygen()
    generator = np.random.default_rng(0)
    features = np.rint(generator.random((ROWS, d)) * 2**16) / 2**16
    shares = np.rint(generator.uniform(-3, 3, (ROWS, 1)) * 2**32) / 2**32
    attack = AuxiliaryCiphertext(most_copies=most_copies)
    plan = attack.plan(key_bits=2048, features=d, rows=ROWS, residual_format=RESIDUAL, feature_format=FEATURES)
    residual = encrypt_vector(private_key, shares)
    honest, own = [], []
    for _ in range(REPETITIONS):
        product = matvec(features, residual, features=FEATURES)
        masking, (masked, mask) = timed(mask_vector, product)
        answer = decrypt_integers(private_key, masked)
        reading, _ = timed(unmask, mask, answer)
        honest.append(masking + reading)

        extending, matrix = timed(extend, features, plan, FEATURES, attack.generator(0))
        product = matvec(matrix, residual, features=FEATURES)
        compressing, compressed = timed(compress, product, plan)
        masking, (masked, mask) = timed(mask_vector, compressed)
        answer = decrypt_integers(private_key, masked)
        splitting, sums = timed(split, mask, answer, plan)
        solving, solved = timed(_solve, matrix, sums)
        if solved.values is None or not np.array_equal(solved.values, shares):
            raise ValueError("The recovered shares are not the true ones.")
        own.append(extending + compressing + masking + splitting + solving)
    return plan.copies, median(honest), median(own)


def _solve(matrix: FloatArray, sums: FloatArray) -> SolvedShares:
    return solve_shares(Equations(0, "peer", np.arange(ROWS), matrix, sums), share_step=2.0**-32)


def main() -> None:
    """Measure credit's and MNIST's half, and print."""
    table = Table(title="Algorithm 2 beyond its product, process-CPU seconds")
    for heading in ("d", "u", "honest", "adversary", "ratio"):
        table.add_column(heading, justify="right")
    for d, most_copies in ((12, None), (392, 2)):
        copies, honest, own = measure(d, most_copies)
        table.add_row(str(d), str(copies), f"{honest:.3f}", f"{own:.3f}", f"{own / honest:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
