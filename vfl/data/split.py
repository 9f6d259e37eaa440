"""Dealing a public data set out to simulated parties: who holds which columns and rows.

Everything follows from the seed. Each party computes its own share in its own process, and later the auditor computes
all of them. Random numbers are raw output of the Philox generator, which no numpy version changes.
"""

from __future__ import annotations

import numpy as np

from vfl.data.datasets import RegistryTable
from vfl.data.tables import Table


class SplitError(ValueError):
    """A data set cannot be dealt out as asked; the message says what to change."""


def party_share(
    table: RegistryTable,
    share_index: int,
    parties: int,
    *,
    seed: int,
    missing_fraction: float = 0.02,
    active_features: int | None = None,
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
        active_features: columns of the active party; None shares all columns evenly.

    Raises:
        SplitError: for an argument out of range, or too few columns.
    """
    blocks = column_blocks(table.features.shape[1], parties, active_features)
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


def column_blocks(columns: int, parties: int, active_features: int | None = None) -> list[range]:
    """Divide columns among parties: contiguous blocks in order, every column in exactly one.

    Sizes differ by at most one, the first blocks being the larger ones (two parties: Hu's halves).

    Args:
        columns: how many there are.
        parties: at least 2.
        active_features: gives the active party (block 0) that many columns, and shares the rest among the others.

    Raises:
        SplitError: for fewer than two parties, or when someone would hold no column.
    """
    if parties < 2:
        raise SplitError(f"Expected at least 2 parties, got {parties}.")
    head = [] if active_features is None else [active_features]
    sharing = parties - len(head)
    rest = columns - sum(head)
    if any(size < 1 for size in head) or rest < sharing:
        raise SplitError(
            f"{columns} columns cannot give each of {parties} parties at least one"
            + (f" with active_features = {active_features}" if head else "")
            + ": use fewer parties or another data set."
        )
    sizes = head + [rest // sharing + (index < rest % sharing) for index in range(sharing)]
    ends = np.cumsum(sizes).tolist()
    return [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def row_ids(count: int) -> list[str]:
    """Name rows 0 to count - 1 of a data set: `r000000` and so on."""
    return [f"r{row:06d}" for row in range(count)]
