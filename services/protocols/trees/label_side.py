"""The label party's side of trees: it encrypts derivatives, reads sums, and says who divides which node.

Only the split depends on what it decrypts. Sums that no rows can have gain nothing, and nothing is said of them: an
error would tell whoever sent them what they decrypt to.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from services.common.errors import InvalidMessage
from services.protocols.trees.tree_messages import (
    BinSums,
    NodeDivided,
    Peer,
    SplitChosen,
    SumsAsked,
    TreeGradients,
    TreeTerms,
    check_divided,
)
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.crypto import Engine, InvalidCiphertext, PrivateKey, check_ciphertexts, from_bytes, to_bytes
from vfl.crypto.bin_sums import encrypt_pairs
from vfl.learning.trees import BeginTree, Divide, Histograms, NodeRows, OwnedColumns, TreeModel, boost


class LabelSide:
    """The label party while trees grow.

    Attributes:
        owned: its columns and the splits that it made.
    """

    def __init__(
        self,
        terms: TreeTerms,
        table: FloatArray,
        private_key: PrivateKey,
        peers: Mapping[str, Peer],
        engine: Engine | None = None,
    ) -> None:
        """Begin a training.

        Args:
            terms: that all parties know.
            table: (n, d) the party's own columns; d may be 0.
            private_key: of the session.
            peers: the other parties, by their names.
            engine: what computes.
        """
        self._terms, self._plan = terms, terms.plan
        self._name, *others = terms.names
        if set(peers) != set(others) or table.shape[1] != self._plan.columns[0]:
            raise InvalidMessage(f"Expected {self._plan.columns[0]} columns, and the parties {', '.join(others)}.")
        self._peers = {name: peers[name] for name in others}
        self._private_key, self._engine = private_key, engine or Engine()
        self.owned = OwnedColumns.of(table, self._plan.trained, self._plan.options)
        self._tree = -1
        self._values: IntArray = np.zeros((0, 2), dtype=np.int64)
        self._columns: list[IntArray] = []
        self._splits_of = dict.fromkeys(terms.names, 0)

    def train(self, labels: IntArray) -> TreeModel:
        """Grow all trees. Raises ValueError for labels of other than two classes."""
        program = boost(labels, self._plan)
        answer: Any = None
        try:
            while True:
                answer = self.answer(program.send(answer))
        except StopIteration as ended:
            model: TreeModel = ended.value
            return model

    def answer(self, request: BeginTree | Histograms | Divide) -> Any:
        """Answer what growing a tree asks for. Raises InvalidMessage for what another party says wrongly."""
        if isinstance(request, BeginTree):
            return self._begin(request)
        if isinstance(request, Histograms):
            return self._sums(request.nodes)
        return self._divide(request)

    def _begin(self, begun: BeginTree) -> None:
        self._tree, self._values = begun.number, begun.gradients.values
        parties = range(len(self._terms.names))
        self._columns = [self._plan.sampled_columns(self._tree, party) for party in parties]
        summed = self._values[self._plan.root(self._tree).summed]
        ciphertexts = encrypt_pairs(self._private_key, summed, self._terms.layout, self._engine)
        message = TreeGradients(self._tree, to_bytes(ciphertexts, self._terms.ciphertext_bytes))
        for peer in self._peers.values():
            peer(message)

    def _sums(self, nodes: Sequence[NodeRows]) -> list[IntArray]:
        """Give each party's sums, (nodes, columns, max_bin, 2)."""
        asked = SumsAsked(self._tree, tuple(node.number for node in nodes))
        sums = [self.owned.sums(nodes, self._columns[0], self._values)]
        for columns, (name, peer) in zip(self._columns[1:], self._peers.items(), strict=True):
            shape = (len(nodes), len(columns), self._plan.options.max_bin)
            rows = np.repeat([len(node.summed) for node in nodes], shape[1] * shape[2])
            plaintexts = self._engine.decrypt(self._private_key, self._read(name, peer(asked), len(rows)))
            sums.append(self._terms.layout.read(plaintexts, rows).reshape(*shape, 2))
        return sums

    def _read(self, name: str, reply: object, sums: int) -> tuple[int, ...]:
        if not isinstance(reply, BinSums) or reply.tree != self._tree:
            raise InvalidMessage(f"{name} was asked for sums of tree {self._tree}, and sent something else.")
        count = self._terms.layout.ciphertexts_for(sums)
        try:
            ciphertexts = from_bytes(reply.ciphertexts, count, self._terms.ciphertext_bytes)
            check_ciphertexts(self._private_key.public_key, ciphertexts, count)
        except InvalidCiphertext as error:
            raise InvalidMessage(f"{name}'s sums of tree {self._tree} can't be read: {error}") from None
        return ciphertexts

    def _divide(self, request: Divide) -> BoolArray:
        node, candidate, party = request.node, request.candidate, request.candidate.party
        if party == 0:
            left = self.owned.divide(node, candidate, self._columns[0], self._plan.options)
            divided = NodeDivided(self._tree, node.number, self._name, request.split, np.packbits(left).tobytes())
        else:
            name = self._terms.names[party]
            chosen = SplitChosen(
                self._tree, node.number, request.split, candidate.column, candidate.bin, candidate.missing_left
            )
            reply = self._peers[name](chosen)
            if not isinstance(reply, NodeDivided) or (reply.tree, reply.node, reply.party) != (
                self._tree,
                node.number,
                name,
            ):
                where = f"node {node.number} of tree {self._tree}"
                raise InvalidMessage(f"{name} was asked to divide {where}, and has answered something else.")
            divided, left = reply, check_divided(reply, node, self._terms, self._splits_of)
        self._splits_of[divided.party] += 1
        for name, peer in self._peers.items():
            if name != divided.party:
                peer(divided)
        return left
