"""The counted limit of an encrypted product: as many modular products as there are, at what one of them takes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from gmpy2 import mpz

from plumbline.bench.repetition import timed
from vfl.crypto.kernels import FixedBase, Kernel, PortableKernel, ProductTask
from vfl.crypto.kernels.counts import best_group_size, group_cost

# Numbers that are multiplied to time one product, and how often each.
_NUMBERS, _ROUNDS = 64, 32
_SQUARINGS = 1024


def counted_products(task: ProductTask) -> int:
    """Count the modular products of a task: subset tables, a product per digit and group, Horner's rule."""
    digit_columns = int(task.digits.sum())
    subsets = group_cost(len(task.entries), digit_columns, best_group_size(len(task.entries), digit_columns))
    tops = np.zeros(int(task.answers[-1]) + 1, dtype=np.int64)
    np.maximum.at(tops, task.answers, task.shifts + task.digits)
    return subsets + int(tops.sum()) + digit_columns


def seconds_of_product(kernel: Kernel, modulus: int) -> float:
    """Time one product modulo a number, as this kernel computes it at its best: CPU seconds."""
    draw = np.random.default_rng(2)
    size = modulus.bit_length() // 8
    numbers = [int.from_bytes(draw.bytes(size), "big") % modulus for _ in range(_NUMBERS)]
    if isinstance(kernel, PortableKernel):
        return _gmp_product(numbers, modulus)
    seconds, _ = timed(lambda: kernel.powers(numbers, 1 << _SQUARINGS, modulus))
    return seconds / (_NUMBERS * _SQUARINGS)


def _gmp_product(numbers: Sequence[int], modulus: int) -> float:
    """A product of GMP's as Python reaches it: a power would be quicker, for it squares without a division."""
    n, factors = mpz(modulus), [mpz(one) for one in numbers]

    def multiply() -> None:
        products = factors
        for _ in range(_ROUNDS):
            products = [a * b % n for a, b in zip(products, factors, strict=True)]

    seconds, _ = timed(multiply, time.process_time)
    return seconds / (_NUMBERS * _ROUNDS)


@dataclass(frozen=True)
class Counting:
    """A kernel that remembers the tasks of its products.

    Attributes:
        kernel: what computes.
        tasks: in their order.
    """

    kernel: Kernel
    tasks: list[ProductTask] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of what computes."""
        return self.kernel.name

    @property
    def releases_gil(self) -> bool:
        """Whether threads make it faster."""
        return self.kernel.releases_gil

    @property
    def products(self) -> int:
        """Modular products of all tasks so far."""
        return sum(map(counted_products, self.tasks))

    def product(self, ciphertexts: Sequence[int], task: ProductTask, modulus: int) -> list[int]:
        """Compute the answers of a task, and remember it."""
        self.tasks.append(task)
        return self.kernel.product(ciphertexts, task, modulus)

    def fixed_base(self, base: int, modulus: int, exponent_bits: int) -> FixedBase:
        """Make the tables of a base."""
        return self.kernel.fixed_base(base, modulus, exponent_bits)

    def powers(self, bases: Sequence[int], exponent: int, modulus: int) -> list[int]:
        """Raise many bases to one public exponent."""
        return self.kernel.powers(bases, exponent, modulus)

    def secret_powers(self, bases: Sequence[int], exponent: int, modulus: int) -> list[int]:
        """Raise many bases to one secret exponent."""
        return self.kernel.secret_powers(bases, exponent, modulus)
