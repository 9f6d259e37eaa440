"""Predictions of boosted trees: all parties' shares of each leaf add up to 0 where a record ends, and nowhere else.

A party's share is 0 where its own splits leave a leaf open, else a uniform number modulo 2^64. Over it lies a mask that
cancels over the parties (`vfl.crypto.pairwise_masks`), and the leaves of each record and tree stand in an order that
all parties know and the adder doesn't. Every tree has as many places; where it has fewer leaves the others are closed.

Guarantee: the adder sees one 0 a tree at a uniform place, and uniform numbers; it learns no leaf, and of no party which
leaves it left open. The label party learns the leaves that were reached, and no more. Together they learn which leaves
all the others leave open. Another leaf is taken for a reached one with probability 2^-64 each.

All that is drawn follows from secrets and from what is asked: a number that the label party draws, the records and
how many trees there are. So the same question has the same bytes, in every process, and any other one has other masks:
two vectors under one mask would show by their difference which leaves were open.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.common.errors import InvalidMessage
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.pairwise_masks import AgreedMasks
from vfl.learning.trees.open_leaves import OwnPaths

SECRET_BYTES = 32
_DOMAIN = b"plumbline leaves v2"

Shares = NDArray[np.uint64]


def named_request(drawn: bytes, trees: int, rows: Sequence[int]) -> bytes:
    """Name what is asked, the same at all parties: the number that the label party has drawn, trees and rows."""
    content = np.array([trees, len(rows), *rows], dtype="<i8").tobytes()
    return hashlib.blake2b(_DOMAIN + drawn + content, digest_size=SECRET_BYTES).digest()


class LeafServer:
    """One party's part of predictions."""

    def __init__(self, paths: OwnPaths, masks: AgreedMasks, order: bytes, own: bytes, leaves: int) -> None:
        """Begin.

        Args:
            paths: what the party knows of the trees.
            masks: that it has agreed on with the others.
            order: a secret of all parties, from which orders of leaves are drawn; the adder must not know it.
            own: a secret of this party, from which its uniform numbers are drawn.
            leaves: places of each tree; raises InvalidMessage where one has more leaves.
        """
        if max(paths.sizes, default=0) > leaves:
            raise InvalidMessage(f"Expected trees of at most {leaves} leaves.")
        self._paths, self._masks, self._order, self._own, self._leaves = paths, masks, order, own, leaves

    def answer(self, request: bytes, records: FloatArray) -> Shares:
        """Give this party's masked shares of some records' leaves, (records, trees * leaves).

        Args:
            request: what is asked, as `named_request` names it.
            records: (n, d) their values in this party's columns.
        """
        shape = (len(records), len(self._paths.sizes), self._leaves)
        is_open = np.zeros(shape, dtype=np.bool_)
        is_there = np.arange(self._leaves) < np.array(self._paths.sizes, dtype=np.int64)[:, None]
        is_open[:, is_there] = self._paths.open_leaves(records)
        # 0 would say open: as good as never, and never now.
        shares = np.where(is_open, np.uint64(0), np.maximum(_stream(self._own, request, shape), np.uint64(1)))
        ordered = np.take_along_axis(shares, self._orders(request, len(records)), axis=2)
        flat = (len(records), -1)
        return np.asarray((ordered + self._masks.mask(request, shape)).reshape(flat), dtype=np.uint64)

    def in_order(self, request: bytes, values: FloatArray) -> FloatArray:
        """Put numbers of leaves, (records, trees, leaves), in the order of their shares."""
        ordered: FloatArray = np.take_along_axis(values, self._orders(request, len(values)), axis=2)
        return ordered

    def reached(self, request: bytes, places: IntArray) -> IntArray:
        """Undo the order: the index of each record's reached leaf among its tree's, from `places`, (records, trees).

        Raises:
            InvalidMessage: for places of other trees, or a leaf that a tree hasn't.
        """
        sizes = np.array(self._paths.sizes, dtype=np.int64)
        if places.shape[1:] != sizes.shape or not ((places >= 0) & (places < self._leaves)).all():
            raise InvalidMessage("The adder's places are not those of the model's trees and leaves.")
        orders = self._orders(request, len(places))
        found: IntArray = np.take_along_axis(orders, places[:, :, None], axis=2)[:, :, 0]
        if not (found < sizes).all():
            raise InvalidMessage("The adder's places name leaves that the model's trees haven't.")
        return found

    def _orders(self, request: bytes, records: int) -> IntArray:
        """Draw which leaf stands at each place, (records, trees, leaves)."""
        drawn = _stream(self._order, request, (records, len(self._paths.sizes), self._leaves))
        return drawn.argsort(axis=2)


def reached_places(shares: Sequence[Shares], trees: int) -> IntArray:
    """Add all parties' shares and find the one 0 of each tree, (records, trees): what the adder does.

    Raises:
        InvalidMessage: for shares of other shapes, or a tree of which not exactly one leaf is reached.
    """
    if len({one.shape for one in shares}) != 1 or shares[0].shape[1] % trees:
        raise InvalidMessage("The parties' shares are not about the same records and leaves.")
    total = np.zeros(shares[0].shape, dtype=np.uint64)
    for one in shares:
        total = total + one
    is_reached = total.reshape(len(total), trees, -1) == 0
    if (wrong := (is_reached.sum(axis=2) != 1).any(axis=0)).any():
        tree = int(wrong.argmax())
        raise InvalidMessage(f"A record reaches no leaf of tree {tree}, or several: a party's shares are wrong.")
    places: IntArray = is_reached.argmax(axis=2)
    return places


def _stream(secret: bytes, request: bytes, shape: tuple[int, ...]) -> Shares:
    """Draw numbers of 64 bits from a secret, the same for the same request and shape."""
    total = int(np.prod(shape))
    seed = hashlib.blake2b(_DOMAIN + request, key=secret, digest_size=32).digest()
    drawn = np.frombuffer(hashlib.shake_256(seed).digest(8 * total), dtype="<u8")
    return drawn.astype(np.uint64).reshape(shape)
