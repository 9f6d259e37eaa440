"""A label party and passive ones that grow trees under real ciphertexts, in one process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from services.protocols.trees.label_side import LabelSide
from services.protocols.trees.passive_side import PassiveSide
from services.protocols.trees.tree_messages import NodeDivided, SplitChosen, TreeTerms
from tests.harness.keys import KeyPair
from tests.harness.tree_tables import TreeTable
from vfl.learning.trees import OwnedColumns, TreeModel, TreePlan, train_in_plain

# Given what is called, and its honest answer.
Lie = Callable[[str, Any], Any]


@dataclass(eq=False)
class Told:
    """A call of a passive party: its name, its last argument if any, the nodes asked for then, and the answer."""

    party: str
    call: str
    said: Any
    asked: tuple[int, ...]
    answer: Any


@dataclass(eq=False)
class HeardPeer:
    """A passive party, whose answers may be changed on their way, and are noted."""

    session: "TreeSession"
    name: str
    side: PassiveSide

    def begin(self, tree: int, derivatives: bytes) -> None:
        self.side.begin(tree, derivatives)
        self._noted("begin", derivatives, None)

    def sums(self) -> Any:
        return self._noted("sums", None, self.side.sums())

    def divide(self, splits: Sequence[SplitChosen]) -> Any:
        return self._noted("divide", splits, self.side.divide(splits))

    def follow(self, divided: Sequence[NodeDivided]) -> None:
        self.side.follow(divided)
        self._noted("follow", divided, None)

    def _noted(self, call: str, said: Any, answer: Any) -> Any:
        asked = tuple(node.number for node in self.side.asked)
        answer = self.session.lie(call, answer)
        self.session.heard.append(Told(self.name, call, said, asked, answer))
        return answer


@dataclass(eq=False)
class TreeSession:
    """All sides of a training; the first table is the label party's.

    Attributes:
        heard: every call of a passive party, with its answer.
    """

    table: TreeTable
    plan: TreePlan
    keys: KeyPair
    lie: Lie = lambda call, answer: answer
    heard: list[Told] = field(default_factory=list)

    def __post_init__(self) -> None:
        public_key, private_key = self.keys
        names = ("bank", *(f"fintech {number}" for number in range(1, len(self.table.tables))))
        self.terms = TreeTerms(names, self.plan, public_key.bits)
        self.passive = {
            name: PassiveSide(self.terms, name, table, public_key)
            for name, table in zip(names[1:], self.table.tables[1:], strict=True)
        }
        peers = {name: HeardPeer(self, name, side) for name, side in self.passive.items()}
        self.label = LabelSide(self.terms, self.table.tables[0], private_key, peers)

    @property
    def sides(self) -> list[OwnedColumns]:
        return [self.label.owned, *(side.owned for side in self.passive.values())]

    def train(self) -> TreeModel:
        return self.label.train(self.table.labels)

    def train_plain_twin(self) -> tuple[TreeModel, list[OwnedColumns]]:
        """The same in plain numbers, with this session's numbering of columns."""
        owned = [
            OwnedColumns.of(table, self.plan.trained, self.plan.options, np.array(side.order))
            for table, side in zip(self.table.tables, self.sides, strict=True)
        ]
        return train_in_plain(self.table.labels, owned, self.plan), owned
