"""The exchange with this project's own arithmetic, timed whole, and the counted limit of its product.

The limit: as many modular products as there are, at what one of them takes.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from studies.speed.exchange.other_libraries import phe_keys, phe_number
from studies.speed.exchange.work import RESIDUAL, ExchangeWork, Phases
from studies.speed.repetition import Clock, require_equal, timed
from studies.speed.result import Spread
from vfl.arrays import IntArray
from vfl.crypto import (
    CipherVector,
    ColumnFormats,
    Engine,
    PackingLayout,
    PrivateKey,
    decrypt_integers,
    encrypt_vector,
    layouts_for,
    mask_vector,
    matvec,
    unmask,
)
from vfl.crypto.kernels import FixedBases, Kernel, ProductTask
from vfl.crypto.kernels.counts import best_group_size
from vfl.crypto.rerandomising import Rerandomiser

# Without packing, so many answers are decrypted by `phe` as well.
_SHOWN_TO_PHE = 2


@dataclass(frozen=True)
class OwnVariant:
    """One way to compute the exchange.

    Attributes:
        engine: the kernel and its cores.
        layout: how values share plaintexts; None for the paper's protocol to the letter.
        clock: this process's CPU, or the clock where other processes work as well.
    """

    engine: Engine
    layout: PackingLayout | None
    clock: Clock = time.process_time

    def ciphertexts(self, work: ExchangeWork) -> int:
        """Count the ciphertexts of one exchange, both ways."""
        if self.layout is None:
            return sum(work.matrix.shape)
        return self.layout.ciphertexts_for(len(work.matrix)) + self.layout.answers_for(formats_of(work))

    def run(self, work: ExchangeWork) -> Phases:
        """Compute the exchange; raises WrongResult for another product than the exact one."""
        key, engine = work.private_key, self.engine
        encrypt, c = timed(lambda: self.encrypted(work), self.clock)
        product, answer = timed(lambda: self.product(work, c), self.clock)
        hide, (masked, mask) = timed(lambda: mask_vector(answer, engine=engine), self.clock)
        decrypt, residues = timed(lambda: decrypt_integers(key, masked, engine=engine), self.clock)
        reveal, values = timed(lambda: unmask(mask, residues), self.clock)
        require_equal("plumbline", values.tolist(), [float(value) for value in work.expected])
        self._check_integers(work, answer)
        return Phases(encrypt, product, hide, decrypt + reveal)

    def encrypted(self, work: ExchangeWork) -> CipherVector:
        """The residual under its owner's key."""
        return encrypt_vector(
            work.private_key, work.residual, layout=self.layout, fixed_point=RESIDUAL, engine=self.engine
        )

    def product(self, work: ExchangeWork, residual: CipherVector) -> CipherVector:
        """The encrypted product."""
        return matvec(work.matrix, residual, columns=formats_of(work), engine=self.engine)

    def _check_integers(self, work: ExchangeWork, answer: CipherVector) -> None:
        """Values are floats; what they stand for must be exact to the last bit."""
        key = work.private_key
        residues = decrypt_integers(key, answer, engine=self.engine)
        n = key.public_key.n
        signed = [residue - n if residue > n // 2 else residue for residue in residues]
        found = signed if self.layout is None else self.layout.unpack_product(signed, work.matrix.shape[1])
        require_equal("plumbline", list(found), work.expected)
        if self.layout is None:
            public_key, private_key = phe_keys(key)
            told = [private_key.decrypt(phe_number(public_key, one)) for one in answer.ciphertexts[:_SHOWN_TO_PHE]]
            require_equal("phe on plumbline's ciphertexts", told, work.expected[:_SHOWN_TO_PHE])


def warmed(kernel: Kernel, private_key: PrivateKey) -> Engine:
    """An engine that has a key's tables, its owner's and its peer's: they are made once per session."""
    engine, n = Engine(kernel), private_key.public_key.n
    engine.encrypt(private_key, [0])
    engine.rerandomisers(n, Rerandomiser(n, kernel).windows)
    engine.rerandomisers(n, 1)
    return engine


def formats_of(work: ExchangeWork) -> ColumnFormats:
    """The formats of a work's columns."""
    return ColumnFormats(((work.entries, work.matrix.shape[1]),))


def best_layout(work: ExchangeWork) -> PackingLayout:
    """The layout with the fewest modular products."""
    return layouts_for(
        [formats_of(work)],
        batch_size=len(work.matrix),
        classes=1,
        residual_format=RESIDUAL,
        key_bits=work.private_key.public_key.bits,
    )[0]


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
    powers = kernel.fixed_bases([base] * _BYTES, modulus)
    exponents = [int.from_bytes(b"Z" * _BYTES, "big")] * _EXPONENTS
    runs = [timed(lambda: powers.powers(exponents))[0] for _ in range(repetitions)]
    return Spread.of(runs).scaled(1 / (_EXPONENTS * (_BYTES - 1)))


@dataclass(frozen=True)
class Counting:
    """A kernel that remembers the tasks of its products, and how long its lists were.

    Attributes:
        kernel: what computes.
        tasks: in their order.
        listed: numbers of all lists, call by call.
    """

    kernel: Kernel
    tasks: list[ProductTask] = field(default_factory=list)
    listed: list[int] = field(default_factory=list)

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

    def list_products(self, numbers: Sequence[int], order: IntArray, ends: IntArray, modulus: int) -> list[int]:
        """Multiply lists of numbers, and remember how many."""
        self.listed.append(len(order))
        return self.kernel.list_products(numbers, order, ends, modulus)

    def fixed_bases(self, bases: Sequence[int], modulus: int) -> FixedBases:
        """Make the tables of bases."""
        return self.kernel.fixed_bases(bases, modulus)

    def powers(self, bases: Sequence[int], exponent: int, modulus: int) -> list[int]:
        """Raise many bases to one public exponent."""
        return self.kernel.powers(bases, exponent, modulus)

    def secret_powers(self, bases: Sequence[int], exponent: int, modulus: int) -> list[int]:
        """Raise many bases to one secret exponent."""
        return self.kernel.secret_powers(bases, exponent, modulus)
