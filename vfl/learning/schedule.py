"""The public batch schedule and row split, which every party computes from the session's seed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from vfl.arrays import IntArray

# First words of the Philox key, so that the split and each epoch's order are independent streams of one seed.
_SPLIT_STREAM = 0
_EPOCH_STREAM = 1
_BLOCK_STREAM = 2
# Of boosted trees: the rows of each, and of each party the columns.
TREE_ROWS_STREAM, TREE_COLUMNS_STREAM = 3, 4


def public_permutation(length: int, seed: int, stream: int, index: int) -> IntArray:
    """Permute range(length) by raw Philox words.

    Raw bit streams are guaranteed to stay the same across numpy versions, ``Generator.permutation`` is not: two parties
    with different versions must still agree on every batch.
    """
    source = np.random.Philox(key=np.array([seed, (stream << 32) + index], dtype=np.uint64))
    return np.argsort(source.random_raw(length), kind="stable").astype(np.int64)


@dataclass(frozen=True)
class RowSplit:
    """Row indices of the training, validation and test set, into the aligned order; disjoint and jointly complete."""

    train: IntArray
    validation: IntArray
    test: IntArray


def split_rows(rows: int, *, validation_fraction: float, test_fraction: float, seed: int) -> RowSplit:
    """Split ``rows`` aligned records by the public seed. Counts are rounded; the training set gets the rest.

    Examples:
        >>> split_rows(5, validation_fraction=0.2, test_fraction=0.2, seed=0)
        RowSplit(train=array([1, 3, 4]), validation=array([2]), test=array([0]))
    """
    order = public_permutation(rows, seed, _SPLIT_STREAM, 0)
    counts = count_rows(rows, validation_fraction=validation_fraction, test_fraction=test_fraction)
    held_out = counts.test + counts.validation
    return RowSplit(
        train=np.sort(order[held_out:]),
        validation=np.sort(order[counts.test : held_out]),
        test=np.sort(order[: counts.test]),
    )


class RowCounts(NamedTuple):
    """How many rows ``split_rows`` gives to each part."""

    train: int
    validation: int
    test: int


def count_rows(rows: int, *, validation_fraction: float, test_fraction: float) -> RowCounts:
    """Count the rows of each part of a split, without making it.

    Examples:
        >>> count_rows(10, validation_fraction=0.2, test_fraction=0.2)
        RowCounts(train=6, validation=2, test=2)
    """
    test = round(rows * test_fraction)
    validation = round(rows * validation_fraction)
    return RowCounts(max(rows - test - validation, 0), validation, test)


def smallest_batch(training_rows: int, batch_size: int, lasting: Sequence[int] = ()) -> int:
    """Count the records of the smallest batch of a ``BatchSchedule``.

    Examples:
        >>> smallest_batch(training_rows=5, batch_size=2)
        1
    """
    return min(merged_sizes(lasting, batch_size), default=training_rows // -(-training_rows // batch_size))


def merged_sizes(lasting: Sequence[int], batch_size: int) -> list[int]:
    """Merge batches of earlier sessions, in order, as long as they fit the batch size; one that is larger stays.

    Examples:
        >>> merged_sizes((3, 3, 9, 2), batch_size=6)
        [6, 9, 2]
    """
    sizes: list[int] = []
    for size in lasting:
        if sizes and sizes[-1] + size <= batch_size:
            sizes[-1] += size
        else:
            sizes.append(size)
    return sizes


@dataclass(frozen=True)
class BatchSchedule:
    """The batches of each epoch: a public permutation of the training rows, cut into runs.

    Hu assumes that the batch size divides n. Where it doesn't, the same number of batches share the rows evenly, and
    their sizes differ by one at most. A short remainder would be solvable (s <= d) however large the other batches are.

    Attributes:
        train_rows: indices of the training rows.
        batch_size: the most rows of a batch.
        seed: public.
        reshuffled: whether every epoch has batches of its own; otherwise all have those of the first.
        lasting: sizes of the batches of earlier sessions that the rows are in, in their order; none in a first one.
            They stay as they are, and are merged where several fit the batch size.

    Raises:
        ValueError: for a batch size below 1 or above the number of training rows.

    Examples:
        >>> schedule = BatchSchedule(np.arange(5), batch_size=2, seed=0)
        >>> [batch.tolist() for batch in schedule.epoch(0)]
        [[3, 0], [1, 4], [2]]
    """

    train_rows: IntArray
    batch_size: int
    seed: int
    reshuffled: bool = True
    lasting: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= len(self.train_rows):
            raise ValueError(
                f"Expected a batch size between 1 and the {len(self.train_rows)} training rows, "
                f"got {self.batch_size}. Choose a smaller batch or align more records."
            )

    @property
    def steps_per_epoch(self) -> int:
        """Batches of one epoch."""
        return len(self._sizes) or -(-len(self.train_rows) // self.batch_size)

    def epoch(self, index: int) -> Iterator[IntArray]:
        """Yield the batches of an epoch, counted from 0, as arrays of row indices."""
        if self._sizes:
            yield from np.split(self.train_rows, np.cumsum(self._sizes)[:-1])
            return
        permutation = index if self.reshuffled else 0
        order = self.train_rows[public_permutation(len(self.train_rows), self.seed, _EPOCH_STREAM, permutation)]
        yield from np.array_split(order, self.steps_per_epoch)

    def rows_of(self, batch: IntArray) -> IntArray:
        """Row indices of a batch: itself, as ``BlockSchedule`` has it of blocks."""
        return batch

    def rows_of_step(self, step: int) -> int:
        """Count the records of a step; steps are counted from the first of training, from 0."""
        if self._sizes:
            return self._sizes[step % len(self._sizes)]
        size, longer = divmod(len(self.train_rows), self.steps_per_epoch)
        return size + (step % self.steps_per_epoch < longer)

    @cached_property
    def _sizes(self) -> list[int]:
        """Records of each lasting batch; none where batches are drawn."""
        return [] if self.reshuffled else merged_sizes(self.lasting, self.batch_size)


@dataclass(frozen=True)
class BlockSchedule:
    """Batches of whole blocks: training rows are cut once, by a public permutation; an epoch permutes the blocks.

    Blocks differ in size by one row at most, batches by one block. Of a batch size that is smaller than a block, blocks
    are no larger either. One that takes all rows takes all blocks.

    Attributes:
        train_rows: indices of the training rows.
        block_size: the most rows of a block.
        batch_size: the most rows of a batch.
        seed: public.
        reshuffled: whether every epoch has batches of its own; otherwise all have those of the first.
        lasting: sizes of the batches of earlier sessions, as a ``BatchSchedule`` has them; blocks are cut within them.

    Examples:
        >>> schedule = BlockSchedule(np.arange(6), block_size=2, batch_size=4, seed=0)
        >>> [block.tolist() for block in schedule.blocks], [batch.tolist() for batch in schedule.epoch(0)]
        ([[5, 1], [2, 0], [3, 4]], [[0, 1], [2]])
    """

    train_rows: IntArray
    block_size: int
    batch_size: int
    seed: int
    reshuffled: bool = True
    lasting: tuple[int, ...] = ()

    @cached_property
    def blocks(self) -> list[IntArray]:
        """Row indices of each block."""
        if self._cut:
            return [block for blocks in self._cut for block in blocks]
        order = self.train_rows[public_permutation(len(self.train_rows), self.seed, _BLOCK_STREAM, 0)]
        return np.array_split(order, -(-len(order) // self._rows_of_a_block))

    @property
    def steps_per_epoch(self) -> int:
        """Batches of one epoch."""
        return self._batches.steps_per_epoch

    def epoch(self, index: int) -> Iterator[IntArray]:
        """Yield the batches of an epoch, counted from 0, as arrays of block numbers."""
        return self._batches.epoch(index)

    def blocks_of_step(self, step: int) -> int:
        """Count the blocks of a step; steps are counted from the first of training, from 0."""
        return self._batches.rows_of_step(step)

    def rows_of(self, batch: IntArray) -> IntArray:
        """Row indices of all of a batch's blocks."""
        return np.concatenate([self.blocks[number] for number in batch])

    @property
    def _rows_of_a_block(self) -> int:
        return min(self.block_size, self.batch_size)

    @cached_property
    def _cut(self) -> list[list[IntArray]]:
        """The blocks of each lasting batch; none where batches are drawn."""
        if self.reshuffled or not self.lasting:
            return []
        batches = BatchSchedule(self.train_rows, self.batch_size, self.seed, False, self.lasting).epoch(0)
        return [np.array_split(batch, -(-len(batch) // self._rows_of_a_block)) for batch in batches]

    @cached_property
    def _batches(self) -> BatchSchedule:
        numbers = np.arange(len(self.blocks))
        if self._cut:
            sizes = tuple(len(blocks) for blocks in self._cut)
            return BatchSchedule(numbers, 1, self.seed, reshuffled=False, lasting=sizes)
        takes_all = self.batch_size >= len(self.train_rows)
        size = len(numbers) if takes_all else self.batch_size // self._rows_of_a_block
        return BatchSchedule(numbers, size, self.seed, reshuffled=self.reshuffled)
