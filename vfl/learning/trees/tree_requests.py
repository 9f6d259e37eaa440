"""What halves of boosted trees ask besides growing: for the training's plan, and to take part in a tree."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from vfl.arrays import BoolArray, IntArray
from vfl.learning.learner import OwnRequest
from vfl.learning.trees.growing import NodeRows
from vfl.learning.trees.split_gains import Candidate
from vfl.learning.trees.tree_options import TreeOptions


class AskPlan(OwnRequest):
    """Asks for what all parties know of the training, a `TreePlan`."""


@dataclass(frozen=True, eq=False)
class OtherSums:
    """What a party sends of a node in place of its bins' sums: in the order of columns and bins, 0 behind these.

    Attributes:
        base: rows that are in all of them.
        rows: (m,) rows that are counted with signs besides.
        signs: (sums, m) of -1 and 1.
        added: (sums, 2) numbers that are added to g and h.
    """

    base: IntArray
    rows: IntArray
    signs: IntArray
    added: IntArray


class ChoosesSums(Protocol):
    """An adversary in a passive party's place."""

    def sums(self, node: NodeRows, columns: int, options: TreeOptions) -> OtherSums:
        """Choose what is sent of a node, of so many columns."""

    def left(self, node: NodeRows, candidate: Candidate) -> BoolArray:
        """Choose which of a node's routed rows go left, where one of the party's candidates was chosen."""


@dataclass(frozen=True, eq=False)
class FollowTree(OwnRequest):
    """Asks to take part in the next tree, at a party without labels; answered with a `FollowedTree`.

    Attributes:
        chooses: sums and sides in place of those of the party's columns; None at an honest one.
    """

    chooses: ChoosesSums | None = None


@dataclass(frozen=True, eq=False)
class FollowedTree:
    """What a passive party knows of a tree.

    Attributes:
        place: the party's among all.
        splits: by node, (party, that party's split number).
        leaves: (n,) the number of each row's leaf; 0 for rows that are in no tree.
    """

    place: int
    splits: Mapping[int, tuple[int, int]]
    leaves: IntArray
