"""Shares that mean harm: numbers whose sums overflow, and memory that one party's session may take."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defences import load
from services.common.errors import FederationError, InvalidMessage, NotAllowed, OutOfOrder
from services.common.limits import CLASSES, PREDICTION_ROWS
from services.common.scores import PartialScores
from services.common.state_folder import StateInMemory
from services.coordinator.kept_sessions import KeptSessions
from services.coordinator.session_state import AnsweredRecords
from tests.harness.parties import ACTIVE, PASSIVE, submit
from tests.harness.shares import SECOND, begun, shares


@pytest.mark.parametrize("value", [1.7e308, -1.7e308, np.inf, -np.inf, np.nan])
def test_a_share_that_would_make_the_coordinator_return_nan_is_refused(value: float) -> None:
    # Once: NaN, from two shares of 1.7e308.
    sessions, agreement = begun([], passive=[PASSIVE, SECOND])
    bad = np.full((3, 1), value)
    for call, caller in ((partial(submit, sessions), PASSIVE), (sessions.score, ACTIVE)):
        with pytest.raises(InvalidMessage, match="finite numbers"):
            call(caller, agreement.session_id, 1, bad)


@given(
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True, width=64), min_size=3, max_size=3),
    classes=st.sampled_from([2, 3]),
)
def test_scores_are_refused_or_they_are_probabilities(values: list[float], classes: int) -> None:
    sessions, agreement = begun([], classes=classes, passive=[PASSIVE, SECOND])
    columns = 1 if classes == 2 else classes
    first, second, own = (np.full((2, columns), value) for value in values)
    # Another class than the others', so that a softmax has something to do.
    own[:, 0] = -own[:, 0]
    try:
        submit(sessions, PASSIVE, agreement.session_id, 1, first)
        submit(sessions, SECOND, agreement.session_id, 1, second)
        scores = sessions.score(ACTIVE, agreement.session_id, 1, own)
    except FederationError:
        assert not all(np.abs(value) <= 1e150 for value in values)
        return
    assert ((scores >= 0) & (scores <= 1)).all()
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)


def test_kept_shares_of_one_session_take_no_more_than_64_mebibytes_and_the_newest_stays() -> None:
    sessions, agreement = begun([], classes=CLASSES)
    large = np.zeros((PREDICTION_ROWS, CLASSES))
    for request in range(40):
        sessions.submit(PASSIVE, agreement.session_id, request, PartialScores(large))
    kept = sessions._sessions[agreement.session_id].shares
    assert sum(share.nbytes for party in kept.values() for share in party.values()) <= 64 << 20
    assert sessions.score(ACTIVE, agreement.session_id, 39, large).shape == large.shape
    with pytest.raises(OutOfOrder, match="No partial scores"):
        sessions.score(ACTIVE, agreement.session_id, 0, large)


def test_small_shares_wait_for_64_requests() -> None:
    sessions, agreement = begun([])
    for request in range(64):
        submit(sessions, PASSIVE, agreement.session_id, request, shares())
    assert sessions.score(ACTIVE, agreement.session_id, 0, shares()).shape == (5, 2)


def test_a_session_remembers_no_more_records_than_it_has() -> None:
    """3 epochs of 10 validation rows and 100 rows: 130 pseudonyms of each party; a hostile one makes up others."""
    sessions, agreement = begun([load("score_rounding")])
    session_id = agreement.session_id

    def ask(request: int, tokens: range) -> None:
        products = np.zeros((len(tokens), 1))
        submit(sessions, PASSIVE, session_id, request, products, tokens=tokens)
        sessions.score(ACTIVE, session_id, request, products)

    ask(1, range(130))
    ask(2, range(130))
    with pytest.raises(NotAllowed, match="passive names more records than this session has"):
        ask(3, range(130, 131))
    ask(4, range(60, 130))


def test_records_that_are_asked_for_and_never_answered_are_bounded_too() -> None:
    sessions, agreement = begun([load("score_rounding")])
    for first in (0, 65):
        tokens = range(first, first + 65)
        submit(sessions, PASSIVE, agreement.session_id, first, np.zeros((65, 1)), tokens=tokens)
    with pytest.raises(NotAllowed, match="passive names more records than this session has"):
        submit(sessions, PASSIVE, agreement.session_id, 200, np.zeros((1, 1)), tokens=[999])
    submit(sessions, PASSIVE, agreement.session_id, 201, np.zeros((1, 1)), tokens=[64])


def test_one_party_pushes_out_its_own_shares_only() -> None:
    sessions, agreement = begun([], classes=CLASSES, passive=[PASSIVE, SECOND])
    products, large = np.zeros((5, CLASSES)), np.zeros((PREDICTION_ROWS, CLASSES))
    for caller in (SECOND, PASSIVE):
        sessions.submit(caller, agreement.session_id, 1000, PartialScores(products))
    for request in range(64):
        sessions.submit(PASSIVE, agreement.session_id, request, PartialScores(large if request % 2 else products))
    # Who is named is who did it, and an honest party's share is still there.
    with pytest.raises(OutOfOrder, match=r"No partial scores from passive for request 1000\."):
        sessions.score(ACTIVE, agreement.session_id, 1000, products)


def test_one_partys_made_up_records_leave_the_others_theirs() -> None:
    answered = AnsweredRecords(KeptSessions(StateInMemory()), "session", most=2)
    logits = np.zeros((2, 1))
    answered.first_logits(logits, {"passive-1": [1, 2], "passive-2": [7, 8]})
    with pytest.raises(NotAllowed, match="passive-1 names more records"):
        answered.first_logits(logits, {"passive-1": [3, 4], "passive-2": [7, 8]})
    answered.first_logits(logits, {"passive-1": [2, 1], "passive-2": [8, 7]})


def test_a_question_that_comes_with_its_shares_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.coordinator.sessions._LATE_SHARES_SECONDS", 20.0)
    sessions, agreement = begun([], passive=[PASSIVE, SECOND])
    with ThreadPoolExecutor() as threads:
        asking = threads.submit(sessions.score, ACTIVE, agreement.session_id, 1, shares())
        submit(sessions, PASSIVE, agreement.session_id, 1, shares(seed=1))
        assert not asking.done(), "one share is missing"
        submit(sessions, SECOND, agreement.session_id, 1, shares(seed=2))
        early = asking.result()
    np.testing.assert_array_equal(early, sessions.score(ACTIVE, agreement.session_id, 1, shares()))


@pytest.mark.parametrize("end", ["session", "process"])
def test_who_waits_for_shares_is_told_when_none_will_come(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr("services.coordinator.sessions._LATE_SHARES_SECONDS", 20.0)
    sessions, agreement = begun([])
    with ThreadPoolExecutor() as threads:
        asking = threads.submit(sessions.score, ACTIVE, agreement.session_id, 1, shares())
        if end == "session":
            sessions.end(PASSIVE, agreement.session_id, "its owner says so")
        else:
            sessions.close()
        with pytest.raises(OutOfOrder, match="its owner says so" if end == "session" else "stopping"):
            asking.result(10)


def test_where_scores_are_defended_nobody_asks_before_the_shares_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or an answer could be out of which a passive party's state knows nothing yet."""
    monkeypatch.setattr("services.coordinator.sessions._LATE_SHARES_SECONDS", 600.0)
    sessions, agreement = begun([load("score_rounding")])
    with pytest.raises(OutOfOrder, match="No partial scores from passive"):
        sessions.score(ACTIVE, agreement.session_id, 1, shares())
