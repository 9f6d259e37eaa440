"""How work is cut into chunks for several cores: by public numbers only, and not at all where it is small."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vfl.arrays import BoolArray, IntArray
from vfl.crypto.kernels import ProductTask
from vfl.crypto.kernels.counts import product_cost

# A chunk of fewer products, at 4096 bits, takes less time than the way to a core and back is worth.
_FEWEST_PRODUCTS = 256
_USUAL_BITS = 4096
_CHUNKS_PER_CORE = 4  # of equal items, where each is large: who is done early takes another


@dataclass(frozen=True)
class ProductChunk:
    """A rectangle of a product's matrix.

    Attributes:
        rows: which ciphertexts, and rows of the matrix.
        task: what becomes of them; answers count from 0.
        first_answer: which answer of the whole task that is. An answer of the whole is the product of the chunks'.
    """

    rows: slice
    task: ProductTask
    first_answer: int


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


def product_chunks(task: ProductTask, modulus_bits: int, cores: int, batch: int = 1) -> list[ProductChunk]:
    """Cut a product for several cores: by columns, by rows, or by both, whatever makes the largest chunk cheapest.

    Chunks of columns need the tables of the same rows, chunks of rows the squarings of the same answers. A kernel that
    computes a batch at once squares as many answers in the time of one.
    """
    rows = len(task.entries)
    whole = _Cut(1, [0, len(task.digits)])
    most = min(cores, _worthwhile_chunks(whole.cost(task, batch), modulus_bits))
    # Few shapes of the grid are tried: halves, quarters and so on.
    bands = {min(most, rows), *(1 << power for power in range(min(most, rows).bit_length()))}
    cuts = [whole, *(cut for count in sorted(bands) for cut in _cuts(task, count, most // count))]
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
            for left, right in pairwise(self.columns):
                yield _chunk(task, rows, slice(left, right))


def _cuts(task: ProductTask, bands: int, pieces: int) -> Iterator[_Cut]:
    """Columns in pieces of as many digits: once anywhere, once between answers only, where no squaring comes twice."""
    before = np.cumsum(task.digits) - task.digits
    targets = np.arange(1, pieces) * task.digits.sum() / pieces
    for places in (np.arange(len(before)), np.flatnonzero(_starts(task.answers))):
        nearest = places[np.abs(before[places][:, None] - targets).argmin(axis=0)] if pieces > 1 else []
        yield _Cut(bands, sorted({0, *map(int, nearest), len(before)}))


def _starts(answers: IntArray) -> BoolArray:
    """Which columns begin an answer."""
    starts: BoolArray = np.diff(answers, prepend=-1) != 0
    return starts


def _horner_bits(task: ProductTask, columns: slice, batch: int) -> int:
    """The bits of answers within a piece, each as many as the longest of its batch."""
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
    return ProductChunk(rows, piece, first)


def _worthwhile_chunks(products: int, modulus_bits: int) -> int:
    """How many chunks are large enough; a product of half the bits takes about a quarter of the time."""
    return max(1, int(products * (modulus_bits / _USUAL_BITS) ** 2) // _FEWEST_PRODUCTS)
