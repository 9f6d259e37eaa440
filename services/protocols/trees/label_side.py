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
    NodeDivided,
    Peer,
    SplitChosen,
    TreeTerms,
    read_clear,
    read_left,
)
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.crypto import Engine, InvalidCiphertext, PrivateKey, check_ciphertexts, from_bytes, to_bytes
from vfl.crypto.bin_sums import encrypt_pairs
from vfl.learning.trees import BeginTree, Divide, Division, Histograms, NodeRows, OwnedColumns, TreeModel, boost
from vfl.learning.trees.boosting import answered


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
    ) -> None:
        """Begin a training, or go on behind trees.

        Args:
            terms: that all parties know.
            table: (n, d) the party's own columns; d may be 0.
            private_key: of the session; None where everything travels in the clear.
            peers: the other parties, by their names.
            engine: what computes.
            owned: the columns in bins, where a learner has made them.
        """
        self._terms, self._plan = terms, terms.plan
        if set(peers) != set(terms.names[1:]) or table.shape[1] != self._plan.columns[0]:
            raise InvalidMessage(
                f"Expected {self._plan.columns[0]} columns, and the parties {', '.join(terms.names[1:])}."
            )
        self._peers = {name: peers[name] for name in terms.names[1:]}
        self._private_key, self._engine = private_key, engine or Engine()
        self.owned = owned or OwnedColumns.of(table, self._plan.trained, self._plan.options)
        self.once: Callable[[int, Callable[[], bytes]], bytes] = lambda _, make: make()
        self._tree = -1
        self._values: IntArray = np.zeros((0, 2), dtype=np.int64)
        self._columns: list[IntArray] = []

    def train(self, labels: IntArray) -> TreeModel:
        """Grow all trees. Raises ValueError for labels of other than two classes."""
        return answered(boost(labels, self._plan, self.owned), self.answer)

    def answer(self, request: BeginTree | Histograms | Divide) -> Any:
        """Answer what growing a tree asks for. Raises InvalidMessage for what another party says wrongly."""
        if isinstance(request, BeginTree):
            return self._begin(request)
        if isinstance(request, Histograms):
            return self._sums(request.nodes)
        return self._divide(request.divisions)

    def _begin(self, begun: BeginTree) -> None:
        self._tree, self._values = begun.number, begun.gradients.values
        self._columns = self._plan.columns_of(self._tree)
        summed = self._values[self._plan.root(self._tree).summed]
        derivatives = self.once(self._tree, lambda: self._encrypted(summed))
        for peer in self._peers.values():
            peer.begin(self._tree, derivatives)

    def _encrypted(self, summed: IntArray) -> bytes:
        if self._private_key is None:
            return summed.astype(CLEAR).tobytes()
        ciphertexts = encrypt_pairs(self._private_key, summed, self._terms.layout, self._engine)
        return to_bytes(ciphertexts, self._terms.ciphertext_bytes)

    def _sums(self, nodes: Sequence[NodeRows]) -> list[IntArray]:
        """Give each party's sums, (nodes, columns, max_bin, 2)."""
        sums = [self.owned.sums(nodes, self._columns[0], self._values)]
        for columns, (name, peer) in zip(self._columns[1:], self._peers.items(), strict=True):
            shape = (len(nodes), len(columns), self._plan.options.max_bin)
            rows = np.repeat([len(node.summed) for node in nodes], shape[1] * shape[2])
            sums.append(self._read(f"{name}'s sums of tree {self._tree}", peer.sums(), rows).reshape(*shape, 2))
        return sums

    def _read(self, what: str, content: bytes, rows: IntArray) -> IntArray:
        """Read sums over so many rows each, (sums, 2); whatever fills a message up behind them is passed over."""
        content = content[: self._terms.sums_bytes(len(rows))]
        if self._private_key is None:
            return read_clear(content, len(rows), what)
        layout = self._terms.layout
        count = layout.ciphertexts_for(len(rows))
        try:
            ciphertexts = from_bytes(content, count, self._terms.ciphertext_bytes)
            check_ciphertexts(self._private_key.public_key, ciphertexts, count)
        except InvalidCiphertext as error:
            raise InvalidMessage(f"{what} can't be read: {error}") from None
        return layout.read(self._engine.decrypt(self._private_key, ciphertexts), rows)

    def _divide(self, divisions: Sequence[Division]) -> list[BoolArray]:
        """Have each owner divide its nodes of a level, and tell all of all: which rows of each node go left."""
        own = [division for division in divisions if not division.candidate.party]
        by_node = {division.node.number: self._divided(division) for division in own}
        for place, (name, peer) in enumerate(self._peers.items(), start=1):
            theirs = [division for division in divisions if division.candidate.party == place]
            replies = peer.divide([_chosen(division) for division in theirs])
            if [reply[:3] for reply in replies] != [(one.node.number, place, one.split) for one in theirs]:
                where = f"{len(theirs)} nodes of tree {self._tree}"
                raise InvalidMessage(f"{name} was asked to divide {where}, and has answered something else.")
            by_node.update((reply.node, reply) for reply in replies)
        divided = [by_node[division.node.number] for division in divisions]
        lefts = [read_left(one, of.node, self._terms) for one, of in zip(divided, divisions, strict=True)]
        for peer in self._peers.values():
            peer.follow(divided)
        return lefts

    def _divided(self, division: Division) -> NodeDivided:
        left = self.owned.divide(division.node, division.candidate, self._columns[0], self._plan.options)
        return NodeDivided(division.node.number, 0, division.split, np.packbits(left).tobytes())


def _chosen(division: Division) -> SplitChosen:
    candidate = division.candidate
    return SplitChosen(division.node.number, division.split, candidate.column, candidate.bin, candidate.missing_left)
