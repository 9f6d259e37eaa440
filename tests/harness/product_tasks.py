"""Encrypted products at random, and what they are by definition."""

import numpy as np

from vfl.crypto.kernels import ProductTask


def random_task(seed: int, rows: int, columns: int) -> tuple[list[int], ProductTask]:
    """Columns of mixed widths, with gaps before, between and none, entries at both ends of their range."""
    rng = np.random.default_rng(seed)
    digits = rng.choice([1, 8, 17, 40], size=columns)
    offsets = np.where(rng.random(columns) < 0.3, (1 << digits) - 1, 0)
    answers = np.cumsum(np.r_[0, rng.random(columns - 1) < 0.4])
    shifts = np.zeros(columns, dtype=np.int64)
    for j in range(columns):
        begins = j == 0 or answers[j] != answers[j - 1]
        shifts[j] = rng.integers(0, 9) + (0 if begins else shifts[j - 1] + digits[j - 1])
    largest = (1 << digits) - 1
    entries = rng.integers(0, largest + 1, size=(rows, columns))
    entries = np.where(rng.random(entries.shape) < 0.2, np.where(rng.random(entries.shape) < 0.5, 0, largest), entries)
    ciphertexts = [int(c) for c in rng.integers(1, 2**62, size=rows)]
    return ciphertexts, ProductTask(entries, digits, offsets, shifts, answers)


def by_definition(ciphertexts: list[int], task: ProductTask, modulus: int) -> list[int]:
    """A power per entry."""
    answers = [1] * (int(task.answers[-1]) + 1)
    for j, answer in enumerate(task.answers.tolist()):
        for c, entry in zip(ciphertexts, task.entries[:, j].tolist(), strict=True):
            exponent = (entry - int(task.offsets[j])) << int(task.shifts[j])
            answers[answer] = answers[answer] * pow(c, exponent, modulus) % modulus
    return answers
