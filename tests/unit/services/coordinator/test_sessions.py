"""The coordinator's state: who may open, join, submit and ask, and what each refusal says."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from services.common.agreement import Agreement, PartyDescription, ProposedTerms, TrainingPlan
from services.common.errors import FederationError, InvalidMessage, NotAllowed, OutOfOrder, PeerVanished
from services.common.identity import Identity, Role
from services.coordinator.sessions import Sessions
from tests.harness.exchanges import SMALL_PLAN
from tests.harness.parties import ACTIVE, PASSIVE, submit
from vfl.arrays import FloatArray

SECOND = Identity(Role.PASSIVE, "passive-2")
STRANGER = Identity(Role.PASSIVE, "stranger")


def description(caller: Identity, rows: int = 100) -> PartyDescription:
    return PartyDescription(caller.name, 3, 0, False, rows)


def opened(
    sessions: Sessions, *, passive: Sequence[Identity] = (PASSIVE,), classes: int = 2, plan: TrainingPlan = SMALL_PLAN
) -> str:
    return sessions.open(ACTIVE, plan, classes, tuple(party.name for party in passive))


def join_all(
    sessions: Sessions, session_id: str, rows: dict[Identity, int]
) -> dict[Identity, Agreement | FederationError]:
    """Join as every party at once; what each was told."""

    def join(caller: Identity) -> Agreement | FederationError:
        try:
            return sessions.join(caller, session_id, description(caller, rows[caller]))
        except FederationError as error:
            return error

    with ThreadPoolExecutor(len(rows)) as threads:
        return dict(zip(rows, threads.map(join, rows), strict=True))


def begun(*, classes: int = 2, passive: Sequence[Identity] = (PASSIVE,)) -> tuple[Sessions, str]:
    sessions = Sessions(5)
    session_id = opened(sessions, classes=classes, passive=passive)
    told = join_all(sessions, session_id, dict.fromkeys([ACTIVE, *passive], 100))
    assert all(isinstance(answer, Agreement) for answer in told.values())
    return sessions, session_id


def shares(rows: int = 4, columns: int = 1, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(rows, columns))


# -- opening and joining ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [0, 1])
def test_labels_of_one_class_open_no_session(classes: int) -> None:
    with pytest.raises(InvalidMessage, match=f"{classes} class: at least two"):
        opened(Sessions(1), classes=classes)


@pytest.mark.parametrize("names", [(), ("passive", "passive")])
def test_a_session_needs_passive_parties_each_named_once(names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidMessage, match="at least one passive party, each named once"):
        Sessions(1).open(ACTIVE, SMALL_PLAN, 2, names)


@pytest.mark.parametrize("name", ["active", "coordinator", "operator"])
def test_no_other_role_can_be_named_as_a_passive_party(name: str) -> None:
    with pytest.raises(InvalidMessage, match="another role's name"):
        Sessions(1).open(ACTIVE, SMALL_PLAN, 2, ("passive", name))


def test_every_party_gets_the_same_agreement_with_the_active_party_first() -> None:
    sessions = Sessions(5)
    session_id = opened(sessions, passive=[SECOND, PASSIVE])
    told = join_all(sessions, session_id, {PASSIVE: 100, SECOND: 100, ACTIVE: 100})
    expected = Agreement(session_id, SMALL_PLAN, 2, (description(ACTIVE), description(PASSIVE), description(SECOND)))
    assert list(told.values()) == [expected] * 3


def test_a_repeated_join_gets_the_same_agreement_and_another_description_is_refused() -> None:
    sessions, session_id = begun()
    assert sessions.join(PASSIVE, session_id, description(PASSIVE)) == sessions.join(
        ACTIVE, session_id, description(ACTIVE)
    )
    with pytest.raises(OutOfOrder, match="has joined this session with another description"):
        sessions.join(PASSIVE, session_id, description(PASSIVE, 99))


def test_who_is_not_named_cannot_join_and_nobody_joins_as_another() -> None:
    sessions = Sessions(1)
    session_id = opened(sessions)
    with pytest.raises(NotAllowed, match="stranger is not a party"):
        sessions.join(STRANGER, session_id, description(STRANGER))
    with pytest.raises(NotAllowed, match="passive can't join as active"):
        sessions.join(PASSIVE, session_id, description(ACTIVE))


def test_an_unknown_session_is_out_of_order_for_everything() -> None:
    sessions = Sessions(1)
    for call in (
        lambda: sessions.join(ACTIVE, "none", description(ACTIVE)),
        lambda: submit(sessions, PASSIVE, "none", 1, shares()),
        lambda: sessions.score(ACTIVE, "none", 1, shares()),
    ):
        with pytest.raises(OutOfOrder, match="Unknown session"):
            call()
    sessions.end(ACTIVE, "none", "nothing to end")


def test_different_numbers_of_aligned_rows_end_the_session_for_all() -> None:
    sessions = Sessions(5)
    session_id = opened(sessions)
    told = join_all(sessions, session_id, {ACTIVE: 100, PASSIVE: 99})
    for answer in told.values():
        assert isinstance(answer, FederationError)
        assert "aligned different numbers of rows" in str(answer)
    with pytest.raises(OutOfOrder, match="has ended"):
        sessions.join(ACTIVE, session_id, description(ACTIVE))


def test_a_batch_larger_than_the_training_rows_ends_the_session_for_all() -> None:
    sessions = Sessions(5)
    session_id = opened(sessions, plan=replace(SMALL_PLAN, batch_size=71))
    for answer in join_all(sessions, session_id, {ACTIVE: 100, PASSIVE: 100}).values():
        assert "batch of 71 is larger than the data: 70 training rows of 100" in str(answer)


def test_a_batch_of_all_training_rows_is_agreed() -> None:
    sessions = Sessions(5)
    session_id = opened(sessions, plan=replace(SMALL_PLAN, batch_size=70))
    told = join_all(sessions, session_id, {ACTIVE: 100, PASSIVE: 100})
    assert all(isinstance(answer, Agreement) for answer in told.values())


def test_a_batch_size_left_open_is_fixed_when_all_have_joined_and_told_to_all_alike() -> None:
    sessions = Sessions(5)
    session_id = opened(sessions, plan=replace(SMALL_PLAN, batch_size=0))
    told = join_all(sessions, session_id, {ACTIVE: 1000, PASSIVE: 1000})
    assert [answer.plan.batch_size for answer in told.values() if isinstance(answer, Agreement)] == [64, 64]


@pytest.mark.parametrize("batch_size", [0, 1])
def test_a_table_without_a_training_row_ends_the_session_for_all(batch_size: int) -> None:
    sessions = Sessions(5)
    plan = replace(SMALL_PLAN, batch_size=batch_size, validation_fraction=0.45, test_fraction=0.45)
    for answer in join_all(sessions, opened(sessions, plan=plan), {ACTIVE: 2, PASSIVE: 2}).values():
        assert "No record is left to train on, of 2 aligned" in str(answer)


def test_a_party_that_never_joins_ends_the_session_for_those_that_wait() -> None:
    sessions = Sessions(0.1)
    session_id = opened(sessions, passive=[PASSIVE, SECOND])
    told = join_all(sessions, session_id, {ACTIVE: 100, PASSIVE: 100})
    assert sum(isinstance(answer, PeerVanished) for answer in told.values()) >= 1
    for answer in told.values():
        assert "passive-2 did not join within 0.1 s" in str(answer)
    with pytest.raises(OutOfOrder, match="passive-2 did not join"):
        sessions.join(SECOND, session_id, description(SECOND))


def test_ending_a_session_wakes_who_waits_for_the_others_with_the_reason() -> None:
    sessions = Sessions(30)
    session_id = opened(sessions)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(sessions.join, ACTIVE, session_id, description(ACTIVE))
        sessions.end(PASSIVE, session_id, "no longer wanted.")
        with pytest.raises(OutOfOrder, match=r"has ended: no longer wanted\."):
            waiting.result(timeout=5)


def test_only_parties_of_a_session_may_end_it_and_the_first_reason_stays() -> None:
    sessions, session_id = begun()
    with pytest.raises(NotAllowed, match="stranger is not a party"):
        sessions.end(STRANGER, session_id, "malice")
    submit(sessions, PASSIVE, session_id, 1, shares())
    sessions.end(ACTIVE, session_id, "first.")
    sessions.end(PASSIVE, session_id, "second.")
    for call in (
        lambda: submit(sessions, PASSIVE, session_id, 1, shares()),
        lambda: sessions.score(ACTIVE, session_id, 1, shares()),
        lambda: sessions.join(ACTIVE, session_id, description(ACTIVE)),
    ):
        with pytest.raises(OutOfOrder, match=r"has ended: first\."):
            call()


def test_another_session_ends_the_one_of_the_same_party_that_not_all_have_joined() -> None:
    sessions = Sessions(30)
    first = opened(sessions)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(sessions.join, ACTIVE, first, description(ACTIVE))
        second = opened(sessions)
        with pytest.raises(OutOfOrder, match="has ended: its active party has opened another"):
            waiting.result(timeout=5)
    with pytest.raises(OutOfOrder, match="has opened another"):
        sessions.terms(PASSIVE, first)
    assert sessions.terms(PASSIVE, second).active == "active"


def test_sessions_that_are_only_opened_never_push_out_the_one_that_answers() -> None:
    # Once: nine of them did.
    sessions, session_id = begun()
    sessions.serve(ACTIVE, session_id)
    other = Identity(Role.ACTIVE, "active-2")
    for _ in range(50):
        opened(sessions)
        sessions.open(other, SMALL_PLAN, 2, ("passive",))
    submit(sessions, PASSIVE, session_id, 1, shares())
    assert sessions.score(ACTIVE, session_id, 1, shares()).shape == (4, 2)
    assert len(sessions._sessions) <= 3 + 16, "ended ones are few"


def test_a_session_takes_the_place_of_one_that_is_not_served_as_soon_as_it_is_opened() -> None:
    sessions, first = begun()
    second = opened(sessions)
    # Once: until all had joined the second, and the first could be aligned again at a passive party.
    with pytest.raises(OutOfOrder, match="its active party has opened another"):
        sessions.terms(PASSIVE, first)
    join_all(sessions, second, {ACTIVE: 100, PASSIVE: 100})
    with pytest.raises(OutOfOrder, match="its active party has opened another"):
        sessions.score(ACTIVE, first, 1, shares())
    submit(sessions, PASSIVE, second, 1, shares())
    assert sessions.score(ACTIVE, second, 1, shares()).shape == (4, 2)


def test_a_session_that_cannot_work_leaves_the_served_one_in_its_place() -> None:
    sessions, first = begun()
    sessions.serve(ACTIVE, first)
    second = opened(sessions, plan=replace(SMALL_PLAN, batch_size=71))
    join_all(sessions, second, {ACTIVE: 100, PASSIVE: 100})
    submit(sessions, PASSIVE, first, 1, shares())
    assert sessions.score(ACTIVE, first, 1, shares()).shape == (4, 2)


def test_its_parties_and_nobody_else_learn_what_a_session_was_opened_with() -> None:
    sessions = Sessions(1)
    session_id = opened(sessions, passive=[SECOND, PASSIVE], classes=3)
    expected = ProposedTerms(session_id, "active", ("passive", "passive-2"), SMALL_PLAN, 3)
    assert [sessions.terms(party, session_id) for party in (ACTIVE, PASSIVE, SECOND)] == [expected] * 3
    with pytest.raises(NotAllowed, match="stranger is not a party"):
        sessions.terms(STRANGER, session_id)
    with pytest.raises(OutOfOrder, match="Unknown session"):
        sessions.terms(PASSIVE, "deadbeef")


# -- scores -----------------------------------------------------------------------------------------------------------


def test_scores_are_the_sigmoid_of_all_shares_together() -> None:
    sessions, session_id = begun(passive=[PASSIVE, SECOND])
    own, first, second = shares(seed=1), shares(seed=2), shares(seed=3)
    submit(sessions, PASSIVE, session_id, 7, first)
    submit(sessions, SECOND, session_id, 7, second)
    scores = sessions.score(ACTIVE, session_id, 7, own)
    np.testing.assert_allclose(scores[:, 1:], 1 / (1 + np.exp(-(own + first + second))), rtol=1e-12)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0, rtol=1e-14)


def test_multiclass_scores_are_the_softmax_of_all_shares_together() -> None:
    sessions, session_id = begun(classes=4)
    own, other = shares(columns=4, seed=1), shares(columns=4, seed=2)
    submit(sessions, PASSIVE, session_id, 1, other)
    scores = sessions.score(ACTIVE, session_id, 1, own)
    assert scores.shape == (4, 4)
    np.testing.assert_allclose(np.log(scores[:, :1] / scores), (own + other)[:, :1] - (own + other), atol=1e-12)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0, rtol=1e-14)


@pytest.mark.parametrize(("classes", "columns"), [(2, 2), (2, 3), (3, 1), (3, 2), (3, 4)])
def test_shares_with_the_wrong_number_of_columns_are_refused(classes: int, columns: int) -> None:
    sessions, session_id = begun(classes=classes)
    right = 1 if classes == 2 else classes
    for call, caller in ((partial(submit, sessions), PASSIVE), (sessions.score, ACTIVE)):
        with pytest.raises(InvalidMessage, match=f"Expected {right} columns of partial scores, got {columns}"):
            call(caller, session_id, 1, shares(columns=columns))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_shares_that_are_not_finite_are_refused(value: float) -> None:
    sessions, session_id = begun()
    bad = shares()
    bad[2, 0] = value
    for call, caller in ((partial(submit, sessions), PASSIVE), (sessions.score, ACTIVE)):
        with pytest.raises(InvalidMessage, match="finite"):
            call(caller, session_id, 1, bad)
    submit(sessions, PASSIVE, session_id, 1, shares())


def test_scores_are_for_the_active_party_only_and_its_share_comes_with_its_question() -> None:
    sessions, session_id = begun()
    submit(sessions, PASSIVE, session_id, 1, shares())
    with pytest.raises(NotAllowed, match="Only the session's active party"):
        sessions.score(PASSIVE, session_id, 1, shares())
    with pytest.raises(NotAllowed, match="brings its share when it asks"):
        submit(sessions, ACTIVE, session_id, 1, shares())
    for call in (sessions.score, partial(submit, sessions)):
        with pytest.raises(NotAllowed, match="stranger is not a party"):
            call(STRANGER, session_id, 1, shares())


def test_no_scores_without_every_partys_share() -> None:
    sessions, session_id = begun(passive=[PASSIVE, SECOND])
    submit(sessions, PASSIVE, session_id, 1, shares())
    with pytest.raises(OutOfOrder, match="No partial scores from passive-2 for request 1"):
        sessions.score(ACTIVE, session_id, 1, shares())
    with pytest.raises(OutOfOrder, match="No partial scores from passive, passive-2 for request 2"):
        sessions.score(ACTIVE, session_id, 2, shares())
    submit(sessions, SECOND, session_id, 1, shares())
    assert sessions.score(ACTIVE, session_id, 1, shares()).shape == (4, 2)


def test_shares_of_different_size_are_refused() -> None:
    sessions, session_id = begun()
    submit(sessions, PASSIVE, session_id, 1, shares(rows=3))
    with pytest.raises(InvalidMessage, match="differ in size"):
        sessions.score(ACTIVE, session_id, 1, shares(rows=4))


def test_a_repeated_share_or_question_changes_nothing_and_another_share_is_refused() -> None:
    sessions, session_id = begun()
    submit(sessions, PASSIVE, session_id, 1, shares())
    submit(sessions, PASSIVE, session_id, 1, shares())
    with pytest.raises(OutOfOrder, match="has sent other scores for request 1"):
        submit(sessions, PASSIVE, session_id, 1, shares() + 1)
    first = sessions.score(ACTIVE, session_id, 1, shares())
    np.testing.assert_array_equal(first, sessions.score(ACTIVE, session_id, 1, shares()))


def test_no_shares_before_every_party_has_joined() -> None:
    sessions = Sessions(1)
    session_id = opened(sessions)
    with pytest.raises(OutOfOrder, match="not every party has joined"):
        submit(sessions, PASSIVE, session_id, 1, shares())
    with pytest.raises(OutOfOrder, match="not every party has joined"):
        sessions.score(ACTIVE, session_id, 1, shares())


def test_requests_that_were_never_asked_for_do_not_pile_up() -> None:
    sessions, session_id = begun()
    for request in range(65):
        submit(sessions, PASSIVE, session_id, request, shares())
    with pytest.raises(OutOfOrder, match="for request 0"):
        sessions.score(ACTIVE, session_id, 0, shares())
    sessions.score(ACTIVE, session_id, 1, shares())


def test_shares_may_come_from_many_threads_at_once() -> None:
    sessions, session_id = begun(passive=[PASSIVE, SECOND])
    barrier = threading.Barrier(8)

    def one(number: int) -> None:
        barrier.wait()
        submit(sessions, (PASSIVE, SECOND)[number % 2], session_id, number // 2, shares(seed=number))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(one, range(8)))
    for request in range(4):
        assert sessions.score(ACTIVE, session_id, request, shares()).shape == (4, 2)
