"""Defended scores are answered once per record across restarts, or not at all."""

import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from defences import ScoreDefence, load
from services.common.errors import FederationError, NotAllowed, OutOfOrder
from services.common.state_folder import StateError, StateNotKept
from services.coordinator.kept_sessions import KeptSessions
from services.coordinator.sessions import Sessions
from services.party.party_model import PartyModel
from services.passive.party import PassiveParty
from tests.harness.restarts import IDS, town
from vfl.arrays import FloatArray

NOISE, ROUNDING = load("score_noise"), load("score_rounding")


@pytest.mark.parametrize("chosen", [(), (NOISE,), (ROUNDING,), (NOISE, ROUNDING)], ids=str)
@pytest.mark.parametrize("parties", [pytest.param(2, marks=pytest.mark.thorough), 3])
def test_after_any_restart_scores_are_the_same_to_the_bit(
    tmp_path: Path, chosen: Sequence[ScoreDefence], parties: int
) -> None:
    with town(tmp_path, parties=parties, score_defences=chosen) as home:
        home.train()
        before = home.scores()
        for names in (*([name] for name in home.names), home.names):
            home.restart(*names)
            assert home.active.obstacle() == ""
            np.testing.assert_array_equal(home.scores(), before)
            # In another batch, too.
            np.testing.assert_array_equal(home.scores(IDS[::-1][:7]), before[::-1][:7])


def test_a_restarted_coordinator_gives_a_varied_share_no_second_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with town(tmp_path, score_defences=[NOISE]) as home:
        home.train()
        before = home.scores()
        home.restart(*home.names)
        honest = PartyModel.partial_scores

        def lying(self: PartyModel, rows: Sequence[int]) -> FloatArray:
            return honest(self, rows) + (0.01 if self.name == "active" else 0.0)

        with monkeypatch.context() as patch:
            patch.setattr(PartyModel, "partial_scores", lying)
            with pytest.raises(NotAllowed, match="once per record"):
                home.scores()
        np.testing.assert_array_equal(home.scores(), before)


def test_a_coordinator_with_an_older_state_refuses_instead_of_answering_anew(tmp_path: Path) -> None:
    with town(tmp_path / "town", parties=3, score_defences=[NOISE]) as home:
        home.train()
        home.copied("coordinator", tmp_path / "older")
        before = home.scores(IDS[:5])
        home.put_back("coordinator", tmp_path / "older")
        for ids in (IDS[:5], IDS[5:]):
            with pytest.raises(
                OutOfOrder, match=r"older than its answers: it knows of \d+ shares of scores, passive-[12] of"
            ):
                home.scores(ids)
        # Neither a restart of the rest nor another copy of one passive party helps.
        home.restart("active", "passive-1", "passive-2")
        with pytest.raises(OutOfOrder, match="older than its answers"):
            home.scores(IDS[:5])
        home.train()
        assert home.scores().shape == (len(IDS), 2)
        assert before.shape == (5, 2)


def test_one_honest_passive_party_is_enough_to_notice_an_older_state(tmp_path: Path) -> None:
    with town(tmp_path / "town", parties=3, score_defences=[NOISE]) as home:
        home.train()
        for name in ("coordinator", "passive-1", "active"):
            home.copied(name, tmp_path / name)
        home.scores(IDS[:5])
        for name in ("coordinator", "passive-1", "active"):
            home.put_back(name, tmp_path / name)
        with pytest.raises(OutOfOrder, match="older than its answers"):
            home.scores(IDS[:5])


def test_a_passive_party_counts_on_nothing_that_isnt_on_its_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A share whose number it can't keep was never asked for: the active party is refused before it can ask."""
    asked: list[int] = []
    with town(tmp_path, score_defences=[NOISE]) as home:
        home.train()

        def full(*_: Any) -> None:
            raise StateNotKept("passive can't write its state (No space left on device): it needs room.")

        original = Sessions.score

        def counting(*arguments: Any) -> FloatArray:
            asked.append(1)
            return original(*arguments)

        monkeypatch.setattr(Sessions, "score", counting)
        with monkeypatch.context() as patch:
            patch.setattr("services.passive.submissions.SeenSubmissions._keep", full)
            with pytest.raises(StateNotKept, match="passive"):
                home.scores(IDS[:5])
        assert asked == []
        assert len(home.scores(IDS[:5])) == 5


@pytest.mark.parametrize(
    "method", ["count_submission", "answer"], ids=["when a share comes", "when a record is answered"]
)
def test_a_coordinator_whose_disk_is_full_answers_nothing_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    with town(tmp_path, score_defences=[NOISE]) as home:
        home.train()
        before = home.scores(IDS[:5])

        class Full:
            """The database as it is when the disk is full: reads work, the end of a transaction doesn't."""

            def __init__(self, inner: sqlite3.Connection) -> None:
                self._inner = inner

            def execute(self, statement: str, *values: Any) -> Any:
                if statement == "COMMIT":
                    raise sqlite3.OperationalError("database or disk is full")
                return self._inner.execute(statement, *values)

            def __getattr__(self, name: str) -> Any:
                return getattr(self._inner, name)

        kept = home.sessions._kept
        original = getattr(kept, method)

        def full(*arguments: Any) -> Any:
            inner, kept._database = kept._database, Full(kept._database)  # type: ignore[assignment]
            try:
                return original(*arguments)
            finally:
                kept._database = inner

        with monkeypatch.context() as patch:
            patch.setattr(kept, method, full)
            with pytest.raises(StateNotKept, match=r"coordinator can't write its state \(database or disk is full\)"):
                home.scores(IDS[:10])
        home.restart("coordinator")
        np.testing.assert_array_equal(home.scores(IDS[:5]), before)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ((NOISE,), ()),
        ((), (NOISE,)),
        ((NOISE, ROUNDING), (ROUNDING, NOISE)),
        ((ROUNDING,), (load("score_rounding", decimals=3),)),
        ((NOISE,), (load("score_noise", sigma=0.2),)),
    ],
    ids=["none any more", "one that was not there", "another order", "other decimals", "another sigma"],
)
def test_changed_defences_refuse_the_models_from_before(
    tmp_path: Path, then: Sequence[ScoreDefence], now: Sequence[ScoreDefence]
) -> None:
    with town(tmp_path, score_defences=then) as home:
        home.train()
        before = home.scores()
        home.kill("coordinator")
        home.score_defences = now
        home.start("coordinator")
        with pytest.raises(OutOfOrder, match="is not what it was when this model was trained"):
            home.scores()
        assert "its defences have changed" in home.active.obstacle()
        home.kill("coordinator")
        home.score_defences = then
        home.start("coordinator")
        np.testing.assert_array_equal(home.scores(), before)


def test_a_changed_secret_refuses_the_models_from_before(tmp_path: Path) -> None:
    with town(tmp_path, score_defences=[NOISE]) as home:
        home.train()
        home.kill("coordinator")
        (tmp_path / "state" / "coordinator" / "secret").write_bytes(bytes(32))
        home.start("coordinator")
        with pytest.raises(OutOfOrder, match="or their options or their secret"):
            home.scores()


def test_a_coordinator_without_its_state_refuses(tmp_path: Path) -> None:
    with town(tmp_path, score_defences=[NOISE]) as home:
        home.train()
        home.kill("coordinator")
        shutil.rmtree(tmp_path / "state" / "coordinator")
        home.start("coordinator")
        with pytest.raises(FederationError, match="Unknown session"):
            home.scores()


def test_at_most_two_sessions_are_kept_and_answers_go_with_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with town(tmp_path, score_defences=[NOISE]) as home:
        served = home.train()
        home.scores()
        with monkeypatch.context() as patch:
            patch.setattr(PassiveParty, "finish_training", lambda *_: (_ for _ in ()).throw(OutOfOrder("no")))
            for _ in range(10):
                with pytest.raises(OutOfOrder):
                    home.train()
        home.restart("coordinator")
        kept = home.sessions._kept.all()
        assert [one.agreement.session_id for one in kept] == [served]
        newer = home.train()
        home.restart("coordinator")
        (last,) = home.sessions._kept.all()
        assert (last.agreement.session_id, last.is_served) == (newer, True)
        tokens = home.sessions._kept._database.execute("SELECT DISTINCT session FROM answers").fetchall()
        assert tokens == [(newer,)]


@pytest.mark.parametrize("content", [b"not a database at all, but long enough" * 99, b"SQLite format 3\0" + bytes(500)])
def test_a_broken_database_stops_the_start_with_a_sentence(tmp_path: Path, content: bytes) -> None:
    with town(tmp_path) as home:
        home.kill("coordinator")
        folder = tmp_path / "state" / "coordinator"
        for file in folder.glob("sessions.sqlite3*"):
            file.unlink()
        (folder / "sessions.sqlite3").write_bytes(content)
        with pytest.raises(StateError, match=r"state is broken .*: put the folder back from a copy"):
            home.start("coordinator")


def test_what_is_kept_is_synced_before_it_is_told(tmp_path: Path) -> None:
    with town(tmp_path, score_defences=[NOISE]) as home:
        database = home.sessions._kept._database
        assert database.execute("PRAGMA synchronous").fetchone() == (2,)
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert not database.in_transaction
        assert isinstance(home.sessions._kept, KeptSessions)
