"""What travels between a label party and a passive one while trees grow.

Every message names its tree, and `key` what it is about: a party answers the same message with the same bytes again,
and refuses another one about the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from services.common.errors import InvalidMessage
from vfl.arrays import BoolArray, IntArray
from vfl.crypto.bin_sums import SumLayout
from vfl.learning.trees import NodeRows, TreePlan
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


@dataclass(frozen=True)
class TreeGradients:
    """Label party to all others: g and h of the tree's summed rows, ascending, a ciphertext each."""

    tree: int
    ciphertexts: bytes

    @property
    def key(self) -> tuple[str, int]:
        """What it is about."""
        return "gradients", self.tree


@dataclass(frozen=True)
class SumsAsked:
    """Label party to all others: asks for sums over these nodes of one level."""

    tree: int
    nodes: tuple[int, ...]

    @property
    def key(self) -> tuple[str, int]:
        """What it is about: a level, counted from the root's."""
        return "sums", self.nodes[0].bit_length() if self.nodes else 0


@dataclass(frozen=True)
class BinSums:
    """Passive party to the label party: prefix sums of the nodes asked for, node by node and column by column."""

    tree: int
    ciphertexts: bytes


@dataclass(frozen=True)
class SplitChosen:
    """Label party to the owner of a column: divide this node.

    Attributes:
        tree: which one.
        node: of it.
        split: the owner's number of this division.
        column: among those that the tree may divide by, by the session's numbers.
        bin: the last one that goes left.
        missing_left: whether rows without a value go left.
    """

    tree: int
    node: int
    split: int
    column: int
    bin: int
    missing_left: bool

    @property
    def key(self) -> tuple[str, int, int, int, bool]:
        """What it is about."""
        return "the split", self.node, self.column, self.bin, self.missing_left


@dataclass(frozen=True)
class SplitsChosen:
    """Label party to each other one: divides these nodes of a level, which may be none."""

    tree: int
    splits: tuple[SplitChosen, ...]


@dataclass(frozen=True)
class NodeDivided:
    """Owner to the label party, and from there to all others: which rows of a node go left.

    Attributes:
        tree: which one.
        node: of it.
        party: whose split it is.
        split: that party's number of it.
        left: a bit for each row that came to the node, ascending.
    """

    tree: int
    node: int
    party: str
    split: int
    left: bytes

    @property
    def key(self) -> tuple[str, int]:
        """What it is about."""
        return f"node {self.node}", self.node


@dataclass(frozen=True)
class NodesDivided:
    """Answer to `SplitsChosen`; and of all parties, in the order of nodes, from the label party to each other one."""

    tree: int
    nodes: tuple[NodeDivided, ...]


Message: TypeAlias = TreeGradients | SumsAsked | SplitsChosen | SplitChosen | NodesDivided | NodeDivided
Reply: TypeAlias = BinSums | NodesDivided | NodeDivided | None
# How a message reaches another party and is answered.
Peer: TypeAlias = Callable[[Message], Reply]


def read_clear(content: bytes, pairs: int, what: str) -> IntArray:
    """Read so many pairs of numbers in the clear, (pairs, 2); raises InvalidMessage for another size."""
    if len(content) != pairs * 2 * CLEAR.itemsize:
        raise InvalidMessage(f"{what} can't be read: expected {pairs} pairs of numbers, got {len(content)} bytes.")
    return np.frombuffer(content, dtype=CLEAR).astype(np.int64).reshape(pairs, 2)


def splits_made(terms: TreeTerms, trees: Sequence[Mapping[int, tuple[int, int]]]) -> dict[str, int]:
    """Count each party's splits in trees, by its name."""
    parties = [party for tree in trees for party, _ in tree.values()]
    return {name: parties.count(place) for place, name in enumerate(terms.names)}


def check_divided(divided: NodeDivided, node: NodeRows, terms: TreeTerms, splits_of: Mapping[str, int]) -> BoolArray:
    """Read which rows of a node go left.

    Args:
        divided: what its owner says.
        node: the node that it names.
        terms: of the training.
        splits_of: how many splits each party has made.

    Raises:
        InvalidMessage: for a party without columns, a number that isn't its next, bits of other rows than the node's,
            or too few rows on a side.
    """
    party, where = divided.party, f"node {divided.node} of tree {divided.tree}"
    if not dict(zip(terms.names, terms.plan.columns, strict=True)).get(party):
        raise InvalidMessage(f"{party} owns no column of this session, and can't divide {where}.")
    if divided.split != splits_of[party]:
        raise InvalidMessage(f"{party} has made {splits_of[party]} splits: number {divided.split} isn't its next one.")
    count = len(node.routed)
    if len(divided.left) != -(-count // 8):
        raise InvalidMessage(
            f"{party} divides {where} by {len(divided.left)} bytes; its {count} rows take {-(-count // 8)}."
        )
    bits = np.unpackbits(np.frombuffer(divided.left, dtype=np.uint8)).astype(np.bool_)
    left = bits[:count]
    if bits[count:].any():
        # Passed on to all parties, they would be a message of their own.
        raise InvalidMessage(f"{party} sets bits beyond the {count} rows of {where}.")
    if not is_large_enough(node, left, terms.plan.options):
        fewest = terms.plan.options.min_rows_of_a_node
        raise InvalidMessage(f"{party} divides {where} into a side of fewer than {fewest} rows, the session's fewest.")
    return left
