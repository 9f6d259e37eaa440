"""Growing a tree level by level, as a program that asks: whoever runs it answers from plain bins or from ciphertexts.

    sums = yield Histograms(nodes)     of each party, (nodes, columns, max_bin, 2) prefix sums of g and h
    lefts = yield Divide(divisions)    of each division, which rows of its node go left

Of two children only the smaller one is asked for: the other's sums are the parent's without it.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.learning.learner import OwnRequest
from vfl.learning.trees.split_gains import Candidate, best_division, leaf_weight
from vfl.learning.trees.tree_gradients import Gradients
from vfl.learning.trees.tree_options import TreeOptions

ROOT = 1


@dataclass(frozen=True, eq=False)
class NodeRows:
    """A node and who is in it.

    Attributes:
        number: 1 for the root; 2 k and 2 k + 1 for the children of k.
        routed: the rows that came here, ascending.
        summed: those of them whose derivatives are added up.
    """

    number: int
    routed: IntArray
    summed: IntArray

    def divided(self, left: BoolArray) -> tuple["NodeRows", "NodeRows"]:
        """Make the children, of which rows go left."""
        summed_left = self.summed_left(left)
        return (
            NodeRows(2 * self.number, self.routed[left], self.summed[summed_left]),
            NodeRows(2 * self.number + 1, self.routed[~left], self.summed[~summed_left]),
        )

    def summed_left(self, left: BoolArray) -> BoolArray:
        """Tell which of the summed rows go left."""
        chosen: BoolArray = left[np.searchsorted(self.routed, self.summed)]
        return chosen

    def is_divisible(self, options: TreeOptions) -> bool:
        """Tell whether it is high enough, and large enough, to be divided."""
        depth = self.number.bit_length() - 1
        return depth < options.max_depth and len(self.summed) >= 2 * options.min_rows_of_a_node


@dataclass(frozen=True, eq=False)
class Histograms(OwnRequest):
    """Asks every party for its columns' sums over these nodes of one level."""

    nodes: tuple[NodeRows, ...]


@dataclass(frozen=True, eq=False)
class Division:
    """A party divides a node.

    Attributes:
        node: whose rows.
        candidate: by which of its columns, and where.
        split: the party's number of this division, from 0 over all trees.
    """

    node: NodeRows
    candidate: Candidate
    split: int


@dataclass(frozen=True, eq=False)
class Divide(OwnRequest):
    """Asks for the divisions of a level, after its sums: none where none gains enough."""

    divisions: tuple[Division, ...]


Growth: TypeAlias = Generator[Histograms | Divide, Any, "GrownTree"]


@dataclass(frozen=True)
class Tree:
    """What the label party knows of a tree: who divides which node by its split of which number, and leaves' weights.

    Attributes:
        splits: by node, (party, that party's split number).
        weights: by leaf, the margin that it adds.
    """

    splits: dict[int, tuple[int, int]]
    weights: dict[int, float]

    @property
    def leaves(self) -> tuple[int, ...]:
        """The leaves' numbers, ascending."""
        return tuple(sorted(self.weights))


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A tree and where its rows ended.

    Attributes:
        tree: it.
        reached: (n,) each row's leaf; 0 for rows that were not routed.
    """

    tree: Tree
    reached: IntArray

    def margins(self) -> FloatArray:
        """Look up what the tree adds to each row's margin."""
        table = np.zeros(int(self.reached.max(initial=0)) + 1)
        for leaf, weight in self.tree.weights.items():
            if leaf < len(table):
                table[leaf] = weight
        return table[self.reached]


def grow(root: NodeRows, gradients: Gradients, options: TreeOptions, next_splits: Sequence[int]) -> Growth:
    """Grow one tree.

    Args:
        root: all rows that are routed, and those that are summed.
        gradients: of every row.
        options: of the training.
        next_splits: of each party, the number of its next split.
    """
    numbers = list(next_splits)
    splits: dict[int, tuple[int, int]] = {}
    weights: dict[int, float] = {}
    reached = np.zeros(len(gradients.values), dtype=np.int64)
    pairs: Sequence[tuple[NodeRows, ...]] = [(root,)]
    sums: dict[int, list[IntArray]] = {}
    while pairs:
        sums = yield from _sums_of(pairs, sums, options)
        divisions = []
        for node in (child for pair in pairs for child in pair):
            values = gradients.values[node.summed]
            chosen = best_division(sums[node.number], values, options) if node.number in sums else None
            if chosen is None:
                weights[node.number] = leaf_weight(values.sum(axis=0), options)
                reached[node.routed] = node.number
                continue
            divisions.append(Division(node, chosen, numbers[chosen.party]))
            splits[node.number] = (chosen.party, numbers[chosen.party])
            numbers[chosen.party] += 1
        lefts = (yield Divide(tuple(divisions))) if sums else []
        pairs = [division.node.divided(left) for division, left in zip(divisions, lefts, strict=True)]
    return GrownTree(Tree(splits, weights), reached)


def _sums_of(
    pairs: Sequence[tuple[NodeRows, ...]], parents: dict[int, list[IntArray]], options: TreeOptions
) -> Generator[Histograms, Any, dict[int, list[IntArray]]]:
    """Give the sums of all siblings of which one may be divided, from those of the smaller ones."""
    if not (smaller := asked_of(pairs, options)):
        return {}
    answers = yield Histograms(smaller)
    sums, by_parent = {}, {pair[0].number // 2: pair for pair in pairs}
    for index, asked in enumerate(smaller):
        pair = by_parent[asked.number // 2]
        own = [answer[index] for answer in answers]
        for child in pair:
            if child.is_divisible(options):
                others = zip(parents.get(asked.number // 2, own), own, strict=True)
                sums[child.number] = own if child is asked else [parent - part for parent, part in others]
    return sums


def asked_of(pairs: Sequence[tuple[NodeRows, ...]], options: TreeOptions) -> tuple[NodeRows, ...]:
    """Give those nodes whose sums are asked for: the root, or the smaller child of two, where one may be divided."""
    divisible = [pair for pair in pairs if any(child.is_divisible(options) for child in pair)]
    return tuple(min(pair, key=lambda child: len(child.summed)) for pair in divisible)


def is_large_enough(node: NodeRows, left: BoolArray, options: TreeOptions) -> bool:
    """Tell whether a division leaves enough summed rows on either side: what its party looks at."""
    summed_left = int(node.summed_left(left).sum())
    return min(summed_left, len(node.summed) - summed_left) >= options.min_rows_of_a_node
