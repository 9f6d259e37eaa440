"""A party's side with an adversary beside it, who hears what the learner asks and how it is answered."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

import numpy as np

from attacks.told_bins import MOST_ROWS, NodeSums
from services.party.side import Side, SideSetting, StepAnswers
from services.shared_weights.shared_terms import SharedTerms
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.sharing.shares import Shares
from vfl.learning import Ask, Forward, Send
from vfl.learning.learner import Request
from vfl.learning.trees import BeginTree, Histograms, NodeRows
from vfl.learning.trees.boosted_trees import AskPlan, FollowTree


class Listener(Protocol):
    """What is heard beside a side; what peers' messages say is on its tape."""

    def own_share(self, step: int, share: FloatArray) -> None:
        """Compute the party's share of a step, before its own defences change it: (rows, columns) of the residual.

        Where a learner forwards, at a passive party: its products, (rows, h).
        """

    def kept_sums(self, step: int, share: Shares) -> None:
        """Be left with a (d, columns) share of X^T f, of the party's own features."""

    def followed(self, step: int, leaves: IntArray) -> None:
        """Follow a tree, at a passive party: which leaf each row has reached, (n,)."""

    def told_sums(self, step: int, peer: str, column: int, sums: NodeSums) -> None:
        """Be told a node's sums over the bins of a peer's column, by its number in the session; at the label party."""


def listening(setting: SideSetting, side: Side, listener: Listener) -> Side:
    """Put an adversary beside a side."""
    return cast(Side, _ListeningSide(setting, side, listener))


class _ListeningSide:
    def __init__(self, setting: SideSetting, side: Side, listener: Listener) -> None:
        self._setting, self._side, self._listener = setting, side, listener
        agreement = setting.agreement
        self._forwards = agreement.plan.family.spec.forwards
        self._is_label_party = setting.name == agreement.active.name
        self._tree_plan: Any = None
        self._derivatives = np.zeros((0, 2), dtype=np.int64)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._side, name)

    @contextmanager
    def step(self, step: int, batch: IntArray) -> Iterator[StepAnswers]:
        """Begin a step, and hear its requests."""
        with self._side.step(step, batch) as answers:
            yield cast(StepAnswers, _HeardAnswers(self, step, answers))

    def hear(self, step: int, rows: IntArray, request: Request, answer: Any) -> None:
        """Hear a request, and what it was answered with."""
        values: Any
        match request:
            case Send(values) if not isinstance(values, Shares):
                self._listener.own_share(step, np.array(values, dtype=np.float64))
            case Forward(values) if self._forwards and not self._is_label_party and not isinstance(values, Shares):
                self._listener.own_share(step, self._setting.gridded.values[rows] @ values)
            case Ask() if isinstance(answer, Shares) and not (self._forwards and self._is_label_party):
                self._listener.kept_sums(step, answer[self._own] if not self._forwards else answer)
            case AskPlan():
                self._tree_plan = answer
            case BeginTree():
                self._derivatives = request.gradients.values
            case Histograms(nodes):
                self._hear_sums(step, nodes, answer)
            case FollowTree():
                self._listener.followed(step, answer.leaves)

    def _hear_sums(self, step: int, nodes: Sequence[NodeRows], told: Sequence[IntArray]) -> None:
        """Hear each other party's prefix sums, (nodes, columns, max_bin, 2), as those of bins; what is missing last."""
        if len(self._derivatives) > MOST_ROWS:
            return
        for place, party in enumerate(self._setting.agreement.parties[1:], start=1):
            columns = self._tree_plan.sampled_columns(step, place)
            for node, prefixes in zip(nodes, told[place], strict=True):
                values = self._derivatives[node.summed]
                for column, of_column in zip(columns.tolist(), prefixes, strict=True):
                    by_bin = np.vstack([np.diff(of_column, axis=0, prepend=0), values.sum(axis=0) - of_column[-1]])
                    self._listener.told_sums(step, party.name, column, NodeSums(node.summed, values, by_bin))

    @property
    def _own(self) -> Any:
        """Where a party's own features are among all that it has shares of."""
        return SharedTerms(self._setting.agreement).places(self._setting.name)[self._setting.name]


class _HeardAnswers:
    def __init__(self, side: _ListeningSide, number: int, answers: StepAnswers) -> None:
        self._side, self._number, self._answers = side, number, answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._answers, name)

    def answer(self, request: Request) -> Any:
        """Answer as the side does."""
        answer = self._answers.answer(request)
        self._side.hear(self._number, self.rows, request, answer)
        return answer
