"""Dealing a public data set out to simulated parties: who holds which columns and rows.

Everything follows from the seed. Each party computes its own share in its own process, and later the auditor computes
all of them. Random numbers are raw output of the Philox generator, which no numpy version changes.
"""

from __future__ import annotations

import numpy as np

from vfl.data.datasets import RegistryTable
from vfl.data.tables import Table


class SplitError(ValueError):
    """A data set cannot be dealt out as asked; the message says what to change.

    Examples:
        >>> column_blocks(1, parties=2)
        Traceback (most recent call last):
            ...
        vfl.data.split.SplitError: 1 columns cannot give each of 2 parties at least one: use fewer parties ...
    """


def party_share(
    table: RegistryTable,
    share_index: int,
    parties: int,
    *,
    seed: int,
    missing_fraction: float = 0.02,
) -> Table:
    """Cut the Table of one party; party 0 is active and alone holds the labels.

    Columns go in contiguous blocks (`column_blocks`). Each party lacks some rows of its own and holds the others in its
    own order, so that aligning them is really needed. Ids are `row_ids`.

    Args:
        table: the data set.
        share_index: of the party.
        parties: at least 2.
        seed: 0 to 2**64 - 1.
        missing_fraction: of the rows that each party lacks, in [0, 1).

    Raises:
        SplitError: for an argument out of range, or too few columns.

    Examples:
        >>> share = party_share(load_dataset("breast_cancer", None), 1, parties=2, seed=0)
        >>> share.features.shape, share.labels is None
        ((558, 15), True)
    """
    blocks = column_blocks(table.features.shape[1], parties)
    if not 0 <= share_index < parties:
        raise SplitError(f"Expected share_index from 0 to {parties - 1}, got {share_index}.")
    if not 0 <= missing_fraction < 1:
        raise SplitError(f"Expected missing_fraction from 0 to below 1, got {missing_fraction}.")
    if not 0 <= seed < 2**64:
        raise SplitError(f"Expected seed from 0 to 2**64 - 1, got {seed}.")
    count = len(table.features)
    # Cutting the head off a random order both picks the missing rows and shuffles the others.
    draws = np.random.Philox(key=np.array([seed, share_index], dtype=np.uint64)).random_raw(count)
    rows = np.argsort(draws, kind="stable")[int(missing_fraction * count) :]
    block = blocks[share_index]
    ids = row_ids(count)
    return Table(
        ids=tuple(ids[row] for row in rows),
        features=table.features[rows, block.start : block.stop],
        feature_names=table.feature_names[block.start : block.stop],
        labels=table.labels[rows] if share_index == 0 else None,
    )


def column_blocks(columns: int, parties: int) -> list[range]:
    """Divide columns among parties: contiguous blocks in order, every column in exactly one.

    Sizes differ by at most one, the first blocks being the larger ones (two parties: Hu's halves).

    Args:
        columns: how many there are.
        parties: at least 2.

    Raises:
        SplitError: for fewer than two parties, or when someone would hold no column.

    Examples:
        >>> column_blocks(5, parties=2)
        [range(0, 3), range(3, 5)]
    """
    if parties < 2:
        raise SplitError(f"Expected at least 2 parties, got {parties}.")
    if columns < parties:
        raise SplitError(
            f"{columns} columns cannot give each of {parties} parties at least one: use fewer parties or another data "
            "set."
        )
    sizes = [columns // parties + (index < columns % parties) for index in range(parties)]
    ends = np.cumsum(sizes).tolist()
    return [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def row_ids(count: int) -> list[str]:
    """Name rows 0 to count - 1 of a data set: `r000000` and so on.

    Examples:
        >>> row_ids(2)
        ['r000000', 'r000001']
    """
    return [f"r{row:06d}" for row in range(count)]
