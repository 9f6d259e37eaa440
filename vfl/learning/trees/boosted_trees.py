"""The learner of boosted trees: each party's half, whose steps ask for a tree each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import FloatArray, IntArray
from vfl.learning.learner import FewSteps, Learner, LearnerError, LearnerSpec, OwnData, Step, TableSize
from vfl.learning.trees.boosting import BoostedSoFar, TreeModel
from vfl.learning.trees.growing import Tree
from vfl.learning.trees.owned_columns import OwnedColumns, drawn_order
from vfl.learning.trees.tree_hearing import TreeHearing
from vfl.learning.trees.tree_options import TreeOptions
from vfl.learning.trees.tree_requests import AskPlan, FollowedTree, FollowTree
from vfl.learning.trees.trees_part import TreesPart


@dataclass(frozen=True)
class BoostedTrees(TreeOptions, Learner):
    """Trees that are boosted one after the other, an epoch each: options as `TreeOptions` says them."""

    name: ClassVar[str] = "boosted_trees"
    spec: ClassVar[LearnerSpec] = LearnerSpec(
        senders="active", part=TreesPart, source="Chen and Guestrin 2016", resumes=True, reaches=True
    )

    @property
    def leaves(self) -> int:
        """The most leaves of a tree: as many shares of each are given, however few it has."""
        return 1 << self.max_depth

    def terms(self) -> Mapping[str, str | int]:
        """Name the protocol; a tree is an epoch, and epochs stop early as the option says."""
        return {"protocol": "trees", "epochs": self.n_estimators, "patience": self.early_stopping_rounds}

    def columns(self, classes: int) -> int:
        """Count one: the derivatives of a record travel as one number."""
        _check_classes(classes)
        return 1

    def outputs(self, classes: int) -> int:
        """Count the leaves of all trees."""
        return self.n_estimators * self.leaves

    def told(self, classes: int) -> int:
        """Count the trees, own ones included: of each the label party has the leaf."""
        return self.n_estimators + self.own_trees

    def few_steps(self, table: TableSize) -> FewSteps:
        """Take all training rows in each step."""
        return FewSteps(batches=1, whole=self.n_estimators, least=self.n_estimators, parted=self.n_estimators)

    def hearing(self) -> TreeHearing:
        """Hear sums, sides and leaves."""
        return TreeHearing()

    def begin(self, own: OwnData) -> "LabelHalf | PassiveHalf":
        """Cut the party's columns into bins; raises LearnerError for more than two classes, and without columns."""
        _check_classes(own.classes)
        if own.trained is None:
            raise LearnerError("trees divide by a party's own training columns: give them")
        table, rows = own.trained.table, np.sort(own.trained.rows)
        if own.labels is None:
            return PassiveHalf(OwnedColumns.of(table, rows, self, drawn_order(table.shape[1])), own.features)
        # The last column is the bias of other learners.
        return LabelHalf(OwnedColumns.of(table[:, :-1], rows, self), own.features, own.labels)


def _check_classes(classes: int) -> None:
    if classes != 2:
        raise LearnerError(
            f"boosted trees tell two classes apart, and these labels have {classes}: choose another learner, or make "
            "two of them"
        )


class _Half:
    """What both halves have.

    Attributes:
        weights: (d, 1), 0: trees have none.
        owned: the party's columns in bins, and its splits.
    """

    def __init__(self, owned: OwnedColumns, features: int) -> None:
        self.owned = owned
        self.weights: FloatArray = np.zeros((features, 1))


class LabelHalf(_Half):
    """The label party's half."""

    def __init__(self, owned: OwnedColumns, features: int, labels: IntArray) -> None:
        super().__init__(owned, features)
        # Test records may have none. They are in no tree.
        self._labels = np.maximum(labels, 0)
        self._boosted: BoostedSoFar | None = None
        # What it goes on from, until it knows the plan again.
        self._kept: Mapping[str, NDArray[Any]] = {}

    @property
    def trees(self) -> tuple[Tree, ...]:
        """Those that were grown together so far."""
        return self.part().trees

    @property
    def loss(self) -> float:
        """Of the validation rows, after the trees so far; NaN without such rows."""
        losses = self._kept_losses if self._boosted is None else self._boosted.losses
        return losses[-1] if losses else np.nan

    @property
    def _kept_losses(self) -> tuple[float, ...]:
        return tuple(self._kept["losses"].tolist()) if self._kept else ()

    @property
    def carried(self) -> Mapping[str, NDArray[Any]]:
        """The trees so far, with what the next one is grown on."""
        if self._boosted is None:
            return self._kept
        losses = np.array(self._boosted.losses, dtype=np.float64)
        return {**self.part().arrays(), "margins": self._boosted.margins, "losses": losses}

    @carried.setter
    def carried(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on behind these trees; the plan is asked for again."""
        self._boosted, self._kept = None, arrays
        self.owned.splits[:] = self.part().splits

    def step(self, batch: IntArray) -> Step:
        """Grow one tree."""
        if self._boosted is None:
            plan = yield AskPlan()
            if self._kept:
                part = self.part()
                model = TreeModel(0.0, part.trees, self._kept_losses, part.before)
                self._boosted = BoostedSoFar.resumed(self._labels, plan, model, self._kept["margins"])
            else:
                self._boosted = BoostedSoFar.behind_own_trees(self._labels, plan, self.owned)
        yield from self._boosted.further_tree()

    def part(self) -> TreesPart:
        """Give all trees, with the leaves' weights."""
        if self._boosted is None:
            own = {name: array for name, array in self._kept.items() if name not in ("margins", "losses")}
            return TreesPart.of(own) if own else TreesPart(0, (), (), 0.0)
        model = self._boosted.model
        return TreesPart(0, model.trees, tuple(self.owned.splits), model.first_margin, model.before)


class PassiveHalf(_Half):
    """The half of a party without labels."""

    def __init__(self, owned: OwnedColumns, features: int) -> None:
        super().__init__(owned, features)
        self._trees: list[Tree] = []
        self._place = 1

    @property
    def trees(self) -> tuple[Tree, ...]:
        """Those so far."""
        return tuple(self._trees)

    @property
    def carried(self) -> Mapping[str, NDArray[Any]]:
        """The trees so far, and the session's numbers of the columns."""
        return {**self.part().arrays(), "order": self.owned.order}

    @carried.setter
    def carried(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on behind these trees."""
        part = TreesPart.of({name: array for name, array in arrays.items() if name != "order"})
        self._place, self._trees = part.place, list(part.trees)
        self.owned.splits[:], self.owned.order = part.splits, arrays["order"]

    def step(self, batch: IntArray) -> Step:
        """Take part in one tree."""
        followed: FollowedTree = yield FollowTree()
        self._place = followed.place
        self._trees.append(Tree(dict(followed.splits), {}))

    def part(self) -> TreesPart:
        """Give all trees, with the party's own splits."""
        return TreesPart(self._place, tuple(self._trees), tuple(self.owned.splits))
