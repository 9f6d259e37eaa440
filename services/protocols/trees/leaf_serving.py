"""Predictions of boosted trees: all parties' shares of each leaf add up to 0 where a record ends, and nowhere else.

A party's share is 0 where its own splits leave a leaf open, else a uniform number modulo 2^64. Over it lies a mask that
cancels over the parties (`vfl.crypto.pairwise_masks`), and the leaves of each record and tree stand in an order that
all parties know and the adder doesn't.

Guarantee: the adder sees one 0 a tree at a uniform place, and uniform numbers; it learns no leaf, and of no party which
leaves it left open. The label party learns the leaves that were reached, and no more. Together they learn which leaves
all the others leave open. Another leaf is taken for a reached one with probability 2^-64 each.

A mask is for one request: two vectors under one mask would show by their difference which leaves were open. The same
request again has the same bytes, and other records under its number are refused, as long as this object lives.
"""

import hashlib
import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.common.errors import InvalidMessage
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.pairwise_masks import PairwiseMasks
from vfl.learning.trees import TreeModel
from vfl.learning.trees.open_leaves import OwnPaths

ORDER_BYTES = 32
_DOMAIN = b"plumbline leaves v1"

Shares = NDArray[np.uint64]


class LeafServer:
    """One party's part of predictions.

    Args of the constructor: what it knows of the trees, its table (n, d) of the aligned records, its masks of the
    session, and the secret of the parties from which orders are drawn (`ORDER_BYTES`), which the adder must not know.
    """

    def __init__(self, paths: OwnPaths, table: FloatArray, masks: PairwiseMasks, order: bytes) -> None:
        if len(order) != ORDER_BYTES:
            raise InvalidMessage(f"Expected a secret of {ORDER_BYTES} bytes for orders of leaves, got {len(order)}.")
        self._paths, self._table, self._masks, self._order = paths, table, masks, order
        self._own = secrets.token_bytes(ORDER_BYTES)
        self._asked: dict[int, tuple[int, ...]] = {}

    def answer(self, request: int, rows: Sequence[int]) -> Shares:
        """Give this party's masked shares of some records' leaves, (records, all leaves).

        Args:
            request: its number in the session; each serves for one list of records.
            rows: places of the records among the aligned ones.

        Raises:
            InvalidMessage: for another list than the one before under this number, rows that aren't there, or a
                number of other than 64 bits.
        """
        wanted = tuple(rows)
        if not 0 <= request < 1 << 64:
            raise InvalidMessage("Requests are numbered from 0, in 64 bits.")
        if any(not 0 <= row < len(self._table) for row in wanted):
            raise InvalidMessage(f"Expected rows from 0 to {len(self._table) - 1}.")
        if self._asked.setdefault(request, wanted) != wanted:
            raise InvalidMessage(f"Request {request} was about other records: give new ones a new number.")
        is_open = self._paths.open_leaves(self._table[list(wanted)])
        drawn = _stream(self._own, request, is_open.shape)
        # 0 would say open: as good as never, and never now.
        shares = np.where(is_open, np.uint64(0), np.maximum(drawn, np.uint64(1)))
        return self._ordered(request, shares) + self._masks.mask(request, shares.shape)

    def reached(self, request: int, places: IntArray) -> IntArray:
        """Undo the order: the index of each record's reached leaf among its tree's, from `places`, (records, trees).

        Raises:
            InvalidMessage: for places that aren't those of the request's records and leaves.
        """
        sizes, records = np.array(self._paths.sizes), len(self._asked.get(request, ()))
        if places.shape != (records, len(sizes)) or not ((places >= 0) & (places < sizes)).all():
            raise InvalidMessage(f"The adder's places are not those of request {request}'s records and leaves.")
        orders = self._orders(request, len(places))
        columns = [np.take_along_axis(one, places[:, [tree]], axis=1) for tree, one in enumerate(orders)]
        return np.hstack([np.zeros((len(places), 0), dtype=np.int64), *columns])

    def _ordered(self, request: int, shares: Shares) -> Shares:
        parts = np.split(shares, np.cumsum(self._paths.sizes)[:-1], axis=1)
        orders = self._orders(request, len(shares))
        return np.hstack([np.take_along_axis(part, order, axis=1) for part, order in zip(parts, orders, strict=True)])

    def _orders(self, request: int, records: int) -> list[IntArray]:
        """Draw which leaf stands at each place, (records, leaves) a tree."""
        drawn = _stream(self._order, request, (records, sum(self._paths.sizes)))
        return [part.argsort(axis=1) for part in np.split(drawn, np.cumsum(self._paths.sizes)[:-1], axis=1)]


def reached_places(shares: Sequence[Shares], sizes: Sequence[int]) -> IntArray:
    """Add all parties' shares and find the one 0 of each tree, (records, trees): what the adder does.

    Raises:
        InvalidMessage: for shares of other shapes, or a tree of which not exactly one leaf is reached.
    """
    if len({one.shape for one in shares}) != 1 or shares[0].shape[1] != sum(sizes):
        raise InvalidMessage("The parties' shares are not about the same records and leaves.")
    total = np.zeros(shares[0].shape, dtype=np.uint64)
    for one in shares:
        total = total + one
    places = np.empty((len(total), len(sizes)), dtype=np.int64)
    for tree, part in enumerate(np.split(total == 0, np.cumsum(sizes)[:-1], axis=1)):
        if (part.sum(axis=1) != 1).any():
            raise InvalidMessage(f"A record reaches no leaf of tree {tree}, or several: a party's shares are wrong.")
        places[:, tree] = part.argmax(axis=1)
    return places


def margins_of(model: TreeModel, leaves: IntArray) -> FloatArray:
    """Add up leaves' weights, from their indices among each tree's leaves: (records, trees) in, (records,) out."""
    margins = np.full(len(leaves), model.first_margin)
    for tree, chosen in zip(model.trees, leaves.T, strict=True):
        margins += np.array([tree.weights[leaf] for leaf in tree.leaves])[chosen]
    return margins


def _stream(secret: bytes, request: int, shape: tuple[int, ...]) -> Shares:
    """Draw numbers of 64 bits from a secret, the same for the same request and shape."""
    total = int(np.prod(shape))
    seed = hashlib.blake2b(_DOMAIN + request.to_bytes(8, "big"), key=secret, digest_size=32).digest()
    drawn = np.frombuffer(hashlib.shake_256(seed).digest(8 * total), dtype="<u8")
    return drawn.astype(np.uint64).reshape(shape)
