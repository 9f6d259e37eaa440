"""A set of points is a set: against Python's own, with repeats anywhere, full and nearly empty."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.data.point_set import PointSet

# Alike in most bytes: points that somebody chose, not random ones.
points = st.builds(lambda first, last: bytes([first]) + bytes(30) + bytes([last]), st.integers(0, 5), st.integers(0, 5))


@given(st.lists(st.lists(points, min_size=1, max_size=6), max_size=6))
def test_adds_each_point_once(chunks: list[list[bytes]]) -> None:
    found, seen = PointSet(40), set[bytes]()
    for chunk in chunks:
        are_new = len(seen | set(chunk)) == len(seen) + len(chunk)
        assert found.add(b"".join(chunk)) == are_new
        if not are_new:
            return
        seen |= set(chunk)
        assert len(found) == len(seen)


@given(st.sets(points, min_size=1), st.lists(points))
def test_holds_what_was_added_and_nothing_else(added: set[bytes], asked: list[bytes]) -> None:
    found = PointSet(len(added))
    assert found.add(b"".join(added))
    assert found.holds(b"".join(asked)).tolist() == [point in added for point in asked]


@pytest.mark.parametrize("most", [1, 2, 3, 1000])
def test_a_full_set_holds_all_of_its_points(most: int) -> None:
    data, others = os.urandom(32 * most), os.urandom(32 * most)
    found = PointSet(most)
    assert found.add(data)
    assert found.holds(data).all()
    assert not found.holds(others).any()
    assert len(found) == most


def test_points_that_share_their_slot_are_told_apart() -> None:
    """As if somebody knew the secret multipliers."""
    found = PointSet(100)
    found._multipliers = np.zeros(8, dtype=np.uint64)
    first, second = os.urandom(32 * 40), os.urandom(32 * 40)
    assert found.add(first)
    assert found.add(second)
    assert found.holds(second + first).all()
    assert not found.add(os.urandom(32) + second[:32])


def test_an_empty_set_holds_nothing() -> None:
    assert not PointSet(10).holds(bytes(64)).any()
    assert PointSet(10).holds(b"").tolist() == []


def test_memory_is_taken_as_points_come() -> None:
    """Who announces eight million points and sends a few has cost a few megabytes."""
    found = PointSet(8_000_000)
    assert found.add(os.urandom(32 * 100))
    assert found.holds(os.urandom(32 * 100)).sum() == 0
