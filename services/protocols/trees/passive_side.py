"""A passive party's side of trees: it adds up ciphertexts over its bins, divides by its columns, and follows routes."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from services.common.errors import InvalidMessage, OutOfOrder
from services.protocols.trees.tree_messages import (
    CLEAR,
    NodeDivided,
    SplitChosen,
    TreeTerms,
    read_clear,
    read_left,
)
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import Engine, InvalidCiphertext, PublicKey, check_ciphertexts, from_bytes, to_bytes
from vfl.crypto.bin_sums import bin_products, pack_sums, prefix_products
from vfl.learning.trees import Candidate, NodeRows, OwnedColumns
from vfl.learning.trees.growing import asked_of
from vfl.learning.trees.owned_columns import Split, drawn_order
from vfl.learning.trees.tree_requests import ChoosesSums, OtherSums


class PassiveSide:
    """One passive party while trees grow. Whatever is refused leaves it as it was.

    Attributes:
        owned: its columns and the splits that it made.
        trees: of each, by node, (party, that party's split number); predictions need no more of the others.
        chooses: an adversary's sums and sides in place of its columns'; None for an honest party.
        reached: (n,) the number of each row's node in the tree that grows; 0 for rows that are in no tree.
    """

    def __init__(
        self,
        terms: TreeTerms,
        name: str,
        table: FloatArray,
        public_key: PublicKey | None,
        engine: Engine | None = None,
        owned: OwnedColumns | None = None,
        grown: Sequence[Mapping[int, tuple[int, int]]] = (),
    ) -> None:
        """Begin a training, or go on behind trees.

        Args:
            terms: that all parties know.
            name: the party's.
            table: (n, d) its own columns.
            public_key: the label party's; None where everything travels in the clear.
            engine: what computes.
            owned: the columns in bins, where a learner has made them.
            grown: of each tree that is grown already, by node, (party, that party's split number).
        """
        self._terms, self._plan = terms, terms.plan
        if name not in terms.names[1:]:
            raise InvalidMessage(f"{name} is none of the session's passive parties, {', '.join(terms.names[1:])}.")
        self._name, self._place = name, terms.names.index(name)
        self._public_key, self._engine = public_key, engine or Engine()
        if table.shape[1] != self._plan.columns[self._place]:
            raise InvalidMessage(
                f"{name} has agreed on {self._plan.columns[self._place]} columns, its table has {table.shape[1]}."
            )
        self.owned = owned or OwnedColumns.of(
            table, self._plan.trained, self._plan.options, drawn_order(table.shape[1])
        )
        self.trees = [dict(tree) for tree in grown]
        self.chooses: ChoosesSums | None = None
        self.reached: IntArray = np.zeros(len(table), dtype=np.int64)
        self._columns: IntArray = np.zeros(0, dtype=np.int64)
        self._ciphertexts: dict[int, int] = {}
        self._clear: IntArray = np.zeros((0, 2), dtype=np.int64)
        # The level's nodes, each with its sibling.
        self._pairs: list[tuple[NodeRows, ...]] = []
        self._divided: list[NodeDivided] | None = None
        self._splits_of = Counter(party for tree in grown for party, _ in tree.values())

    @property
    def asked(self) -> tuple[NodeRows, ...]:
        """The nodes of the level whose sums the label party needs; none where the tree is whole."""
        return asked_of(self._pairs, self._plan.options)

    def begin(self, tree: int, derivatives: bytes) -> None:
        """Begin a tree, as `Peer` says.

        Raises:
            OutOfOrder: for another one than the next.
            InvalidMessage: for what aren't as many derivatives as rows are summed.
        """
        if tree != len(self.trees) or tree >= self._plan.options.n_estimators:
            raise OutOfOrder(f"Tree {tree} doesn't begin here now: {len(self.trees)} have.")
        root = self._plan.root(tree)
        count, width = len(root.summed), self._terms.ciphertext_bytes
        what = f"The label party's derivatives of tree {tree}"
        if self._public_key is None:
            values = read_clear(derivatives, count, what)
            self._clear = np.zeros((len(self.reached), 2), dtype=np.int64)
            self._clear[root.summed] = values
        else:
            try:
                ciphertexts = from_bytes(derivatives, count, width)
                check_ciphertexts(self._public_key, ciphertexts, count)
            except InvalidCiphertext as error:
                raise InvalidMessage(f"{what} can't be read: {error}") from None
            self._ciphertexts = dict(zip(root.summed.tolist(), ciphertexts, strict=True))
        self.trees.append({})
        self._columns = self._plan.sampled_columns(tree, self._place)
        self.reached = np.zeros_like(self.reached)
        self._stand_at([(root,)])

    def _stand_at(self, pairs: list[tuple[NodeRows, ...]]) -> None:
        self._pairs, self._divided = pairs, None
        for node in (child for pair in pairs for child in pair):
            self.reached[node.routed] = node.number

    def sums(self) -> bytes:
        """Give the level's prefix sums, as `Peer` says. Raises OutOfOrder where none are due."""
        nodes, max_bin = self.asked, self._plan.options.max_bin
        if not nodes:
            raise OutOfOrder(f"No node's sums are due: {self._name} knows of none that could be divided.")
        rows = np.repeat([len(node.summed) for node in nodes], len(self._columns) * max_bin)
        if self.chooses is not None:
            return self._other_sums(
                [self.chooses.sums(one, len(self._columns), self._plan.options) for one in nodes], rows
            )
        if self._public_key is None:
            return self.owned.sums(nodes, self._columns, self._clear).astype(CLEAR).tobytes()
        modulus, places = self._public_key.n_squared, max_bin + 1
        prefixes: list[int] = []
        for node in nodes:
            ciphertexts = [self._ciphertexts[row] for row in node.summed.tolist()]
            bins = self.owned.sampled_bins(node.summed, self._columns)
            products = bin_products(ciphertexts, bins, places, modulus, self._engine)
            prefixes += prefix_products(products, places, max_bin, modulus)
        return self._packed(prefixes, rows)

    def _other_sums(self, of_nodes: Sequence[OtherSums], rows: IntArray) -> bytes:
        """Give what an adversary chose in place of bins' sums."""
        count = len(rows) // len(of_nodes)
        if self._public_key is None:
            clear = np.zeros((len(of_nodes), count, 2), dtype=CLEAR)
            for sums, one in zip(clear, of_nodes, strict=True):
                signed = one.signs @ self._clear[one.rows]
                sums[: len(signed)] = self._clear[one.base].sum(axis=0) + signed + one.added
            return clear.tobytes()
        modulus, chosen = self._public_key.n_squared, list[int]()
        for one in of_nodes:
            base = _product([self._ciphertexts[row] for row in one.base.tolist()], modulus)
            ciphertexts = [self._ciphertexts[row] for row in one.rows.tolist()]
            pairs = [(pow(ciphertext, -1, modulus), ciphertext) for ciphertext in ciphertexts]
            for signs, added in zip((one.signs > 0).tolist(), self._terms.layout.plaintexts(one.added), strict=True):
                factors = [pair[sign] for pair, sign in zip(pairs, signs, strict=True)]
                chosen.append(_product([base, 1 + self._public_key.n * added, *factors], modulus))
            chosen += [1] * (count - len(one.signs))
        return self._packed(chosen, rows)

    def _packed(self, prefixes: Sequence[int], rows: IntArray) -> bytes:
        assert self._public_key is not None  # noqa: S101 - the callers have looked
        packed = pack_sums(prefixes, rows, self._terms.layout, self._public_key, self._engine)
        return to_bytes(packed, self._terms.ciphertext_bytes)

    def divide(self, splits: Sequence[SplitChosen]) -> list[NodeDivided]:
        """Divide nodes of the level, once, as `Peer` says.

        Raises:
            OutOfOrder: for a second time.
            InvalidMessage: for nodes, numbers, columns or bins that aren't there, and for too few rows on a side.
        """
        if self._divided is not None:
            raise OutOfOrder(f"{self._name} has divided its nodes of this level.")
        nodes, first = self._divisible, len(self.owned.splits)
        try:
            divided = [self._divide(_taken(nodes, chosen.node), chosen) for chosen in splits]
        except InvalidMessage:
            del self.owned.splits[first:]
            raise
        self._divided = divided
        return divided

    def _divide(self, node: NodeRows, chosen: SplitChosen) -> NodeDivided:
        _check_next(self._name, len(self.owned.splits), chosen.split)
        max_bin = self._plan.options.max_bin
        if not (0 <= chosen.column < len(self._columns) and 0 <= chosen.bin < max_bin):
            raise InvalidMessage(
                f"{self._name} has {len(self._columns)} columns of {max_bin} bins in this tree, and none at column "
                f"{chosen.column}, bin {chosen.bin}."
            )
        candidate = Candidate(self._place, chosen.column, chosen.bin, chosen.missing_left)
        try:
            if self.chooses is not None:
                left = self.chooses.left(node, candidate)
                self.owned.splits.append(Split(0, 0.0, missing_left=False))
            else:
                left = self.owned.divide(node, candidate, self._columns, self._plan.options)
        except ValueError as error:
            raise InvalidMessage(f"{self._name} won't divide: {error}") from None
        return NodeDivided(chosen.node, self._place, chosen.split, np.packbits(left).tobytes())

    def follow(self, divided: Sequence[NodeDivided]) -> None:
        """Go on to the next level, as `Peer` says.

        Raises:
            InvalidMessage: for nodes that aren't there, other divisions than this party's by this one, a party without
                columns, a number that isn't its next, and as ``read_left``.
        """
        nodes, splits_of, pairs = self._divisible, self._splits_of.copy(), list[tuple[NodeRows, ...]]()
        if [one for one in divided if one.party == self._place] != (self._divided or []):
            raise InvalidMessage(f"{self._name} has divided other nodes of this level, or otherwise.")
        for one in divided:
            node = _taken(nodes, one.node)
            if not 0 <= one.party < len(self._terms.names) or not self._plan.columns[one.party]:
                raise InvalidMessage(f"Party {one.party} owns no column of this session, and can't divide a node.")
            _check_next(self._terms.names[one.party], splits_of[one.party], one.split)
            splits_of[one.party] += 1
            pairs.append(node.divided(read_left(one, node, self._terms)))
        self.trees[-1].update((one.node, (one.party, one.split)) for one in divided)
        self._splits_of = splits_of
        self._stand_at(pairs)

    @property
    def _divisible(self) -> dict[int, NodeRows]:
        """The nodes of the level that may be divided, by number."""
        nodes = (node for pair in self._pairs for node in pair)
        return {node.number: node for node in nodes if node.is_divisible(self._plan.options)}


def _taken(nodes: dict[int, NodeRows], number: int) -> NodeRows:
    """Take a node out of those that are still to be divided."""
    if number not in nodes:
        raise InvalidMessage(f"The tree has no node {number} that is still to be divided.")
    return nodes.pop(number)


def _check_next(party: str, made: int, number: int) -> None:
    if number != made:
        raise InvalidMessage(f"{party} has made {made} splits: number {number} isn't its next one.")


def _product(numbers: Sequence[int], modulus: int) -> int:
    return prefix_products([1, *numbers], len(numbers) + 1, len(numbers) + 1, modulus)[-1]
