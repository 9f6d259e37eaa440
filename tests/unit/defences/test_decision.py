"""keep_decision: the decision always wins the first-index arg max, and nothing else changes more than it must."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from defences.decision import decisions, keep_decision
from vfl.arrays import FloatArray, IntArray

# Few distinct values, neighbouring floats among them: ties and near ties everywhere.
ENTRIES = st.sampled_from(
    [0.0, 5e-324, 1e-300, 0.5, np.nextafter(0.5, 0), np.nextafter(0.5, 1), np.nextafter(1.0, 0), 1.0]
)


@st.composite
def rows_and_decisions(draw: st.DrawFn) -> tuple[FloatArray, IntArray]:
    n, k = draw(st.integers(1, 5)), draw(st.integers(2, 12))
    entries = st.one_of(ENTRIES, st.floats(0, 1))
    rows = draw(hnp.arrays(np.float64, (n, k), elements=entries))
    return rows, draw(hnp.arrays(np.int64, n, elements=st.integers(0, k - 1)))


@given(rows_and_decisions())
def test_the_decision_wins(case: tuple[FloatArray, IntArray]) -> None:
    rows, decision = case
    kept = keep_decision(rows, decision)
    np.testing.assert_array_equal(decisions(kept), decision)
    assert kept.min() >= 0
    assert kept.max() <= 1


@given(rows_and_decisions())
def test_nothing_changes_more_than_it_must(case: tuple[FloatArray, IntArray]) -> None:
    rows, decision = case
    kept = keep_decision(rows, decision)
    right = rows.argmax(axis=1) == decision
    np.testing.assert_array_equal(kept[right], rows[right])
    own = np.arange(rows.shape[1]) == decision[:, None]
    below_one = rows < 1
    np.testing.assert_array_equal(kept[~own & below_one], rows[~own & below_one])
    assert (kept[own] >= rows[own]).all()
    # One float lower, and an overtaker would win (or the row was right).
    lowered = np.where(own, np.nextafter(kept, -1.0), kept)
    assert (right | (lowered.argmax(axis=1) != decision)).all()


@pytest.mark.parametrize(
    ("row", "decision", "expected"),
    [
        ([0.5, 0.5], 0, [0.5, 0.5]),
        ([0.5, 0.5], 1, [0.5, np.nextafter(0.5, 1)]),
        ([0.2, 0.3, 0.5], 0, [0.5, 0.3, 0.5]),
        ([1.0, 0.0, 1.0], 1, [np.nextafter(1.0, 0), 1.0, 1.0]),
        ([1.0, 1.0], 0, [1.0, 1.0]),
        ([0.0, 0.0], 1, [0.0, 5e-324]),
    ],
)
def test_known_answers(row: list[float], decision: int, expected: list[float]) -> None:
    kept = keep_decision(np.array([row]), np.array([decision]))
    np.testing.assert_array_equal(kept, [expected])


def test_the_argument_is_left_alone() -> None:
    row = np.array([[0.5, 0.5]])
    keep_decision(row, np.array([1]))
    np.testing.assert_array_equal(row, [[0.5, 0.5]])
