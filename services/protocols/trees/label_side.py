"""The label party's side of trees: it encrypts derivatives, reads sums, and says who divides which node.

Only the split depends on what it decrypts. Sums that no rows can have gain nothing, and nothing is said of them: an
error would tell whoever sent them what they decrypt to.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from services.common.errors import InvalidMessage
from services.protocols.trees.tree_messages import (
    CLEAR,
    BinSums,
    NodeDivided,
    NodesDivided,
    Peer,
    SplitChosen,
    SplitsChosen,
    SumsAsked,
    TreeGradients,
    TreeTerms,
    check_divided,
    read_clear,
    splits_made,
)
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.crypto import Engine, InvalidCiphertext, PrivateKey, check_ciphertexts, from_bytes, to_bytes
from vfl.crypto.bin_sums import encrypt_pairs
from vfl.learning.trees import BeginTree, Divide, Division, Histograms, NodeRows, OwnedColumns, TreeModel, boost


class LabelSide:
    """The label party while trees grow.

    Attributes:
        owned: its columns and the splits that it made.
        once: gives a tree's derivatives as they were sent before an interruption, or makes them.
    """

    def __init__(
        self,
        terms: TreeTerms,
        table: FloatArray,
        private_key: PrivateKey | None,
        peers: Mapping[str, Peer],
        engine: Engine | None = None,
        owned: OwnedColumns | None = None,
        grown: Sequence[Mapping[int, tuple[int, int]]] = (),
    ) -> None:
        """Begin a training, or go on behind trees.

        Args:
            terms: that all parties know.
            table: (n, d) the party's own columns; d may be 0.
            private_key: of the session; None where everything travels in the clear.
            peers: the other parties, by their names.
            engine: what computes.
            owned: the columns in bins, where a learner has made them.
            grown: of each tree that is grown already, by node, (party, that party's split number).
        """
        self._terms, self._plan = terms, terms.plan
        self._name, *others = terms.names
        if set(peers) != set(others) or table.shape[1] != self._plan.columns[0]:
            raise InvalidMessage(f"Expected {self._plan.columns[0]} columns, and the parties {', '.join(others)}.")
        self._peers = {name: peers[name] for name in others}
        self._private_key, self._engine = private_key, engine or Engine()
        self.owned = owned or OwnedColumns.of(table, self._plan.trained, self._plan.options)
        self.once: Callable[[int, Callable[[], bytes]], bytes] = lambda _, make: make()
        self._tree = -1
        self._values: IntArray = np.zeros((0, 2), dtype=np.int64)
        self._columns: list[IntArray] = []
        self._splits_of = splits_made(terms, grown)

    def train(self, labels: IntArray) -> TreeModel:
        """Grow all trees. Raises ValueError for labels of other than two classes."""
        program = boost(labels, self._plan, self.owned)
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
        message = TreeGradients(self._tree, self.once(self._tree, lambda: self._encrypted(summed)))
        for peer in self._peers.values():
            peer(message)

    def _encrypted(self, summed: IntArray) -> bytes:
        if self._private_key is None:
            return summed.astype(CLEAR).tobytes()
        ciphertexts = encrypt_pairs(self._private_key, summed, self._terms.layout, self._engine)
        return to_bytes(ciphertexts, self._terms.ciphertext_bytes)

    def _sums(self, nodes: Sequence[NodeRows]) -> list[IntArray]:
        """Give each party's sums, (nodes, columns, max_bin, 2)."""
        asked = SumsAsked(self._tree, tuple(node.number for node in nodes))
        sums = [self.owned.sums(nodes, self._columns[0], self._values)]
        for columns, (name, peer) in zip(self._columns[1:], self._peers.items(), strict=True):
            shape = (len(nodes), len(columns), self._plan.options.max_bin)
            rows = np.repeat([len(node.summed) for node in nodes], shape[1] * shape[2])
            sums.append(self._read(name, peer(asked), rows).reshape(*shape, 2))
        return sums

    def _read(self, name: str, reply: object, rows: IntArray) -> IntArray:
        if not isinstance(reply, BinSums) or reply.tree != self._tree:
            raise InvalidMessage(f"{name} was asked for sums of tree {self._tree}, and sent something else.")
        what = f"{name}'s sums of tree {self._tree}"
        if self._private_key is None:
            return read_clear(reply.ciphertexts, len(rows), what)
        layout = self._terms.layout
        count = layout.ciphertexts_for(len(rows))
        try:
            ciphertexts = from_bytes(reply.ciphertexts, count, self._terms.ciphertext_bytes)
            check_ciphertexts(self._private_key.public_key, ciphertexts, count)
        except InvalidCiphertext as error:
            raise InvalidMessage(f"{what} can't be read: {error}") from None
        return layout.read(self._engine.decrypt(self._private_key, ciphertexts), rows)

    def _divide(self, request: Divide) -> list[BoolArray]:
        """Have each owner divide its nodes of a level, and tell all of all."""
        found: dict[int, NodeDivided] = {}
        for place, name in enumerate(self._terms.names):
            own = [one for one in request.divisions if one.candidate.party == place]
            for divided in self._divided_by(name, own):
                found[divided.node] = divided
        lefts = []
        for one in request.divisions:
            divided = found[one.node.number]
            lefts.append(check_divided(divided, one.node, self._terms, self._splits_of))
            self._splits_of[divided.party] += 1
        message = NodesDivided(self._tree, tuple(found[one.node.number] for one in request.divisions))
        for peer in self._peers.values():
            peer(message)
        return lefts

    def _divided_by(self, name: str, divisions: Sequence[Division]) -> tuple[NodeDivided, ...]:
        if name == self._name:
            return tuple(
                NodeDivided(
                    self._tree,
                    one.node.number,
                    name,
                    one.split,
                    np.packbits(
                        self.owned.divide(one.node, one.candidate, self._columns[0], self._plan.options)
                    ).tobytes(),
                )
                for one in divisions
            )
        chosen = tuple(
            SplitChosen(
                self._tree,
                one.node.number,
                one.split,
                one.candidate.column,
                one.candidate.bin,
                one.candidate.missing_left,
            )
            for one in divisions
        )
        reply = self._peers[name](SplitsChosen(self._tree, chosen))
        asked = [(self._tree, one.node, name) for one in chosen]
        if not isinstance(reply, NodesDivided) or [(one.tree, one.node, one.party) for one in reply.nodes] != asked:
            where = f"{len(chosen)} nodes of tree {self._tree}"
            raise InvalidMessage(f"{name} was asked to divide {where}, and has answered something else.")
        return reply.nodes
