"""The messages of trees in a mailbox: a step is a tree, and each level has the same few, as large in each tree.

    label party                         each passive party, by its place
    derivatives       ──>               once a tree
    level by level:   <── sums          of the nodes that both know to be asked for
                      splits ──>        of this party's columns
                      <── divided       which rows go left
                      routes ──>        all divisions of the level

A level that can't be divided ends the tree, and every party sees that it can't. What a level hasn't is filled up with
zeros, so that sizes say nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.common import limits
from services.common.errors import InvalidMessage
from services.exchange.declared_messages import ASKS, Tells, answers
from services.exchange.message_kinds import MessageKind
from services.protocols.trees.tree_messages import NodeDivided, SplitChosen, TreeTerms
from vfl.crypto import PROOF_ROOTS
from vfl.crypto.pairwise_masks import MASK_KEY_BYTES

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

KEY, ORDER, MASK_KEY = "key", "order", "mask_key"
_WORD = 8
# All are about their sender: sums over bins and which rows go left about its columns, the label party's about labels.
_IN_THE_CLEAR = Tells("equations", word="derivatives in the clear")
_SUMS, _SPLITS, _ROUTES = (
    Tells("equations", word="bins' sums"),
    Tells("bits", word="splits"),
    Tells("equations", word="routes"),
)


@dataclass(frozen=True)
class TreeKinds:
    """Names and sizes of a training's messages.

    Attributes:
        terms: of the training.
    """

    terms: TreeTerms

    @property
    def _levels(self) -> range:
        return range(self.terms.plan.options.max_depth)

    @property
    def _label(self) -> frozenset[str]:
        return frozenset(self.terms.names[:1])

    def chunks(self) -> list[tuple[str, int]]:
        """Name the messages of a tree's derivatives, with the rows of each: no more than a message may have."""
        rows, most = len(self.terms.plan.root(0).summed), limits.VECTOR_BYTES // self.terms.ciphertext_bytes
        return [(f"derivatives {at}", min(most, rows - start)) for at, start in enumerate(range(0, rows, most))]

    def sums_bytes(self, level: int, place: int) -> int:
        """Count the bytes of a party's sums of a level: of as many nodes as may be asked for there."""
        options = self.terms.plan.options
        nodes = max(1, 1 << level - 1) if level else 1
        return self.terms.sums_bytes(nodes * len(self.terms.plan.sampled_columns(0, place)) * options.max_bin)

    def _routes_words(self, level: int) -> int:
        """Count the numbers of a level's divisions: four numbers a node, and a bit for each row."""
        nodes = 1 << level
        return 4 * nodes + -(-(-(-len(self.terms.plan.root(0).routed) // 8) + nodes) // _WORD)

    def kinds(self) -> Iterator[MessageKind]:
        """Declare all messages. Of each kind there is one sender and one receiver, but for keys of masks."""
        terms, everybody = self.terms, frozenset(self.terms.names)
        passive, is_clear = everybody - self._label, not self.terms.key_bits
        yield MessageKind(MASK_KEY, everybody, everybody, _of(MASK_KEY_BYTES), "uint8", once=True)
        yield MessageKind(ORDER, self._label, passive, _of(MASK_KEY_BYTES), "uint8", once=True)
        if not is_clear:
            size = (1 + PROOF_ROOTS) * terms.key_bits // 8
            yield MessageKind(KEY, self._label, passive, _of(size), "uint8", once=True)
        for place, name in enumerate(terms.names[1:], start=1):
            own = frozenset({name})
            clear, derivatives = _IN_THE_CLEAR if is_clear else None, ""
            for chunk, rows in self.chunks():
                size, derivatives = rows * terms.ciphertext_bytes, f"{chunk} {place}"
                yield MessageKind(derivatives, self._label, own, _of(size), "uint8", right=ASKS, tells=clear)
            for level in self._levels:
                at, sums = f"{level} {place}", _of(self.sums_bytes(level, place))
                routes, of_sums, of_splits = (
                    _of(self._routes_words(level)),
                    answers(derivatives),
                    answers(f"splits {at}"),
                )
                yield MessageKind(f"sums {at}", own, self._label, sums, "uint8", right=of_sums, tells=_SUMS)
                splits = _of(1 << level, 5)
                yield MessageKind(f"splits {at}", self._label, own, splits, "uint64", right=ASKS, tells=_SPLITS)
                yield MessageKind(f"divided {at}", own, self._label, routes, "uint64", right=of_splits, tells=_ROUTES)
                yield MessageKind(f"routes {at}", self._label, own, routes, "uint64", tells=_ROUTES)

    def splits_of(self, splits: Sequence[SplitChosen], level: int) -> Words:
        """Write the label party's choice of a level, (nodes, 5); a row of zeros is none."""
        return _filled_table(splits, level, 5)

    def read_splits(self, table: Words) -> list[SplitChosen]:
        """Read what ``splits_of`` wrote."""
        return [SplitChosen(*row)._replace(missing_left=bool(row[4])) for row in table.tolist() if row[0]]

    def routes_of(self, divided: Sequence[NodeDivided], level: int) -> Words:
        """Write divisions of a level: node, the owner's place, its split, the bytes of its bits; and then all bits."""
        table = _filled_table([(*one[:3], len(one.left)) for one in divided], level, 4)
        room = (self._routes_words(level) - table.size) * _WORD
        bits = b"".join(one.left for one in divided).ljust(room, b"\0")
        return np.concatenate([table.ravel(), np.frombuffer(bits, dtype="<u8").astype(np.uint64)])

    def read_routes(self, words: Words, level: int) -> list[NodeDivided]:
        """Read what ``routes_of`` wrote; raises InvalidMessage for what no party wrote."""
        table = words[: 4 << level].reshape(-1, 4).tolist()
        bits, start = words[4 << level :].astype("<u8").tobytes(), 0
        divided = []
        for node, place, split, size in (row for row in table if row[0]):
            if place >= len(self.terms.names) or start + size > len(bits):
                raise InvalidMessage("Divisions of a level are by a party that isn't here, or of too many rows.")
            divided.append(NodeDivided(node, place, split, bits[start : start + size]))
            start += size
        return divided


def _filled_table(rows: Sequence[tuple[int, ...]], level: int, columns: int) -> Words:
    """Write a row of numbers for each of a level's nodes, behind those that are there zeros."""
    table = np.zeros((1 << level, columns), dtype=np.uint64)
    table[: len(rows)] = np.array(rows, dtype=np.uint64).reshape(-1, columns)
    return table


def _of(*shape: int) -> Callable[[int], tuple[int, ...]]:
    """Give a message the same shape in each step."""
    return lambda _: shape


def filled(content: bytes, size: int) -> Bytes:
    """Fill bytes up with zeros."""
    return np.frombuffer(content.ljust(size, b"\0"), dtype=np.uint8)


def joined(parts: Sequence[Bytes]) -> bytes:
    """Put a message's parts together again."""
    return b"".join(part.tobytes() for part in parts)
