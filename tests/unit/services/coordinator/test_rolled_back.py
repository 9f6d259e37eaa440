"""A coordinator whose state was put back, or that was cut off or has no room: no record is answered twice."""

import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from defences import load
from services.common.agreement import PartyDescription
from services.common.errors import NotAllowed, OutOfOrder
from services.common.state_folder import StateInMemory, StateNotKept
from services.coordinator.kept_sessions import KeptSessions
from services.coordinator.sessions import Sessions
from services.party.party_model import PartyModel
from services.passive.submissions import SeenSubmissions
from tests.harness.exchanges import SMALL_PLAN
from tests.harness.parties import ACTIVE, PASSIVE, submit
from tests.harness.restarts import Town, town
from tests.harness.shares import SECOND, begun, shares
from vfl.arrays import FloatArray

ROUNDING = load("score_rounding")
FIRST = replace(PASSIVE, name="passive-1")
LOST = "was asked for before the coordinator was cut off or its state was put back.*train again"


def contribute(home: Town, request: int, rows: Sequence[int], *names: str) -> None:
    for name in names or ("passive",):
        home.passive(name).contribute_scores(ACTIVE, home.active.session_id, request, rows)


def served_model(home: Town) -> PartyModel:
    served = home.active._serving.current()
    assert served is not None
    return served.model


def answer(home: Town, request: int, rows: Sequence[int], shift: float = 0.0) -> FloatArray:
    """What an active party is answered that moves its own share."""
    own = served_model(home).partial_scores(rows) + shift
    return home.sessions.score(ACTIVE, home.active.session_id, request, own)


def records(home: Town, first: int, last: int) -> list[int]:
    """Training records, of which nothing was asked yet."""
    return [int(row) for row in served_model(home).rows.train[first:last]]


def test_a_hostile_passive_party_cannot_push_the_count_past_what_an_honest_one_was_told(tmp_path: Path) -> None:
    """Found by review: the count was one for all parties."""
    both = ("passive-1", "passive-2")
    with town(tmp_path / "town", parties=3, score_defences=[ROUNDING]) as home:
        home.train()
        rows = records(home, 0, 3)
        copy = home.copied("coordinator", tmp_path / "older")
        for request in range(4):
            contribute(home, request, rows, *both)
            answer(home, request, rows)
        home.put_back("coordinator", copy)
        model = home.passive("passive-1")._models.served.model  # type: ignore[union-attr]
        share = model.share_of(rows, model.partial_scores(rows))
        for request in range(50, 62):
            home.sessions.submit(FIRST, home.active.session_id, request, replace(share, submissions_seen=0))
        with pytest.raises(OutOfOrder, match=r"older than its answers: it knows of \d+ shares of scores, passive-2 of"):
            contribute(home, 61, rows, "passive-2")
        with pytest.raises(OutOfOrder, match="No partial scores from passive-2"):
            answer(home, 61, rows, 5.0)


def test_a_copy_from_between_a_share_and_its_answer_gives_no_second_one(tmp_path: Path) -> None:
    """Found by review: the count was of the share, and the active party chooses when it asks for the score."""
    with town(tmp_path / "town", score_defences=[ROUNDING]) as home:
        home.train()
        rows, others = records(home, 0, 3), records(home, 3, 6)
        contribute(home, 777, rows)
        copy = home.copied("coordinator", tmp_path / "between")
        answer(home, 777, rows)
        home.put_back("coordinator", copy)
        for request, asked in enumerate((rows, rows[:1], [*others, rows[2]])):
            with pytest.raises(OutOfOrder, match=LOST):
                contribute(home, request, asked)
            with pytest.raises(OutOfOrder, match="No partial scores"):
                answer(home, request, asked, 5.0)
        # What was not asked for then is answered, and after another training everything is.
        contribute(home, 800, others)
        assert answer(home, 800, others).shape == (3, 2)
        home.restart("coordinator")
        with pytest.raises(OutOfOrder, match=LOST):
            contribute(home, 801, rows)
        home.train()
        assert len(home.scores())


@pytest.mark.parametrize("how", ["goes on", "stops", "is killed"])
def test_a_share_whose_score_never_came_is_asked_for_again_unless_the_coordinator_was_killed(
    tmp_path: Path, how: str
) -> None:
    with town(tmp_path, score_defences=[ROUNDING]) as home:
        home.train()
        rows = records(home, 0, 3)
        for request in range(70):  # 64 of them are in memory
            contribute(home, request, rows)
        if how == "stops":
            home.sessions.close()
            with pytest.raises(OutOfOrder, match="is stopping"):
                answer(home, 69, rows)
            with pytest.raises(OutOfOrder, match="is stopping"):
                contribute(home, 99, rows)
        if how != "goes on":
            home.restart("coordinator")
        if how == "is killed":
            with pytest.raises(OutOfOrder, match=LOST):
                contribute(home, 100, rows)
            return
        contribute(home, 100, rows)
        first = answer(home, 100, rows)
        # An answer that is known is repeated after anything.
        home.restart("coordinator")
        contribute(home, 101, rows)
        np.testing.assert_array_equal(answer(home, 101, rows), first)
        contribute(home, 102, rows)
        with pytest.raises(NotAllowed, match="once per record"):
            answer(home, 102, rows, 5.0)


def test_the_state_of_a_coordinator_that_stopped_is_found_older_as_well(tmp_path: Path) -> None:
    """When it stops it forgets what it was asked: a copy of then must not answer what was answered afterwards."""
    with town(tmp_path / "town", score_defences=[ROUNDING]) as home:
        home.train()
        rows = records(home, 0, 3)
        contribute(home, 1, rows)
        home.sessions.close()
        copy = home.copied("coordinator", tmp_path / "stopped")
        home.restart("coordinator")
        contribute(home, 2, rows)
        answer(home, 2, rows)
        home.put_back("coordinator", copy)
        with pytest.raises(OutOfOrder, match="older than its answers"):
            contribute(home, 3, rows)


def refusing(*_: Any, **__: Any) -> None:
    raise StateNotKept("coordinator can't write its state (database or disk is full): it needs room.")


def test_a_share_that_cannot_be_counted_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions, agreement = begun([ROUNDING])
    with monkeypatch.context() as patch:
        patch.setattr(KeptSessions, "count_submission", refusing)
        with pytest.raises(StateNotKept):
            submit(sessions, PASSIVE, agreement.session_id, 1, shares())
    with pytest.raises(OutOfOrder, match="No partial scores from passive"):
        sessions.score(ACTIVE, agreement.session_id, 1, shares())
    submit(sessions, PASSIVE, agreement.session_id, 1, shares())
    assert sessions.score(ACTIVE, agreement.session_id, 1, shares()).shape == (5, 2)


def test_a_passive_party_without_room_still_knows_what_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    state = StateInMemory()
    seen = SeenSubmissions(state)
    with monkeypatch.context() as patch:
        patch.setattr(state, "write", refusing)
        with pytest.raises(StateNotKept):
            seen.note("session", 3)
    assert seen.of_session("session") == 3
    seen.note("session", 4)
    assert SeenSubmissions(state).of_session("session") == 4


def test_a_session_that_ends_on_a_full_disk_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sessions = Sessions(600)
    session_id = sessions.open(ACTIVE, SMALL_PLAN, 2, ("passive", "passive-2"))

    class Full:
        """A database that ends no transaction."""

        def __init__(self, inner: sqlite3.Connection) -> None:
            self._inner = inner

        def execute(self, statement: str, *values: Any) -> Any:
            if statement == "COMMIT":
                raise sqlite3.OperationalError("database or disk is full")
            return self._inner.execute(statement, *values)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    monkeypatch.setattr(sessions._kept, "_database", Full(sessions._kept._database))
    with ThreadPoolExecutor() as threads:
        waiting = [
            threads.submit(sessions.join, one, session_id, PartyDescription(one.name, 3, 0, False, 100))
            for one in (ACTIVE, PASSIVE)
        ]
        sessions.end(SECOND, session_id, "enough.")
        for one in waiting:
            with pytest.raises(OutOfOrder, match="enough"):
                one.result(timeout=60)
    assert [record.getMessage() for record in caplog.records] == [
        "Cannot write sessions.sqlite3 of the state folder: database or disk is full"
    ]


def test_to_serve_a_served_model_again_writes_nothing_even_where_it_cannot_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sessions, agreement = begun([])
    sessions.serve(ACTIVE, agreement.session_id)
    monkeypatch.setattr(KeptSessions, "_change", refusing)
    sessions._sessions[agreement.session_id].changed = "other defences"
    for _ in range(3):
        sessions.serve(ACTIVE, agreement.session_id)
    with pytest.raises(NotAllowed, match="Only the session's active party"):
        sessions.serve(PASSIVE, agreement.session_id)
