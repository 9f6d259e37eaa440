"""The engine: a kernel on the cores that a party is given, for batches of what Paillier's time goes into."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import ClassVar, TypeVar

import numpy as np
from gmpy2 import mpz

from vfl.arrays import BoolArray, IntArray
from vfl.cores import Cores, OneCore, OwnChildrenOnly
from vfl.cores.own_children import Rebuilt
from vfl.crypto.kernels import Kernel, ProductTask, best_kernel
from vfl.crypto.kernels.counts import DECRYPT_PRODUCTS, ENCRYPT_PRODUCTS, product_cost
from vfl.crypto.keys import PrivateKey
from vfl.crypto.obfuscation import OwnerObfuscator
from vfl.crypto.rerandomising import Rerandomiser

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Engine:
    """A kernel and the cores that it runs on. Its results are those of one core, whatever the kernel and the cores.

    Attributes:
        kernel: the arithmetic.
        cores: of this machine: most tasks hold secrets.

    Examples:
        >>> str(Engine())
        '...; 1 core'
    """

    kernel: Kernel = field(default_factory=best_kernel)
    cores: Cores = field(default_factory=OneCore)
    # By modulus, with large tables. A session's engine (`vfl.crypto.pool`) has all of its keys' until it is closed, any
    # other those of the latest: every model that is served on shares comes with a key of its own.
    _rerandomisers: dict[int, Rerandomiser] = field(init=False, repr=False, default_factory=dict)
    _most_keys: ClassVar[int] = 2

    def __str__(self) -> str:
        count = self.cores.count
        return f"{self.kernel.name}; {count} core{'' if count == 1 else 's'}"

    def product(self, ciphertexts: Sequence[int], task: ProductTask, modulus: int) -> list[int]:
        """Compute an encrypted matrix product; raises InvalidCiphertext as `Kernel.product` does.

        Several blocks of ciphertexts, one after the other, are multiplied by the same matrix; each has its answers.
        """
        rows = len(task.entries)
        blocks = [ciphertexts[start : start + rows] for start in range(0, len(ciphertexts), max(1, rows))]
        chunks = product_chunks(task, modulus.bit_length(), self.cores.count, self.kernel.batch, len(blocks))
        if len(chunks) == 1:
            return self.kernel.product(ciphertexts, task, modulus)
        jobs = (ProductJob(self.kernel, chunk.chosen(blocks), chunk.task, modulus) for chunk in chunks)
        return _multiplied(chunks, self.cores.map(compute_product, jobs), modulus)

    def encrypt(self, private_key: PrivateKey, plaintexts: Sequence[int]) -> list[int]:
        """Encrypt integers, which count modulo n, under one's own key."""
        return blind(plaintexts, self.obfuscators(private_key, len(plaintexts)), private_key.public_key.n)

    def obfuscators(self, private_key: PrivateKey, count: int) -> list[int]:
        """Draw fresh obfuscators for one's own values, secret until a ciphertext has used them; each serves once."""
        obfuscator = private_key.obfuscator(self.kernel)
        cuts = self._cuts(count, ENCRYPT_PRODUCTS, private_key.public_key.n_squared)
        return self._mapped(_draw, [_Drawing(obfuscator, cut.stop - cut.start) for cut in cuts])

    def rerandomisers(self, n: int, count: int) -> list[int]:
        """Draw fresh rho**n mod n**2, rho uniform in Z_n* (`vfl.crypto.rerandomising`), secret; each serves once."""
        rerandomiser = self._rerandomisers.get(n) or self._rerandomisers.setdefault(n, Rerandomiser(n, self.kernel))
        for older in list(self._rerandomisers)[: -self._most_keys]:
            self._rerandomisers.pop(older, None)
        cuts = self._cuts(count, rerandomiser.products, n * n)
        return self._mapped(_draw, [_Drawing(rerandomiser, cut.stop - cut.start) for cut in cuts])

    def close(self) -> None:
        """Forget what rerandomisers are drawn from. From here on it is made again when it is needed."""
        self._rerandomisers.clear()

    def decrypt(self, private_key: PrivateKey, ciphertexts: Sequence[int]) -> list[int]:
        """Decrypt to plaintexts in [0, n), by the Chinese remainder theorem."""
        # Modulo each prime apart, so that two cores share a single ciphertext.
        count, n_squared = len(ciphertexts), private_key.public_key.n_squared
        cuts = self._cuts(count, DECRYPT_PRODUCTS // 2, n_squared, max(1, self.cores.count // 2))
        tasks = [
            _SecretPowers(self.kernel, bases[cut], part.exponent, part.square)
            for part in private_key.parts
            for bases in [part.reduce(ciphertexts)]
            for cut in cuts
        ]
        is_small = len(item_chunks(2, count * DECRYPT_PRODUCTS // 2, n_squared.bit_length(), 2)) < 2
        powers = self._mapped(_raise, tasks, OneCore() if is_small else self.cores)
        return private_key.combine(powers[:count], powers[count:])

    def _cuts(self, count: int, products_per_item: int, modulus: int, cores: int | None = None) -> list[slice]:
        bits, batch = modulus.bit_length(), self.kernel.batch
        return item_chunks(count, products_per_item, bits, cores or self.cores.count, batch)

    def _mapped(
        self, function: Callable[[Task], list[int]], tasks: Sequence[Task], cores: Cores | None = None
    ) -> list[int]:
        """List what the tasks give, one after the other. A single one stays in the calling process."""
        cores = cores or (OneCore() if len(tasks) < 2 else self.cores)
        return [one for result in cores.map(function, tasks) for one in result]


def default_engine() -> Engine:
    """Make an engine of the best kernel there is, on the core that calls."""
    return Engine()


def blind(plaintexts: Sequence[int], randomness: Sequence[int], n: int) -> list[int]:
    """Make ciphertexts (1 + n)**plaintext * randomness mod n**2, where each randomness is an n-th power."""
    modulus, square = mpz(n), mpz(n) ** 2
    return [
        int((1 + mpz(plaintext) % modulus * modulus) * power % square)
        for plaintext, power in zip(plaintexts, randomness, strict=True)
    ]


# --- how work is cut: by public numbers only, and not at all where it is small ---

# A chunk of fewer products, at 4096 bits, takes less time than the way to a core and back is worth.
_FEWEST_PRODUCTS = 256
_USUAL_BITS = 4096
_CHUNKS_PER_CORE = 4  # of equal items, where each is large: who is done early takes another


@dataclass(frozen=True)
class ProductChunk:
    """A rectangle of a product's matrix.

    Attributes:
        blocks: which blocks of ciphertexts.
        rows: which ciphertexts of each, and rows of the matrix.
        task: what becomes of them; answers count from 0.
        first_answer: which answer of the whole task that is. An answer of the whole is the product of the chunks'.
    """

    blocks: slice
    rows: slice
    task: ProductTask
    first_answer: int

    def chosen(self, blocks: Sequence[Sequence[int]]) -> list[int]:
        """List the ciphertexts of it, block by block."""
        return [one for block in blocks[self.blocks] for one in block[self.rows]]


def item_chunks(count: int, products_per_item: int, modulus_bits: int, cores: int, batch: int = 1) -> list[slice]:
    """Share items that cost the same among cores.

    Args:
        count: of items.
        products_per_item: what each takes.
        modulus_bits: of a product.
        cores: how many there are.
        batch: items that a kernel computes at once; chunks are of whole batches, but for the last.
    """
    worthwhile = _worthwhile_chunks(count * products_per_item, modulus_bits)
    most = cores if cores == 1 else max(cores, min(_CHUNKS_PER_CORE * cores, worthwhile // _CHUNKS_PER_CORE))
    batches = -(-count // batch)
    cuts = cut_evenly(batches, min(batches, most, worthwhile))
    return [slice(cut.start * batch, min(count, cut.stop * batch)) for cut in cuts]


def cut_evenly(count: int, pieces: int) -> list[slice]:
    """Cut so many items into pieces whose sizes differ by one at most."""
    ends = [count * piece // pieces for piece in range(pieces + 1)] if pieces else []
    return [slice(start, end) for start, end in pairwise(ends)]


def product_chunks(
    task: ProductTask, modulus_bits: int, cores: int, batch: int = 1, blocks: int = 1
) -> list[ProductChunk]:
    """Cut a product for several cores: by blocks, and where there are fewer of them than cores also the matrix: by
    columns, by rows, or by both, whatever makes the largest chunk cheapest.

    Chunks of columns need the tables of the same rows, chunks of rows the squarings of the same answers. A kernel that
    computes a batch at once squares as many answers in the time of one.
    """
    rows = len(task.entries)
    uncut = _Cut(1, [0, len(task.digits)])
    if blocks > 1:
        worthwhile = _worthwhile_chunks(blocks * uncut.cost(task, 1), modulus_bits)
        pieces = cut_evenly(blocks, min(blocks, cores, worthwhile))
        parts = product_chunks(task, modulus_bits, cores // len(pieces), batch)
        return [replace(part, blocks=piece) for piece in pieces for part in parts]
    most = min(cores, _worthwhile_chunks(uncut.cost(task, batch), modulus_bits))
    # Few shapes of the grid are tried: halves, quarters and so on.
    bands = {min(most, rows), *(1 << power for power in range(min(most, rows).bit_length()))}
    cuts = [uncut, *(cut for count in sorted(bands) for cut in _cuts(task, count, most // count))]
    best = min(cuts, key=lambda cut: cut.cost(task, batch))
    return list(best.chunks(task))


@dataclass(frozen=True)
class _Cut:
    """A grid: bands of as equal a number of rows as can be, and the columns at which chunks begin and the last ends."""

    bands: int
    columns: list[int]

    def cost(self, task: ProductTask, batch: int) -> int:
        """Products of the largest chunk, or a little more."""
        rows = -(-len(task.entries) // self.bands)
        digits = np.add.reduceat(task.digits, self.columns[:-1])
        bits = [_horner_bits(task, slice(*piece), batch) for piece in pairwise(self.columns)]
        return product_cost(rows, int(digits.max()), max(bits))

    def chunks(self, task: ProductTask) -> Iterator[ProductChunk]:
        for rows in cut_evenly(len(task.entries), self.bands):
            for start, end in pairwise(self.columns):
                yield _chunk(task, rows, slice(start, end))


def _cuts(task: ProductTask, bands: int, pieces: int) -> Iterator[_Cut]:
    """Columns in pieces of as many digits: once anywhere, once between answers only, where no squaring comes twice."""
    before = np.cumsum(task.digits) - task.digits
    targets = np.arange(1, pieces) * task.digits.sum() / pieces
    for places in (np.arange(len(before)), np.flatnonzero(_starts(task.answers))):
        nearest = places[np.abs(before[places][:, None] - targets).argmin(axis=0)] if pieces > 1 else []
        yield _Cut(bands, sorted({0, *map(int, nearest), len(before)}))


def _starts(answers: IntArray) -> BoolArray:
    """Tell which columns begin an answer."""
    starts: BoolArray = np.diff(answers, prepend=-1) != 0
    return starts


def _horner_bits(task: ProductTask, columns: slice, batch: int) -> int:
    """Count the bits of answers within a piece, each as many as the longest of its batch."""
    last = np.diff(task.answers[columns], append=-1) != 0
    bits = (task.shifts + task.digits)[columns][last]
    longest = np.maximum.reduceat(bits, np.arange(0, len(bits), batch))
    return int(longest.sum()) * batch


def _chunk(task: ProductTask, rows: slice, columns: slice) -> ProductChunk:
    answers = task.answers[columns]
    first = int(answers[0])
    piece = ProductTask(
        entries=task.entries[rows, columns],
        digits=task.digits[columns],
        offsets=task.offsets[columns],
        shifts=task.shifts[columns],
        answers=answers - first,
    )
    return ProductChunk(slice(0, 1), rows, piece, first)


def _worthwhile_chunks(products: int, modulus_bits: int) -> int:
    """Count the chunks that are large enough; a product of half the bits takes about a quarter of the time."""
    return max(1, int(products * (modulus_bits / _USUAL_BITS) ** 2) // _FEWEST_PRODUCTS)


# --- tasks of a core ---


@dataclass(frozen=True, eq=False)
class ProductJob:
    """A part of an encrypted matrix product.

    Attributes:
        kernel: what computes it.
        ciphertexts: what the peer has sent, which holds the key; one block or several.
        task: what becomes of them: the party's own features, secret from the peer.
        modulus: n**2 of the peer's key.
    """

    kernel: Kernel
    ciphertexts: Sequence[int]
    task: ProductTask
    modulus: int


def compute_product(job: ProductJob) -> list[int]:
    """Compute the answers of a job; raises InvalidCiphertext as `Kernel.product` does."""
    return job.kernel.product(job.ciphertexts, job.task, job.modulus)


def _multiplied(chunks: Sequence[ProductChunk], results: Iterable[list[int]], modulus: int) -> list[int]:
    """Answers from the answers of chunks, block by block."""
    answers = dict[tuple[int, int], mpz]()
    for chunk, partial in zip(chunks, results, strict=True):
        blocks = range(chunk.blocks.start, chunk.blocks.stop)
        last = chunk.first_answer + len(partial) // len(blocks)
        for place, factor in zip(product(blocks, range(chunk.first_answer, last)), partial, strict=True):
            answers[place] = answers.get(place, 1) * mpz(factor) % modulus
    return [int(answers[place]) for place in sorted(answers)]


@dataclass(frozen=True, repr=False)
class _Drawing(OwnChildrenOnly):
    """A number of random powers; what draws them rebuilds itself, once per worker and key."""

    source: OwnerObfuscator | Rerandomiser
    count: int

    def rebuilt_in_child(self) -> Rebuilt:
        """Name this class and what it takes."""
        return _Drawing, (self.source, self.count)


def _draw(task: _Drawing) -> list[int]:
    return task.source.draw(task.count)


@dataclass(frozen=True, repr=False)
class _SecretPowers(OwnChildrenOnly):
    """Powers of ciphertexts modulo the square of a prime, whose exponent tells the prime."""

    kernel: Kernel
    bases: list[int]
    exponent: int
    modulus: int

    def rebuilt_in_child(self) -> Rebuilt:
        """Name this class and what it takes."""
        return _SecretPowers, (self.kernel, self.bases, self.exponent, self.modulus)


def _raise(task: _SecretPowers) -> list[int]:
    return task.kernel.secret_powers(task.bases, task.exponent, task.modulus)
