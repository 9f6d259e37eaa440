"""Labels by a passive party of boosted trees that sends other sums than its bins': which one is chosen names them.

A sum over the rows of a candidate may be any sum of what the label party has sent, with signs. Here each candidate
stands for one way to label some rows: it counts a row with the sign that its g has then, so that the true way sums up
to most and is chosen, whatever g are. Half of the node's rows and a large number are in all of them: the candidate
gains more than any honest one, and what h adds to either side cancels. As many rows are named as a split has bits.

Its own divisions are as it likes: any half of the rows goes left, another one in each tree, so that all g stay large.
Nothing in the protocol prevents any of it. Trees that are grown so say little: its session's model is the worse.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from attacks.base import AttackSpec
from attacks.training.recovered_labels import EstimatedLabels, last_epoch
from attacks.training_attack import RequestTerms
from attacks.training_views import TrainingView
from vfl.arrays import BoolArray, IntArray
from vfl.learning.learner import OwnRequest
from vfl.learning.trees import Candidate, NodeRows, TreeOptions
from vfl.learning.trees.tree_requests import FollowTree, OtherSums

# Of what a node's g could sum up to, the number in all of its sums: more than labels leave of it.
_SHARE = 0.3


@dataclass(frozen=True)
class ChosenSums:
    """Sends a sum for each way to label some rows, and reads labels off the one that is chosen."""

    name: ClassVar[str] = "chosen_sums"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="passive",
        phase="training",
        knowledge="agnostic",
        needs=(),
        source="ours",
        learners=("boosted_trees",),
        summary="names labels of chosen rows exactly, by other sums than its bins' of boosted trees",
        cost="seconds, and a session of its own",
        conduct="replaces_requests",
    )

    def ask(self, terms: RequestTerms) -> "NamedBySplits":
        """Begin a session."""
        return NamedBySplits()


class NamedBySplits:
    """What is sent in one session, and what it tells; in other sums' place a `ChoosesSums`."""

    def __init__(self) -> None:
        self._labels: dict[int, int] = {}
        # Of the tree that grows: by node, the rows whose ways of being labelled stand for candidates.
        self._sent: dict[int, IntArray] = {}
        self._bins = 0
        self._generator = np.random.default_rng(0)

    def asked(self, step: int, request: OwnRequest) -> OwnRequest:
        """Have other sums sent in a tree."""
        self._sent = {}
        return replace(request, chooses=self) if isinstance(request, FollowTree) else request

    def answered(self, step: int, request: OwnRequest, answer: object) -> object:
        """Go on with a tree as it is."""
        return answer

    def sums(self, node: NodeRows, columns: int, options: TreeOptions) -> OtherSums:
        """Give a sum for each way to label some rows of a node that aren't named yet."""
        count, self._bins = len(node.summed), options.max_bin
        # Signs may take every h of theirs from either side. What is left must prove enough rows, by the largest h.
        proof = options.min_rows_of_a_node * 3 // 2
        most = min((columns * options.max_bin).bit_length() - 1, count // 2 - proof)
        rows = np.array([row for row in node.summed.tolist() if row not in self._labels], dtype=np.int64)
        rows = rows[: max(0, most)] if len(rows) else node.summed[: max(0, most)]
        ways = np.arange(1 << len(rows)) if len(rows) else np.zeros(0, dtype=np.int64)
        self._sent[node.number] = rows
        # Ways of the same h are told apart by their numbers, or else they would be the same division.
        added = np.column_stack([np.full(len(ways), int(_SHARE * count * options.unit)), ways])
        return OtherSums(node.summed[::2], rows, np.where(ways[:, None] >> np.arange(len(rows)) & 1, 1, -1), added)

    def left(self, node: NodeRows, candidate: Candidate) -> BoolArray:
        """Read the labels that a choice stands for; where sums follow from a sibling's it says none."""
        way = candidate.column * self._bins + candidate.bin
        for place, row in enumerate(self._sent.get(node.number, np.zeros(0, dtype=np.int64)).tolist()):
            self._labels[row] = 1 - (way >> place & 1)
        half = self._generator.permutation(node.summed)[: len(node.summed) // 2]
        left: BoolArray = np.isin(node.routed, half, invert=True)
        return left

    def result(self, view: TrainingView) -> EstimatedLabels:
        """Name labels; all others are guessed to be as those are."""
        trained = np.unique(np.concatenate([step.rows for step in view.steps]))
        rows, labels = (np.array(list(of), dtype=np.int64) for of in (self._labels.keys(), self._labels.values()))
        probabilities = np.full((view.n, view.classes), np.nan)
        if len(rows):
            probabilities[trained] = np.bincount(labels, minlength=view.classes) / len(rows)
            probabilities[rows] = np.eye(view.classes)[labels]
        reason = "" if len(rows) else "No sums of this party were chosen: nodes have too few rows."
        return EstimatedLabels(
            probabilities, trained, last_epoch(view), float("nan"), {"labels_named": len(rows)}, reason
        )
