"""What the active party's adversary keeps of earlier sessions: records by their own rows, whatever the common order."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import attacks
from services.adversary import predictions
from services.adversary.predictions import AttackHost, EarlierSessions
from tests.unit.services.adversary.test_knowledge import Spy


def view_of(records: Any, session: int) -> attacks.PredictionView:
    """Scores and own features tell which record and which session they are of."""
    rows = np.asarray(records)
    return attacks.PredictionView(
        features_active=rows[:, None] / 100.0,
        scores=np.column_stack([rows, np.full(len(rows), session)]).astype(np.float64),
        record_labels=rows % 3,
        passive_features=4,
        labels=np.zeros(50, dtype=np.int64),
        features_train=np.zeros((50, 1)),
    )


def test_records_are_found_whatever_order_and_batch_they_came_in() -> None:
    kept = EarlierSessions()
    for session, order in enumerate(([5, 3, 9, 7], [9, 5, 7, 3])):
        kept.begin()
        for part in (order[:3], order[3:]):
            kept.remember(np.array(part), view_of(part, session))
    assert [one.scores[0, 1] for one in kept.of(np.array([7, 5]), 4) if one.scores is not None] == [0.0]
    kept.begin()
    first, second = kept.of(np.array([7, 5]), 4)
    for session, one in enumerate((first, second)):
        assert one.scores is not None
        assert one.scores.tolist() == [[7, session], [5, session]]
        assert one.features_active.tolist() == [[0.07], [0.05]]
        assert one.record_labels is not None
        assert one.record_labels.tolist() == [1, 2]
        assert one.labels is None
        assert one.features_train is None


def test_a_session_that_did_not_see_every_record_or_had_other_columns_is_left_out() -> None:
    kept = EarlierSessions()
    kept.remember(np.array([5, 3]), view_of([5, 3], 0))
    kept.begin()
    assert kept.of(np.array([5, 4]), 4) == kept.of(np.array([5]), 3) == ()
    assert len(kept.of(np.array([3]), 4)) == 1


def test_the_oldest_session_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "_MOST_NUMBERS", 20)
    kept = EarlierSessions()
    for session in range(5):
        kept.begin()
        kept.remember(np.array([1, 2]), view_of([1, 2], session))  # 8 numbers
    kept.begin()
    assert [one.scores[0, 1] for one in kept.of(np.array([1]), 4) if one.scores is not None] == [3.0, 4.0]


def test_attacks_see_what_was_seen_in_the_sessions_before() -> None:
    class Town:
        is_defended, auxiliary_rows = False, None

        def __init__(self, order: list[int]) -> None:
            self.order = np.array(order)

        def view(self, rows: Any, scores: Any) -> attacks.PredictionView:
            return replace(view_of(self.order[rows], 0), scores=scores)

    spy = Spy()
    host = AttackHost({"spy": spy}, None)
    for order in ([30, 20, 10], [10, 20, 30]):
        host.begin()
        town: Any = Town(order)
        host.attack(town, [0, 1, 2], np.array(order)[:, None] / np.array([[40.0, 100.0]]))
    first, second = spy.seen
    assert first.earlier == ()
    (seen,) = second.earlier
    np.testing.assert_array_equal(np.asarray(seen.scores), np.asarray(second.scores))
    np.testing.assert_array_equal(seen.features_active, second.features_active)
