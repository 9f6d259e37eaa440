"""How far each party's ledgers are, as the coordinator keeps it: it only grows, and is the party's own."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import NotAllowed, OutOfOrder
from services.common.identity import Identity, Role
from services.common.ledger_marks import LedgerMark
from services.common.state_folder import StateFolder, StateInMemory
from services.coordinator.kept_sessions import DATABASE, KeptSessions
from services.coordinator.sessions import Sessions
from tests.harness.exchanges import SMALL_PLAN
from tests.harness.parties import ACTIVE, PASSIVE
from tests.harness.restarts import town
from tests.harness.shares import SECOND, begun

LEDGER = "ab" * 16
NUMBERS = st.integers(0, 3)


def noted(kept: KeptSessions, number: int, generation: int = 1, party: str = "passive") -> LedgerMark:
    return kept.note_ledger(party, LedgerMark(f"{number:032x}", generation), of_session=False)


@given(st.lists(st.builds(LedgerMark, st.just(LEDGER), st.integers(1, 4), NUMBERS, NUMBERS), min_size=1, max_size=12))
def test_what_is_known_only_grows_and_whoever_is_behind_changes_nothing(marks: Sequence[LedgerMark]) -> None:
    kept, known = KeptSessions(StateInMemory()), marks[0]
    for mark in marks:
        further = known if mark.is_behind(known) else mark
        assert kept.note_ledger("passive", mark, of_session=False) == further
        assert (further.attempt, further.step) >= (known.attempt, known.step)
        assert further.generation >= known.generation
        known = further


def test_each_party_has_its_own_and_ledgers_are_apart() -> None:
    kept = KeptSessions(StateInMemory())
    noted(kept, 1, 9)
    assert noted(kept, 1, 2, party="active").generation == 2
    assert noted(kept, 2, 3).generation == 3
    assert noted(kept, 1, 8).generation == 9


def test_of_one_party_the_ledger_that_was_not_heard_of_for_longest_is_forgotten() -> None:
    kept = KeptSessions(StateInMemory())
    noted(kept, 0, 9, party="active")
    for number in range(64):
        noted(kept, number, 9)
    noted(kept, 0, 9)
    noted(kept, 64, 9)
    assert kept._database.execute("SELECT count(*) FROM ledgers WHERE party = 'passive'").fetchone() == (64,)
    assert [noted(kept, number, 1).generation for number in (0, 2, 64)] == [9, 9, 9]
    assert noted(kept, 1, 1).generation == 1
    # Another party's are no concern of it.
    assert noted(kept, 0, 1, party="active").generation == 9


def test_a_coordinator_that_starts_again_knows_it(tmp_path: Path) -> None:
    for generation, known in ((5, 5), (4, 5), (6, 6)):
        state = StateFolder(tmp_path, Identity(Role.COORDINATOR, "coordinator"))
        assert noted(KeptSessions(state), 1, generation).generation == known
        state.close()


def test_a_database_of_an_earlier_release_has_room_for_it(tmp_path: Path) -> None:
    with town(tmp_path) as home:
        session_id = home.train()
        home.sessions._kept._database.execute("DROP TABLE ledgers")
        home.restart("coordinator")
        assert home.sessions.note_ledger(PASSIVE, session_id, LedgerMark(LEDGER, 3)).generation == 3
    assert (tmp_path / "state" / "coordinator" / DATABASE).exists()


def test_a_party_names_its_own_sessions_only_and_moves_nobody_elses_ledger() -> None:
    """Whose ledger it is follows from the caller, who may know the other's id."""
    sessions, agreement = begun([])
    session_id, mark = agreement.session_id, LedgerMark(LEDGER, 3)
    assert sessions.note_ledger(PASSIVE, session_id, mark) == mark
    assert sessions.note_ledger(ACTIVE, session_id, replace(mark, generation=1 << 50)).generation == 1 << 50
    assert sessions.note_ledger(PASSIVE, session_id, mark.next()) == mark.next()
    with pytest.raises(NotAllowed, match="not a party of this session"):
        sessions.note_ledger(SECOND, session_id, mark)
    with pytest.raises(OutOfOrder, match="Unknown session"):
        sessions.note_ledger(PASSIVE, "0" * 32, mark)
    sessions.end(ACTIVE, session_id, "enough.")
    with pytest.raises(OutOfOrder, match="has ended: enough"):
        sessions.note_ledger(PASSIVE, session_id, mark.next().next())


def test_a_count_is_noted_before_all_have_joined_and_a_training_when_it_has_begun() -> None:
    sessions = Sessions(5)
    session_id = sessions.open(ACTIVE, SMALL_PLAN, 2, ("passive",))
    assert sessions.note_ledger(PASSIVE, session_id, LedgerMark(LEDGER, 1)).generation == 1
    with pytest.raises(OutOfOrder, match="has not begun"):
        sessions.note_ledger(PASSIVE, session_id, LedgerMark(session_id, 1))


def test_a_trainings_goes_with_its_session_and_a_counts_stays() -> None:
    sessions, agreement = begun([])
    session_id = agreement.session_id
    sessions.note_ledger(PASSIVE, session_id, LedgerMark(session_id, 7, attempt=1, step=4))
    sessions.note_ledger(PASSIVE, session_id, LedgerMark(LEDGER, 3))
    behind = LedgerMark(session_id, 8, attempt=1, step=3)
    assert sessions.note_ledger(PASSIVE, session_id, behind) == LedgerMark(session_id, 7, attempt=1, step=4)
    sessions.end(ACTIVE, session_id, "enough.")
    assert sessions._kept._database.execute("SELECT ledger FROM ledgers").fetchall() == [(LEDGER,)]


def test_who_is_behind_is_named_in_the_coordinators_log(caplog: pytest.LogCaptureFixture) -> None:
    sessions, agreement = begun([])
    with caplog.at_level(logging.WARNING):
        for generation in (3, 2):
            sessions.note_ledger(PASSIVE, agreement.session_id, LedgerMark(LEDGER, generation))
    assert caplog.messages == ["passive has an older copy of its state: a ledger has 2 writes, of 3 writes."]
