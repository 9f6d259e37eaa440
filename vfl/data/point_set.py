"""A set of points, 32 bytes each, as arrays: 40 to 50 bytes a point where Python's own set takes 120."""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import IntArray
from vfl.crypto.curve25519 import COORDINATE_BYTES


class PointSet:
    """Holds distinct points: a hash table with linear probing, looked up a chunk at a time.

    Whole points are compared: no two are ever taken for one. Who chooses points can't make them meet in the table
    either: a slot is the top of a multilinear hash with secret multipliers, by which two points meet as seldom as
    random ones (Dietzfelbinger 1996). Memory is taken as points come, whatever number is announced.
    """

    def __init__(self, most: int) -> None:
        """Hold nothing yet.

        Args:
            most: the largest number of points that are added, at least 1.
        """
        # At most half of the slots are taken.
        bits = most.bit_length() + 1
        self._points: NDArray[np.uint8] = np.empty((most, COORDINATE_BYTES), dtype=np.uint8)
        # By slot, 1 + the place of its point; 0 where it is free.
        self._places: NDArray[np.int32] = np.zeros(1 << bits, dtype=np.int32)
        self._count = 0
        self._shift = np.uint64(64 - bits)
        word_count = COORDINATE_BYTES // 4
        self._multipliers = np.frombuffer(secrets.token_bytes(8 * word_count), dtype=np.uint64)

    def __len__(self) -> int:
        return self._count

    def add(self, points: bytes) -> bool:
        """Add points; False, and this set is not to be used any more, when one of them is there or comes twice."""
        begin, end = self._count, self._count + len(points) // COORDINATE_BYTES
        self._points[begin:end] = _rows(points)
        waiting = np.arange(begin, end, dtype=np.int32)
        slots = self._slots_of(self._points[begin:end])
        while len(waiting):
            free = self._places[slots] == 0
            # Of several that claim one slot the last gets it.
            self._places[slots[free]] = waiting[free] + 1
            occupants = self._places[slots] - 1
            crowded = occupants != waiting
            slots, waiting, occupants = slots[crowded], waiting[crowded], occupants[crowded]
            if self._are_equal(occupants, self._points[waiting]).any():
                return False
            slots = self._after(slots)
        self._count = end
        return True

    def holds(self, points: bytes) -> NDArray[np.bool_]:
        """Tell which of so many points are in this set, (points,)."""
        rows = _rows(points)
        are_members = np.zeros(len(rows), dtype=np.bool_)
        waiting, slots = np.arange(len(rows)), self._slots_of(rows)
        while len(waiting):
            is_occupied = self._places[slots] != 0
            waiting, slots = waiting[is_occupied], slots[is_occupied]
            equal = self._are_equal(self._places[slots] - 1, rows[waiting])
            are_members[waiting[equal]] = True
            waiting, slots = waiting[~equal], self._after(slots[~equal])
        return are_members

    def _are_equal(self, places: NDArray[np.int32], rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
        equal: NDArray[np.bool_] = (self._points[places] == rows).all(axis=1)
        return equal

    def _slots_of(self, rows: NDArray[np.uint8]) -> IntArray:
        columns = np.ascontiguousarray(rows).view(np.uint32).astype(np.uint64)
        hashes = (columns * self._multipliers).sum(axis=1, dtype=np.uint64)
        slots: IntArray = (hashes >> self._shift).astype(np.int64)
        return slots

    def _after(self, slots: IntArray) -> IntArray:
        return (slots + 1) & (len(self._places) - 1)


def _rows(points: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(points, dtype=np.uint8).reshape(-1, COORDINATE_BYTES)
