"""A label party and passive ones that grow trees under real ciphertexts, in one process."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from services.protocols.trees.label_side import LabelSide
from services.protocols.trees.passive_side import PassiveSide
from services.protocols.trees.tree_messages import (
    Message,
    NodeDivided,
    NodesDivided,
    Peer,
    Reply,
    SplitsChosen,
    TreeTerms,
)
from tests.harness.keys import KeyPair
from tests.harness.tree_tables import TreeTable
from vfl.learning.trees import OwnedColumns, TreeModel, TreePlan, train_in_plain

Lie = Callable[[Message, Reply], Reply]


@dataclass(eq=False)
class TreeSession:
    """All sides of a training; the first table is the label party's.

    Attributes:
        heard: every message to a passive party, with its answer.
    """

    table: TreeTable
    plan: TreePlan
    keys: KeyPair
    lie: Lie = lambda message, reply: reply
    heard: list[tuple[str, Message, Reply]] = field(default_factory=list)

    def __post_init__(self) -> None:
        public_key, private_key = self.keys
        names = ("bank", *(f"fintech {number}" for number in range(1, len(self.table.tables))))
        self.terms = TreeTerms(names, self.plan, public_key.bits)
        self.passive = {
            name: PassiveSide(self.terms, name, table, public_key)
            for name, table in zip(names[1:], self.table.tables[1:], strict=True)
        }
        peers = {name: self._peer(name, side) for name, side in self.passive.items()}
        self.label = LabelSide(self.terms, self.table.tables[0], private_key, peers)

    def _peer(self, name: str, side: PassiveSide) -> Peer:
        def send(message: Message) -> Reply:
            if isinstance(message, SplitsChosen):
                divided = [send(one) for one in message.splits]
                return NodesDivided(message.tree, tuple(one for one in divided if isinstance(one, NodeDivided)))
            if isinstance(message, NodesDivided):
                for one in message.nodes:
                    if one.party != name:
                        send(one)
                return None
            reply = self.lie(message, side.receive(message))
            self.heard.append((name, message, reply))
            return reply

        return send

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
