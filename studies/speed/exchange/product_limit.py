"""The counted limit of an encrypted product: as many modular products as there are, at what one of them takes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from studies.speed.repetition import timed
from studies.speed.result import Spread
from vfl.crypto.kernels import FixedBase, Kernel, ProductTask
from vfl.crypto.kernels.counts import best_group_size

# Powers that are computed to time one product, and the bytes of their exponents: a product for each but the first.
_EXPONENTS, _BYTES = 256, 64


def counted_products(task: ProductTask) -> int:
    """Count the modular products that a task needs: subset tables, a product per digit and group, Horner's rule."""
    rows, digit_columns = len(task.entries), int(task.digits.sum())
    size = best_group_size(rows, digit_columns)
    groups = -(-rows // size)
    # Subsets of one or none are there already, and so is what the first group starts from.
    subsets = groups * ((1 << size) - size - 1) + (groups - 1) * digit_columns
    tops = np.zeros(int(task.answers[-1]) + 1, dtype=np.int64)
    np.maximum.at(tops, task.answers, task.shifts + task.digits)
    return subsets + int(tops.sum()) + digit_columns - len(tops)


def seconds_of_product(kernel: Kernel, modulus: int, repetitions: int) -> Spread:
    """Time one product modulo a number as this kernel computes it at its best: CPU seconds.

    Powers of a fixed base are products of numbers from tables, and so is an encrypted product. Here all exponents are
    one, of equal bytes: what is multiplied stays in the cache.
    """
    base = int.from_bytes(np.random.default_rng(2).bytes(modulus.bit_length() // 8), "big") % modulus
    powers = kernel.fixed_base(base, modulus, 8 * _BYTES)
    exponents = [int.from_bytes(b"Z" * _BYTES, "big")] * _EXPONENTS
    runs = [timed(lambda: powers.powers(exponents))[0] for _ in range(repetitions)]
    return Spread.of(runs).scaled(1 / (_EXPONENTS * (_BYTES - 1)))


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
    def batch(self) -> int:
        """How many numbers it works on at once."""
        return self.kernel.batch

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
