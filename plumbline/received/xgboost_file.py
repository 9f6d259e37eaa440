"""XGBoost's models as it saves them in JSON: boosted trees of one output, read without XGBoost.

Schema: https://xgboost.readthedocs.io/en/stable/tutorials/saving_model.html. It computes in float32, and so do we.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict
from scipy.special import expit, logit
from typing_extensions import TypedDict

from plumbline.received.model_files import numbers_of
from services.common.run_files import RunFolderError, parsed, read_json
from vfl.arrays import FloatArray, IntArray
from vfl.data.faults import TableError, counted

if TYPE_CHECKING:
    import pandas as pd

AGAIN = "Save it again, with save_model('model.json')."
# What an objective makes of the sum of leaves; the base score is kept on the scale of the prediction.
_LOGISTIC = ("binary:logistic", "reg:logistic")
_EXPONENTIAL = ("count:poisson", "reg:gamma", "reg:tweedie")
_IDENTITY = ("reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:squaredlogerror")


class _Tree(TypedDict):
    __pydantic_config__ = ConfigDict(extra="ignore")  # type: ignore[misc]
    left_children: list[int]
    right_children: list[int]
    split_indices: list[int]
    split_conditions: list[float]
    default_left: list[int]
    categories: list[int]


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree, by (nodes,) arrays.

    Attributes:
        left: children whose cell is less than the threshold; -1 of a leaf.
        right: the others.
        column: whose cell is compared.
        threshold: what it is compared with, or the leaf's value.
        gaps_left: whether a gap goes left.
    """

    left: IntArray
    right: IntArray
    column: IntArray
    threshold: NDArray[np.float32]
    gaps_left: IntArray

    @classmethod
    def of(cls, content: _Tree, columns: int) -> "Tree":
        """Check what was read: children are nodes that no other node has, so that every path ends.

        Raises:
            TableError: for a tree that isn't one, and for splits by categories.
        """
        if content["categories"]:
            raise TableError("--model splits by categories, which isn't read: train it on numbers.")
        left_children, right, column, gaps_left = (
            np.array(one, dtype=np.int64)
            for one in (
                content["left_children"],
                content["right_children"],
                content["split_indices"],
                content["default_left"],
            )
        )
        tree = cls(left_children, right, column, np.array(content["split_conditions"], dtype=np.float32), gaps_left)
        if len({len(one) for one in vars(tree).values()}) != 1 or not len(left_children) or not tree._ends(columns):
            raise TableError(f"--model is broken: a tree has no proper nodes. {AGAIN}")
        return tree

    def _ends(self, columns: int) -> bool:
        inner = self.left >= 0
        children, column = np.concatenate([self.left[inner], self.right[inner]]), self.column[inner]
        there = ((children > 0) & (children < len(self.left))).all() and ((column >= 0) & (column < columns)).all()
        return bool(there) and len(np.unique(children)) == len(children)

    def leaves(self, cells: NDArray[np.float32]) -> IntArray:
        """Follow (n, columns) cells to their leaves: (n,) numbers of nodes."""
        rows, node = np.arange(len(cells)), np.zeros(len(cells), dtype=np.int64)
        while (self.left[node] >= 0).any():
            cell = cells[rows, self.column[node]]
            goes_left = np.where(np.isnan(cell), self.gaps_left[node] != 0, cell < self.threshold[node])
            below = np.where(goes_left, self.left[node], self.right[node])
            node = np.where(self.left[node] >= 0, below, node)
        return node


@dataclass(frozen=True, eq=False)
class XgboostModel:
    """Boosted trees of one output.

    Attributes:
        inputs: names of the columns that it reads.
        trees: in the order of boosting.
        base: what leaves are added to, on the scale of the sum.
        objective: XGBoost's name of it.
    """

    inputs: tuple[str, ...]
    trees: tuple[Tree, ...]
    base: float
    objective: str

    @property
    def assumed(self) -> str:
        """What its reader takes for granted."""
        return f"XGBoost's {self.objective}: all of its {counted(len(self.trees), 'tree')}, no early stopping."

    def scores(self, cells: "pd.DataFrame") -> Mapping[str, FloatArray]:
        """Compute predictions, (n,), and the sums of leaves that they are made of."""
        total = np.full(len(cells), self.base, dtype=np.float32)
        for tree, nodes in zip(self.trees, self.leaves(cells).T, strict=True):
            total += tree.threshold[nodes]
        margin = total.astype(np.float64)
        if self.objective in _LOGISTIC:
            return {"score": expit(margin), "margin": margin}
        return {"score": np.exp(margin) if self.objective in _EXPONENTIAL else margin, "margin": margin}

    def leaves(self, cells: "pd.DataFrame") -> IntArray:
        """Find the leaf of each tree, (n, trees): numbers of nodes, as XGBoost's ``pred_leaf`` has them."""
        inputs = np.column_stack([numbers_of(cells, name) for name in self.inputs]).astype(np.float32)
        leaves: IntArray = np.column_stack([tree.leaves(inputs) for tree in self.trees])
        return leaves


@dataclass(frozen=True)
class XgboostReader:
    """Reads what XGBoost saves as JSON."""

    def read(self, path: Path) -> XgboostModel | None:
        """Read boosted trees; None for another file.

        Raises:
            RunFolderError: for a file that is broken.
            TableError: for a model that isn't read: of several outputs, another booster, without names of columns.
        """
        if path.suffix.lower() != ".json":
            return None
        content = read_json(path, AGAIN, AGAIN)
        if not isinstance(content, dict) or not isinstance(learner := content.get("learner"), dict):
            return None
        try:
            return _model_of(learner, path)
        except (TableError, RunFolderError):
            raise
        except (KeyError, TypeError, ValueError):
            raise TableError(f"--model {path.name} isn't as XGBoost writes it. {AGAIN}") from None


def _model_of(learner: Mapping[str, Any], path: Path) -> XgboostModel:
    booster, shape = learner["gradient_booster"], learner["learner_model_param"]
    objective, names = str(learner["objective"]["name"]), tuple(map(str, learner.get("feature_names", ())))
    objectives = (*_LOGISTIC, *_EXPONENTIAL, *_IDENTITY)
    if booster["name"] != "gbtree" or objective not in objectives:
        raise TableError(
            f"--model is read of boosted trees (gbtree) with one of these objectives: {', '.join(objectives)}."
        )
    if int(shape["num_class"]) > 1 or int(shape.get("num_target", 1)) > 1:
        raise TableError("--model has several outputs, and one of a single output is read.")
    if not names:
        raise TableError("--model doesn't name its columns: train it on a data frame, and save it again.")
    trees = parsed(list[_Tree], booster["model"]["trees"], path, AGAIN)
    if not trees:
        raise TableError(f"--model has no trees. {AGAIN}")
    base = float(str(shape["base_score"]).strip("[]"))
    base = float(logit(base)) if objective in _LOGISTIC else float(np.log(base)) if objective in _EXPONENTIAL else base
    return XgboostModel(names, tuple(Tree.of(one, len(names)) for one in trees), base, objective)
