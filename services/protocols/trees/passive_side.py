"""A passive party's side of trees: it adds up ciphertexts over its bins, divides by its columns, and follows routes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from services.common.errors import FederationError, InvalidMessage, OutOfOrder
from services.protocols.trees.tree_messages import (
    CLEAR,
    BinSums,
    Message,
    NodeDivided,
    NodesDivided,
    Reply,
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
from vfl.crypto import Engine, InvalidCiphertext, PublicKey, check_ciphertexts, from_bytes, to_bytes
from vfl.crypto.bin_sums import bin_products, pack_sums, prefix_products
from vfl.learning.trees import Candidate, NodeRows, OwnedColumns
from vfl.learning.trees.growing import ROOT, asked_of
from vfl.learning.trees.owned_columns import Split, drawn_order
from vfl.learning.trees.tree_requests import ChoosesSums, OtherSums


class PassiveSide:
    """One passive party while trees grow. Whatever is refused leaves it as it was.

    Attributes:
        owned: its columns and the splits that it made.
        trees: of each, by node, (party, that party's split number); predictions need no more of the others.
        chooses: an adversary's sums and sides in place of its columns'; None for an honest party.
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
        """Begin a training, or go on behind trees; arguments as `LabelSide`'s, with the label party's public key."""
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
        self._tree = len(grown) - 1
        self._columns: IntArray = np.zeros(0, dtype=np.int64)
        self._ciphertexts: dict[int, int] = {}
        self._clear: IntArray = np.zeros((0, 2), dtype=np.int64)
        self._nodes: dict[int, NodeRows] = {}
        self._splits_of = splits_made(terms, grown)
        self._answered: dict[tuple[object, ...], tuple[Message, Reply]] = {}

    def receive(self, message: Message) -> Reply:
        """Answer a message of the label party; the same one again with the same bytes.

        Raises:
            InvalidMessage: for what no honest label party says.
            OutOfOrder: for a message about another tree than the one that grows.
        """
        if isinstance(message, TreeGradients) and message.tree == self._tree + 1 < self._plan.options.n_estimators:
            self._begin(message)
            return None
        if message.tree != self._tree or self._tree < 0:
            turn = f"it is tree {self._tree}'s turn" if self._tree >= 0 else "no tree has begun"
            raise OutOfOrder(f"Tree {message.tree} doesn't grow here now: {turn}.")
        if isinstance(message, SplitsChosen):
            with self._whole_level():
                divided = [self.receive(one) for one in message.splits]
            return NodesDivided(message.tree, tuple(one for one in divided if isinstance(one, NodeDivided)))
        if isinstance(message, NodesDivided):
            with self._whole_level():
                for one in message.nodes:
                    if one.party != self._name or one.node not in self.trees[-1]:
                        self.receive(one)
            return None
        if message.key in self._answered:
            before, reply = self._answered[message.key]
            if message != before:
                raise InvalidMessage(
                    f"The label party contradicts what it said before about {message.key[0]} of tree {self._tree}."
                )
            return reply
        reply = self._answer(message)
        self._answered[message.key] = message, reply
        return reply

    @contextmanager
    def _whole_level(self) -> Iterator[None]:
        """Undo all divisions of a level where one of them is refused."""
        nodes, splits_of, answered = self._nodes, self._splits_of, self._answered
        splits, tree = len(self.owned.splits), dict(self.trees[-1])
        self._nodes, self._splits_of, self._answered = dict(nodes), dict(splits_of), dict(answered)
        try:
            yield
        except FederationError:
            self._nodes, self._splits_of, self._answered = nodes, splits_of, answered
            self.trees[-1] = tree
            del self.owned.splits[splits:]
            raise

    def asked(self, level: int) -> tuple[int, ...]:
        """Name the nodes of a level whose sums the label party needs, as it does: empty where none can be divided."""
        options = self._plan.options
        if level == 0:
            root = self._nodes[ROOT]
            return (ROOT,) if root.is_divisible(options) else ()
        left = range(1 << level, 2 << level, 2)
        pairs = [(self._nodes[number], self._nodes[number + 1]) for number in left if number in self._nodes]
        return tuple(node.number for node in asked_of(pairs, options))

    def leaves(self) -> IntArray:
        """Give the number of each row's leaf in the tree that grows, (n,); 0 for rows that are in no tree."""
        leaves = np.zeros(len(self.owned.binned), dtype=np.int64)
        # Children after their parents.
        for number in sorted(self._nodes):
            leaves[self._nodes[number].routed] = number
        return leaves

    def _answer(self, message: Message) -> Reply:
        if isinstance(message, SumsAsked):
            return self._sums(message)
        if isinstance(message, SplitChosen):
            return self._divide(message)
        if isinstance(message, NodeDivided):
            self._follow(message)
        return None

    def _begin(self, message: TreeGradients) -> None:
        root = self._plan.root(message.tree)
        count, width = len(root.summed), self._terms.ciphertext_bytes
        what = f"The label party's derivatives of tree {message.tree}"
        clear, ciphertexts = self._clear, tuple[int, ...]()
        if self._public_key is None:
            clear = np.zeros((len(self.owned.binned), 2), dtype=np.int64)
            clear[root.summed] = read_clear(message.ciphertexts, count, what)
        else:
            try:
                ciphertexts = from_bytes(message.ciphertexts, count, width)
                check_ciphertexts(self._public_key, ciphertexts, count)
            except InvalidCiphertext as error:
                raise InvalidMessage(f"{what} can't be read: {error}") from None
        self._tree, self._nodes = message.tree, {ROOT: root}
        self.trees.append({})
        self._columns = self._plan.sampled_columns(message.tree, self._place)
        self._clear, self._ciphertexts = clear, dict(zip(root.summed.tolist(), ciphertexts, strict=False))
        self._answered = {message.key: (message, None)}

    def _sums(self, asked: SumsAsked) -> BinSums:
        nodes = [self._asked_node(number) for number in asked.nodes]
        if len({number.bit_length() for number in asked.nodes}) != 1 or len(set(asked.nodes)) != len(nodes):
            raise InvalidMessage(f"The label party asks for sums of nodes {asked.nodes}, which aren't one level's.")
        rows = np.repeat([len(node.summed) for node in nodes], len(self._columns) * self._plan.options.max_bin)
        if self.chooses is not None:
            return self._other_sums(
                [self.chooses.sums(one, len(self._columns), self._plan.options) for one in nodes], rows
            )
        if self._public_key is None:
            return BinSums(self._tree, self.owned.sums(nodes, self._columns, self._clear).astype(CLEAR).tobytes())
        max_bin, modulus = self._plan.options.max_bin, self._public_key.n_squared
        places = max_bin + 1
        prefixes: list[int] = []
        for node in nodes:
            ciphertexts = [self._ciphertexts[row] for row in node.summed.tolist()]
            bins = self.owned.sampled_bins(node.summed, self._columns)
            products = bin_products(ciphertexts, bins, places, modulus, self._engine)
            prefixes += prefix_products(products, places, max_bin, modulus)
        return self._packed(prefixes, rows)

    def _other_sums(self, of_nodes: Sequence[OtherSums], rows: IntArray) -> BinSums:
        """Give what an adversary chose in place of bins' sums."""
        count = len(rows) // len(of_nodes)
        if self._public_key is None:
            clear = np.zeros((len(of_nodes), count, 2), dtype=CLEAR)
            for sums, one in zip(clear, of_nodes, strict=True):
                signed = one.signs @ self._clear[one.rows]
                sums[: len(signed)] = self._clear[one.base].sum(axis=0) + signed + one.added
            return BinSums(self._tree, clear.tobytes())
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

    def _packed(self, prefixes: Sequence[int], rows: IntArray) -> BinSums:
        assert self._public_key is not None  # noqa: S101 - the callers have looked
        packed = pack_sums(prefixes, rows, self._terms.layout, self._public_key, self._engine)
        return BinSums(self._tree, to_bytes(packed, self._terms.ciphertext_bytes))

    def _asked_node(self, number: int) -> NodeRows:
        """Find a node whose sums the label party may have: the root, or the smaller of two children."""
        node, sibling = self._nodes.get(number), self._nodes.get(number ^ 1)
        divisible = [one for one in (node, sibling) if one is not None and one.is_divisible(self._plan.options)]
        if node is None or not divisible:
            raise InvalidMessage(f"Tree {self._tree} has no node {number} that could be divided.")
        if sibling is not None and (len(sibling.summed), number ^ 1) < (len(node.summed), number):
            raise InvalidMessage(f"Node {number}'s sums follow from those of node {number ^ 1}, which has fewer rows.")
        return node

    def _divide(self, chosen: SplitChosen) -> NodeDivided:
        node = self._undivided(chosen.node)
        if chosen.split != len(self.owned.splits):
            raise InvalidMessage(
                f"{self._name} has made {len(self.owned.splits)} splits: number {chosen.split} isn't its next one."
            )
        if not (0 <= chosen.column < len(self._columns) and 0 <= chosen.bin < self._plan.options.max_bin):
            raise InvalidMessage(
                f"{self._name} has {len(self._columns)} columns of {self._plan.options.max_bin} bins in tree "
                f"{self._tree}, and none at column {chosen.column}, bin {chosen.bin}."
            )
        candidate = Candidate(self._place, chosen.column, chosen.bin, chosen.missing_left)
        try:
            if self.chooses is not None:
                left = self.chooses.left(node, candidate)
                self.owned.splits.append(Split(0, 0.0, missing_left=False))
            else:
                left = self.owned.divide(node, candidate, self._columns, self._plan.options)
        except ValueError as error:
            raise InvalidMessage(f"{self._name} won't divide tree {self._tree}: {error}") from None
        self._route(node, left, self._name)
        return NodeDivided(self._tree, chosen.node, self._name, chosen.split, np.packbits(left).tobytes())

    def _follow(self, divided: NodeDivided) -> None:
        node = self._undivided(divided.node)
        if divided.party == self._name:
            raise InvalidMessage(f"{self._name} hasn't divided node {divided.node} of tree {self._tree}.")
        self._route(node, check_divided(divided, node, self._terms, self._splits_of), divided.party)

    def _undivided(self, number: int) -> NodeRows:
        node = self._nodes.get(number)
        if node is None or 2 * number in self._nodes or number.bit_length() > self._plan.options.max_depth:
            raise InvalidMessage(f"Tree {self._tree} has no node {number} that is still to be divided.")
        return node

    def _route(self, node: NodeRows, left: BoolArray, party: str) -> None:
        for child in node.divided(left):
            self._nodes[child.number] = child
        self.trees[-1][node.number] = self._terms.names.index(party), self._splits_of[party]
        self._splits_of[party] += 1


def _product(numbers: Sequence[int], modulus: int) -> int:
    return prefix_products([1, *numbers], len(numbers) + 1, len(numbers) + 1, modulus)[-1]
