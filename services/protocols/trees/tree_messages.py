"""What a label party and a passive one say to each other while trees grow.

A tree begins with derivatives. Level by level, as long as a node may be divided, the label party takes sums, has the
columns' owners divide nodes, and tells all of all divisions. Whose sums are due follows from these, and isn't said.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, cast

import numpy as np

from services.common.agreement import Agreement
from services.common.errors import InvalidMessage
from vfl.arrays import BoolArray, IntArray
from vfl.crypto.bin_sums import SumLayout
from vfl.learning.trees import NodeRows, TreePlan
from vfl.learning.trees.boosted_trees import BoostedTrees
from vfl.learning.trees.growing import is_large_enough

# A derivative, or a sum of them, in the clear.
CLEAR = np.dtype("<i8")


@dataclass(frozen=True, eq=False)
class TreeTerms:
    """What every party of a training knows alike.

    Attributes:
        names: of the parties in their order, the label party first.
        plan: of the training; its columns are in the same order.
        key_bits: of the label party's modulus; 0 where derivatives and sums travel in the clear.
    """

    names: tuple[str, ...]
    plan: TreePlan
    key_bits: int

    def __post_init__(self) -> None:
        if not len(set(self.names)) == len(self.names) == len(self.plan.columns):
            raise InvalidMessage(f"Expected {len(self.plan.columns)} parties of different names, got {self.names}.")

    @classmethod
    def of(cls, agreement: Agreement) -> "TreeTerms":
        """Read them of a session's. Raises InvalidMessage for terms that trees can't be grown by."""
        plan, learner = agreement.plan, cast(BoostedTrees, agreement.plan.family)
        rows = plan.split(agreement.active.aligned_rows)
        if plan.batch_size and plan.steps_per_epoch(len(rows.train)) != 1:
            raise InvalidMessage("protocol=trees takes all training rows in each step: leave batch_size out.")
        label, *others = (party.feature_count for party in agreement.parties)
        trained, validation = np.sort(rows.train), np.sort(rows.validation)
        try:
            learner.columns(agreement.classes)
            # The last of the label party's columns is the bias of other learners.
            tree_plan = TreePlan(learner, (label - 1, *others), trained, validation, plan.seed)
        except ValueError as error:
            raise InvalidMessage(str(error)) from error
        names = tuple(party.name for party in agreement.parties)
        return cls(names, tree_plan, plan.key_bits if plan.is_encrypted else 0)

    @cached_property
    def layout(self) -> SumLayout:
        """Where sums lie in plaintexts. Raises PackingImpossible for a key without room for one."""
        return SumLayout(self.key_bits, len(self.plan.root(0).summed), self.plan.options.unit)

    @property
    def ciphertext_bytes(self) -> int:
        """The bytes of a ciphertext; in the clear, of two numbers."""
        return 2 * self.key_bits // 8 or 2 * CLEAR.itemsize

    def sums_bytes(self, sums: int) -> int:
        """Count the bytes of so many sums."""
        return (self.layout.ciphertexts_for(sums) if self.key_bits else sums) * self.ciphertext_bytes


class SplitChosen(NamedTuple):
    """Label party to the owner of a column: divide this node.

    Attributes:
        node: of the level.
        split: the owner's number of this division.
        column: among those that the tree may divide by, by the session's numbers.
        bin: the last one that goes left.
        missing_left: whether rows without a value go left.
    """

    node: int
    split: int
    column: int
    bin: int
    missing_left: bool


class NodeDivided(NamedTuple):
    """Owner to the label party, and from there to all others: which rows of a node go left.

    Attributes:
        node: of the level.
        party: whose split it is, by its place among all.
        split: that party's number of it.
        left: a bit for each row that came to the node, ascending.
    """

    node: int
    party: int
    split: int
    left: bytes


class Peer(Protocol):
    """A passive party, as the label party reaches it."""

    def begin(self, tree: int, derivatives: bytes) -> None:
        """Begin a tree, with g and h of its summed rows, ascending, a ciphertext each."""

    def sums(self) -> bytes:
        """Give prefix sums of the nodes that are asked for on this level, node by node and column by column."""

    def divide(self, splits: Sequence[SplitChosen]) -> Sequence[NodeDivided]:
        """Divide these nodes of the level, which may be none."""

    def follow(self, divided: Sequence[NodeDivided]) -> None:
        """Go on to the next level, behind the divisions of all parties."""


def read_clear(content: bytes, pairs: int, what: str) -> IntArray:
    """Read so many pairs of numbers in the clear, (pairs, 2); raises InvalidMessage for another size."""
    if len(content) != pairs * 2 * CLEAR.itemsize:
        raise InvalidMessage(f"{what} can't be read: expected {pairs} pairs of numbers, got {len(content)} bytes.")
    return np.frombuffer(content, dtype=CLEAR).astype(np.int64).reshape(pairs, 2)


def read_left(divided: NodeDivided, node: NodeRows, terms: TreeTerms) -> BoolArray:
    """Read which rows of a node go left.

    Raises:
        InvalidMessage: for bits of other rows than the node's, and for too few rows on a side.
    """
    what = f"{terms.names[divided.party]} divides node {divided.node}"
    count = len(node.routed)
    if len(divided.left) != -(-count // 8):
        raise InvalidMessage(f"{what} by {len(divided.left)} bytes; its {count} rows take {-(-count // 8)}.")
    bits = np.unpackbits(np.frombuffer(divided.left, dtype=np.uint8)).astype(np.bool_)
    left = bits[:count]
    if bits[count:].any():
        # Passed on to all parties, they would be a message of their own.
        raise InvalidMessage(f"{what} with bits beyond its {count} rows.")
    if not is_large_enough(node, left, terms.plan.options):
        fewest = terms.plan.options.min_rows_of_a_node
        raise InvalidMessage(f"{what} into a side of fewer than {fewest} rows, the session's fewest.")
    return left
