"""A party's part of trained trees: which party divides which node by its split of which number, and its own splits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import FloatArray, IntArray
from vfl.learning.confidence import confidence_scores
from vfl.learning.trees.growing import ROOT, Tree
from vfl.learning.trees.open_leaves import OwnPaths, leaves_of
from vfl.learning.trees.own_trees import NO_TREES, OwnTrees, added_weights
from vfl.learning.trees.owned_columns import Split
from vfl.learning.trees.tree_options import MOST_TREES

# Of a part's arrays: names of those of own trees start with it.
_BEFORE = "before_"
# Below it float64 has every whole number.
_WHOLE = 2.0**53


@dataclass(frozen=True, eq=False)
class TreesPart:
    """A party's part.

    Attributes:
        place: the party's among the parties, 0 for the label party.
        trees: in their order; leaves' weights are known to the label party alone.
        splits: the party's own, by number.
        first_margin: of every record, before any tree; None at other parties than the label party.
        before: the label party's own trees.
    """

    place: int
    trees: tuple[Tree, ...]
    splits: tuple[Split, ...]
    first_margin: float | None = None
    before: OwnTrees = NO_TREES

    def paths(self, trees: int) -> OwnPaths:
        """Give what answers for so many trees: those that aren't there have one leaf."""
        missing = (Tree({}, {}),) * (trees - len(self.trees))
        return OwnPaths(tuple(tree.splits for tree in (*self.trees, *missing)), self.place, self.splits)

    def shares(self, features: FloatArray) -> FloatArray:
        """Raise ValueError: a tree's leaf is known to no party alone."""
        raise ValueError("Trees answer together with the other parties only.")

    def scores(self, joined: FloatArray) -> FloatArray:
        """Score reached leaves, as `margins`: (n, 2)."""
        return confidence_scores(self.margins(joined.astype(np.int64))[:, None])

    def margins(self, reached: IntArray) -> FloatArray:
        """Add up the weights of reached leaves, places among each tree's leaves: (n,).

        Args:
            reached: (n, trees or more, and own trees): of these in the last columns.

        Raises:
            ValueError: at a party that has no leaf's weight, and for a leaf that a tree hasn't.
        """
        if self.first_margin is None:
            raise ValueError("only the label party's part has leaves' weights")
        together = reached.shape[1] - len(self.before.trees)
        start = np.full(len(reached), self.first_margin)
        own = added_weights(self.before.trees, reached[:, together:], start)
        return added_weights(self.trees, reached[:, : len(self.trees)], own)

    def leaf_margins(self, records: FloatArray, trees: int, leaves: int) -> FloatArray:
        """Give what each leaf of so many trees adds to each record's margin, (records, trees, leaves).

        What comes before the first tree, the label party's own ones included, is in all of the first one's leaves. 0
        stands for leaves and trees that aren't there.
        """
        if self.first_margin is None:
            raise ValueError("only the label party's part has leaves' weights")
        margins = np.zeros((len(records), trees, leaves))
        for at, tree in enumerate(self.trees):
            margins[:, at, : len(tree.weights)] = [tree.weights[leaf] for leaf in tree.leaves]
        start = np.full(len(records), self.first_margin)
        margins[:, 0] += added_weights(self.before.trees, self.before.reached(records), start)[:, None]
        return margins

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Give nodes (tree, number, party, split), own splits (column, threshold, missing left) and leaves' weights."""
        own = {f"{_BEFORE}{name}": array for name, array in _written(self.before.trees, self.before.splits).items()}
        return {
            "place": np.array([self.place, len(self.trees), len(self.before.trees)], dtype=np.int64),
            **_written(self.trees, self.splits),
            **own,
            "first_margin": np.array([] if self.first_margin is None else [self.first_margin], dtype=np.float64),
        }

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> "TreesPart":
        """Read the part that ``arrays`` wrote; raises ValueError for anything else."""
        if arrays.keys() != _EMPTY.keys():
            raise ValueError(f"a part of trees has {', '.join(_EMPTY)}")
        # Another party's come as float64.
        arrays = {name: _whole(array) if _EMPTY[name].dtype == np.int64 else array for name, array in arrays.items()}
        for name, like in _EMPTY.items():
            if arrays[name].dtype != like.dtype or arrays[name].shape[1:] != like.shape[1:]:
                raise ValueError(f"a part of trees has other {name}")
        if arrays["place"].shape != (3,) or len(arrays["first_margin"]) > 1:
            raise ValueError("a part of trees says its place and how many trees there are")
        place, count, own = arrays["place"].tolist()
        margin = arrays["first_margin"].tolist()
        if not np.isfinite(margin).all():
            raise ValueError("a part of trees begins with a margin that is no number")
        trees = _read(arrays, count, place, has_leaves=bool(margin))
        before = {name.removeprefix(_BEFORE): array for name, array in arrays.items() if name.startswith(_BEFORE)}
        return cls(place, *trees, margin[0] if margin else None, OwnTrees(*_read(before, own, 0, has_leaves=True)))

    def check_splits(self, place: int, columns: int, label_part: "TreesPart") -> None:
        """Raise ValueError where this isn't a party's at a place, with so many columns, of the label party's trees."""
        if self.place != place or any(not 0 <= split.column < columns for split in self.splits):
            raise ValueError(f"its trees aren't those of a party with {columns} columns at place {place}")
        if [tree.splits for tree in self.trees] != [tree.splits for tree in label_part.trees]:
            raise ValueError("its trees aren't those that were grown together")

    @property
    def class_rows(self) -> None:
        """None: outputs aren't linear in the features."""

    def with_class_rows(self, rows: FloatArray) -> "TreesPart":
        """Never asked for: there are no class rows."""
        raise NotImplementedError("trees have no class rows")


def _whole(array: NDArray[Any]) -> NDArray[Any]:
    """Take whole numbers of float64 as such; whatever else stays as it is."""
    is_whole = array.dtype == np.float64 and bool((np.abs(array) < _WHOLE).all() and (array == np.rint(array)).all())
    return array.astype(np.int64) if is_whole else array


def _written(trees: Sequence[Tree], splits: Sequence[Split]) -> Mapping[str, NDArray[Any]]:
    nodes = [(at, node, *split) for at, tree in enumerate(trees) for node, split in tree.splits.items()]
    leaves = [(at, leaf, weight) for at, tree in enumerate(trees) for leaf, weight in tree.weights.items()]
    own = [(split.column, split.threshold, split.missing_left) for split in splits]
    return {
        "nodes": np.array(nodes, dtype=np.int64).reshape(-1, 4),
        "splits": np.array(own, dtype=np.float64).reshape(-1, 3),
        "leaves": np.array(leaves, dtype=np.float64).reshape(-1, 3),
    }


def _read(
    arrays: Mapping[str, NDArray[Any]], count: int, place: int, *, has_leaves: bool
) -> tuple[tuple[Tree, ...], tuple[Split, ...]]:
    """Read so many trees, and the splits of the party at a place; raises ValueError where any of it is missing."""
    if not 0 <= count <= MOST_TREES:
        raise ValueError(f"a part has from 0 to {MOST_TREES:,} trees")
    columns, thresholds, is_left = arrays["splits"].T
    numbers = np.concatenate([columns, *arrays["leaves"][:, :2].T])
    is_known = np.isin(is_left, (0, 1)).all() and np.isfinite(arrays["leaves"][:, 2]).all()
    if np.isnan(thresholds).any() or _whole(numbers).dtype != np.int64 or not is_known:
        raise ValueError("a part of trees has splits or leaves whose numbers are none")
    splits: list[dict[int, tuple[int, int]]] = [{} for _ in range(count)]
    weights: list[dict[int, float]] = [{} for _ in range(count)]
    own = tuple(Split(int(column), bound, bool(left)) for column, bound, left in arrays["splits"].tolist())
    try:
        for tree, node, party, number in arrays["nodes"].tolist():
            splits[tree][node] = party, number
        for tree, leaf, weight in arrays["leaves"].tolist():
            weights[int(tree)][int(leaf)] = weight
    except IndexError:
        raise ValueError("a part of trees names a tree that it hasn't") from None
    is_known = all(node == ROOT or (node > ROOT and node // 2 in tree) for tree in splits for node in tree)
    if (arrays["nodes"][:, 0] < 0).any() or not is_known:
        raise ValueError("a part of trees names a node that its trees haven't")
    used = [number for tree in splits for party, number in tree.values() if party == place]
    trees = tuple(map(Tree, splits, weights))
    lacks_leaves = has_leaves and any(tree.leaves != leaves_of(tree.splits) for tree in trees)
    if any(not 0 <= number < len(own) for number in used) or lacks_leaves:
        raise ValueError("a part of trees lacks splits or leaves")
    return trees, own


_EMPTY = TreesPart(0, (), ()).arrays()
