"""Boosting: one tree after the other, each grown on what those before it left; and the same in one process, in plain.

`boost` is a program like `grow`: it says which tree comes, and is answered as a tree's growth asks.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.learning.confidence import log_loss
from vfl.learning.learner import OwnRequest
from vfl.learning.schedule import TREE_COLUMNS_STREAM, TREE_ROWS_STREAM, public_permutation
from vfl.learning.trees.growing import ROOT, Divide, Histograms, NodeRows, Tree, grow
from vfl.learning.trees.own_trees import NO_TREES, OwnTrees, added_weights
from vfl.learning.trees.owned_columns import OwnedColumns, Split
from vfl.learning.trees.tree_gradients import Gradients, check_labels, first_margin
from vfl.learning.trees.tree_options import TreeOptions

R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class TreePlan:
    """What all parties know of a training before it begins.

    Attributes:
        options: of the training.
        columns: of each party.
        trained: rows whose derivatives are summed, ascending.
        validation: rows by which the training stops early, ascending.
        seed: of the samples of rows and columns.
    """

    options: TreeOptions
    columns: tuple[int, ...]
    trained: IntArray
    validation: IntArray
    seed: int

    def __post_init__(self) -> None:
        if not len(self.trained):
            raise ValueError("Trees are grown on at least one training row.")
        if self.options.early_stopping_rounds and not len(self.validation):
            raise ValueError("early_stopping_rounds needs validation rows: set some aside, or set it to 0.")
        self.options.check_rows(len(self.trained))

    def root(self, tree: int) -> NodeRows:
        """Name the rows of a tree: all of them are routed, a sample of the training rows is summed."""
        count = max(1, round(self.options.subsample * len(self.trained)))
        sample = public_permutation(len(self.trained), self.seed, TREE_ROWS_STREAM, tree)[:count]
        return NodeRows(ROOT, np.union1d(self.trained, self.validation), self.trained[np.sort(sample)])

    def columns_of(self, tree: int) -> list[IntArray]:
        """Draw the columns that a tree may divide by, of each party."""
        return [self.sampled_columns(tree, party) for party in range(len(self.columns))]

    def sampled_columns(self, tree: int, party: int) -> IntArray:
        """Draw the session's numbers of the columns of a party that a tree may divide by, ascending."""
        columns = self.columns[party]
        count = min(columns, max(1, round(self.options.colsample_bytree * columns)))
        index = tree * len(self.columns) + party
        return np.sort(public_permutation(columns, self.seed, TREE_COLUMNS_STREAM, index)[:count])


@dataclass(frozen=True, eq=False)
class BeginTree(OwnRequest):
    """Says that a tree begins, with the derivatives of every row. Answered with None."""

    number: int
    gradients: Gradients


@dataclass(frozen=True)
class TreeModel:
    """The label party's part of a trained model.

    Attributes:
        first_margin: of every record, before any tree.
        trees: in their order.
        validation_losses: after each tree that was grown, those left out of the model included.
        before: the label party's own trees.
    """

    first_margin: float
    trees: tuple[Tree, ...]
    validation_losses: tuple[float, ...] = ()
    before: OwnTrees = NO_TREES

    def margins(self, tables: Sequence[FloatArray], splits: Sequence[Sequence[Split]]) -> FloatArray:
        """Compute the log odds of records in one place, from all parties' tables and splits: the yardstick."""
        start = np.full(len(tables[0]), self.first_margin)
        margins = added_weights(self.before.trees, self.before.reached(tables[0]), start)
        for reached, tree in zip(self.reached(tables, splits).T, self.trees, strict=True):
            margins += np.array([tree.weights[leaf] for leaf in reached.tolist()])
        return margins

    def reached(self, tables: Sequence[FloatArray], splits: Sequence[Sequence[Split]]) -> IntArray:
        """Find the leaf of every record in every tree, (n, trees), in one place."""
        leaves = np.full((len(tables[0]), len(self.trees)), ROOT, dtype=np.int64)
        for index, tree in enumerate(self.trees):
            for node, (party, number) in sorted(tree.splits.items()):
                here = np.flatnonzero(leaves[:, index] == node)
                left = splits[party][number].goes_left(tables[party][here])
                leaves[here, index] = 2 * node + np.where(left, 0, 1)
        return leaves


Boosting: TypeAlias = Generator[BeginTree | Histograms | Divide, Any, TreeModel]


def boost(labels: IntArray, plan: TreePlan, own: OwnedColumns) -> Boosting:
    """Grow a model's trees at the label party.

    Args:
        labels: (n,) 0 or 1, of all rows.
        plan: what all parties know.
        own: the label party's columns, on which its own trees are grown.

    Raises:
        ValueError: for labels of other than two classes.
    """
    options = plan.options
    boosted = BoostedSoFar.behind_own_trees(labels, plan, own)
    for number in range(options.n_estimators):
        yield from boosted.further_tree()
        best = int(np.argmin(boosted.losses)) if boosted.losses else number
        if options.early_stopping_rounds and number - best >= options.early_stopping_rounds:
            break
    kept = best + 1 if options.early_stopping_rounds else options.n_estimators
    model = boosted.model
    return replace(model, trees=model.trees[:kept])


class BoostedSoFar:
    """The label party's trees so far.

    Attributes:
        losses: of the validation rows, after each tree; empty without such rows.
    """

    def __init__(self, labels: IntArray, plan: TreePlan) -> None:
        """Begin with no tree.

        Args:
            labels: (n,) 0 or 1, of all rows.
            plan: what all parties know.

        Raises:
            ValueError: for labels of other than two classes.
        """
        check_labels(labels)
        self._labels, self._plan = labels, plan
        self._first = first_margin(labels[plan.trained])
        self._margins = np.full(len(labels), self._first)
        self._trees: list[Tree] = []
        self._next_splits = [0] * len(plan.columns)
        self._before = NO_TREES
        self.losses: list[float] = []

    @classmethod
    def behind_own_trees(cls, labels: IntArray, plan: TreePlan, own: OwnedColumns) -> "BoostedSoFar":
        """Begin behind trees that the label party grows on its own columns. Raises ValueError as above."""
        boosted = cls(labels, plan)
        options = replace(plan.options, n_estimators=max(1, plan.options.own_trees), early_stopping_rounds=0)
        alone, columns = cls(labels, replace(plan, options=options, columns=plan.columns[:1])), replace(own, splits=[])
        for _ in range(plan.options.own_trees):
            answered_in_plain(alone.further_tree(), [columns], alone._plan)
        boosted._margins = alone._margins
        boosted._before = OwnTrees(tuple(alone._trees), tuple(columns.splits))
        return boosted

    @classmethod
    def resumed(cls, labels: IntArray, plan: TreePlan, model: TreeModel, margins: FloatArray) -> "BoostedSoFar":
        """Go on behind the trees of a model, from the margins of all rows, (n,), that they have led to."""
        boosted = cls(labels, plan)
        boosted._trees, boosted._before, boosted._margins = list(model.trees), model.before, margins
        boosted.losses = list(model.validation_losses)
        for tree in model.trees:
            boosted._count_splits(tree)
        return boosted

    def further_tree(self) -> Generator[BeginTree | Histograms | Divide, Any, None]:
        """Grow one tree on what those before it left."""
        number, plan = len(self._trees), self._plan
        gradients = Gradients.of(self._margins, self._labels, plan.options.unit)
        yield BeginTree(number, gradients)
        grown = yield from grow(plan.root(number), gradients, plan.options, self._next_splits)
        self._trees.append(grown.tree)
        self._count_splits(grown.tree)
        self._margins = self._margins + grown.margins()
        if len(plan.validation):
            self.losses.append(validation_loss(self._margins[plan.validation], self._labels[plan.validation]))

    def _count_splits(self, tree: Tree) -> None:
        for party, _ in tree.splits.values():
            self._next_splits[party] += 1

    @property
    def margins(self) -> FloatArray:
        """Of all rows, (n,), after the trees so far."""
        return self._margins

    @property
    def model(self) -> TreeModel:
        """The trees so far."""
        return TreeModel(self._first, tuple(self._trees), tuple(self.losses), self._before)


def validation_loss(margins: FloatArray, labels: IntArray) -> float:
    """Compute the mean log loss of margins, (n,)."""
    # Services start without it.
    from scipy.special import expit

    ones = expit(margins)
    return log_loss(np.column_stack([1 - ones, ones]), labels)


# Is told each request of a program, and what it was answered with.
Hears: TypeAlias = Callable[[OwnRequest, Any], None]


def train_in_plain(
    labels: IntArray, parties: Sequence[OwnedColumns], plan: TreePlan, hear: Hears = lambda *_: None
) -> TreeModel:
    """Train in one place, without any cipher: what a federation is held against. Each party keeps its splits."""
    return answered_in_plain(boost(labels, plan, parties[0]), parties, plan, hear)


def answered_in_plain(
    program: Generator[Any, Any, R], parties: Sequence[OwnedColumns], plan: TreePlan, hear: Hears = lambda *_: None
) -> R:
    """Run a program of the label party, and answer it from all parties' columns."""
    columns: list[IntArray] = []
    values = np.zeros((0, 2), dtype=np.int64)

    def answer(request: Any) -> Any:
        nonlocal columns, values
        reply: Any = None
        if isinstance(request, BeginTree):
            values, columns = request.gradients.values, plan.columns_of(request.number)
        elif isinstance(request, Histograms):
            pairs = zip(parties, columns, strict=True)
            reply = [owned.sums(request.nodes, sampled, values) for owned, sampled in pairs]
        else:
            places = [(one, one.candidate.party) for one in request.divisions]
            reply = [parties[at].divide(one.node, one.candidate, columns[at], plan.options) for one, at in places]
        hear(request, reply)
        return reply

    return answered(program, answer)


def answered(program: Generator[Any, Any, R], answer: Callable[[Any], Any]) -> R:
    """Run a program to its end, and answer each of its requests."""
    reply: Any = None
    try:
        while True:
            reply = answer(program.send(reply))
    except StopIteration as ended:
        result: R = ended.value
        return result
