"""The engine: a kernel on the cores that a party is given, for batches of what Paillier's time goes into."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gmpy2 import mpz

from vfl.cores.cores import Cores, OneCore
from vfl.crypto.integers import random_unit
from vfl.crypto.kernels import Kernel, ProductTask, best_kernel
from vfl.crypto.keys import PrivateKey
from vfl.crypto.obfuscation import OwnerObfuscator


@dataclass(frozen=True, eq=False)
class Engine:
    """A kernel and the cores that it runs on. Its results are those of one core, whatever the kernel and the cores.

    Attributes:
        kernel: the arithmetic.
        cores: of this machine: some tasks hold secrets.
    """

    kernel: Kernel = field(default_factory=best_kernel)
    cores: Cores = field(default_factory=OneCore)

    def product(self, ciphertexts: Sequence[int], task: ProductTask, modulus: int) -> list[int]:
        """Compute an encrypted matrix product; raises InvalidCiphertext as `Kernel.product` does."""
        return self.kernel.product(ciphertexts, task, modulus)

    def encrypt(self, private_key: PrivateKey, plaintexts: Sequence[int]) -> list[int]:
        """Encrypt integers, which count modulo n, under one's own key."""
        return blind(plaintexts, self.obfuscators(private_key, len(plaintexts)), private_key.public_key.n)

    def obfuscators(self, private_key: PrivateKey, count: int) -> list[int]:
        """Draw fresh obfuscators for one's own values, secret until a ciphertext has used them; each serves once."""
        obfuscator = private_key.obfuscator(self.kernel)
        tasks = (_Drawing(obfuscator, part) for part in self._parts(count))
        return [one for drawn in self.cores.map(_draw, tasks) for one in drawn]

    def rerandomisers(self, n: int, count: int) -> list[int]:
        """Draw fresh rho**n mod n**2, rho uniform in Z_n*, secret; each serves once."""
        tasks = (_Randomness(self.kernel, n, part) for part in self._parts(count))
        return [one for drawn in self.cores.map(_rerandomise, tasks) for one in drawn]

    def decrypt(self, private_key: PrivateKey, ciphertexts: Sequence[int]) -> list[int]:
        """Decrypt to plaintexts in [0, n), by the Chinese remainder theorem."""
        powers = (
            self.kernel.secret_powers(part.reduce(ciphertexts), part.exponent, part.square)
            for part in private_key.parts
        )
        return private_key.combine(*powers)

    def _parts(self, count: int) -> Iterator[int]:
        """Counts for the cores, as even as can be."""
        parts = min(count, self.cores.count)
        return (count // parts + (index < count % parts) for index in range(parts))


def blind(plaintexts: Sequence[int], randomness: Sequence[int], n: int) -> list[int]:
    """Make ciphertexts (1 + n)**plaintext * randomness mod n**2, where each randomness is an n-th power."""
    modulus, square = mpz(n), mpz(n) ** 2
    return [
        int((1 + mpz(plaintext) % modulus * modulus) * power % square)
        for plaintext, power in zip(plaintexts, randomness, strict=True)
    ]


@dataclass(frozen=True)
class _Drawing:
    obfuscator: OwnerObfuscator
    count: int


def _draw(task: _Drawing) -> list[int]:
    return task.obfuscator.draw(task.count)


@dataclass(frozen=True)
class _Randomness:
    kernel: Kernel
    n: int
    count: int


def _rerandomise(task: _Randomness) -> list[int]:
    units = [random_unit(task.n) for _ in range(task.count)]
    return task.kernel.powers(units, task.n, task.n**2)
