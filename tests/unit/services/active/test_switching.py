"""A switch to another model, with parties that hang, refuse, lose what they had, or ask much meanwhile."""

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.active import party as active_party
from services.active.serving import Serving
from services.common import state_folder
from services.common.errors import Cancelled, FederationError, OutOfOrder, PeerVanished
from services.common.identity import Identity, Role
from services.common.state_folder import StateNotKept
from services.coordinator.kept_sessions import KeptSessions
from services.coordinator.sessions import Sessions
from services.party.ending import Ending
from services.party.served_models import CANDIDATE, ServedModels
from services.passive.party import PassiveParty
from tests.harness.restarts import Killed, Town, town

SECONDS = 30
OLD, NEW = {"epochs": 1}, {"epochs": 2}
MALLORY = Identity(Role.PASSIVE, "passive-1")


class Hung:
    """A coordinator that doesn't answer who wants a model served, until it is freed."""

    def __init__(self, patch: pytest.MonkeyPatch, *, but: str, error: Exception | None = None) -> None:
        self.calls = 0
        self.reached, self.freed = threading.Event(), threading.Event()
        original = Sessions.serve

        def serve(sessions: Sessions, caller: Identity, session_id: str) -> None:
            if session_id != but:
                self.calls += 1
                self.reached.set()
                assert self.freed.wait(SECONDS)
                if error is not None:
                    raise error
            original(sessions, caller, session_id)

        patch.setattr(Sessions, "serve", serve)


@contextmanager
def operator() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as executor:
        yield executor


def job_in_its_switch(home: Town, hung: Hung, executor: ThreadPoolExecutor) -> Future[str]:
    job = executor.submit(home.train, **NEW)
    assert hung.reached.wait(SECONDS)
    return job


def test_a_party_that_hangs_in_the_switch_costs_all_predictions_one_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once: five took 11, 19, 27, 35 and 43 s, one after the other.
    with town(tmp_path) as home, operator() as executor:
        old = home.train(**OLD)
        silent = PeerVanished("coordinator does not answer: its time is up.")
        hung = Hung(monkeypatch, but=old, error=silent)
        job = job_in_its_switch(home, hung, executor)
        entered = threading.Semaphore(0)
        original = Serving.current

        def current(serving: Serving) -> Any:
            entered.release()
            return original(serving)

        monkeypatch.setattr(Serving, "current", current)
        asked = [executor.submit(home.scores) for _ in range(5)]
        for _ in asked:
            assert entered.acquire(timeout=SECONDS)
        hung.freed.set()
        for answer in asked:
            assert answer.exception(SECONDS) is silent
        job.result(SECONDS)
        # The job's, and one for those who came too late for it.
        assert hung.calls <= 2


def test_what_asks_nobody_waits_for_nobody_in_a_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with town(tmp_path) as home, operator() as executor:
        hung = Hung(monkeypatch, but=home.train(**OLD))
        job = job_in_its_switch(home, hung, executor)
        newest = home.active._serving.newest
        assert newest is not None
        executor.submit(home.active._serving.know, newest).result(SECONDS)
        assert not hung.freed.is_set()
        hung.freed.set()
        job.result(SECONDS)


def test_a_job_whose_model_is_being_served_can_not_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once: acknowledged after 5 s, and the new model was served all the same.
    with town(tmp_path) as home, operator() as executor:
        hung = Hung(monkeypatch, but=home.train(**OLD))
        job = job_in_its_switch(home, hung, executor)
        with pytest.raises(OutOfOrder, match=r"^The job is over: its model is being served\.$"):
            home.active.cancel()
        hung.freed.set()
        assert home.active.session_id == job.result(SECONDS)
        assert home.active.stage == "serving"


def test_a_job_that_is_cancelled_at_its_last_moment_serves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with town(tmp_path) as home:
        old = home.train(**OLD)
        before = home.scores()
        original = Ending.finish

        def cancelled(ending: Ending) -> None:
            ending.end(Cancelled("The job was cancelled by the operator."))
            original(ending)

        monkeypatch.setattr(Ending, "finish", cancelled)
        with pytest.raises(Cancelled):
            home.train(**NEW)
        assert home.active.session_id == old
        home.restart(*home.names)
        np.testing.assert_array_equal(home.scores(), before)


def test_cancel_says_when_the_job_is_not_over_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active_party, "_CANCEL_SECONDS", 0.05)
    training, freed = threading.Event(), threading.Event()

    def hangs(*_: Any) -> None:
        training.set()
        assert freed.wait(SECONDS)

    with town(tmp_path) as home, operator() as executor:
        monkeypatch.setattr(PassiveParty, "run_epoch", hangs)
        monkeypatch.setattr(PassiveParty, "end_session", hangs)
        job = executor.submit(home.train)
        assert training.wait(SECONDS)
        with pytest.raises(OutOfOrder, match="The job is cancelled, but not over"):
            home.active.cancel()
        freed.set()
        assert isinstance(job.exception(SECONDS), Cancelled)


def test_a_job_that_waits_for_the_switch_before_it_can_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with town(tmp_path) as home, operator() as executor:
        old = home.train(**OLD)
        with monkeypatch.context() as patch:
            hung = Hung(patch, but=old, error=PeerVanished("coordinator does not answer."))
            hung.freed.set()
            home.train(**NEW)
        hung = Hung(monkeypatch, but=old)
        job = job_in_its_switch(home, hung, executor)
        home.active.cancel()
        assert isinstance(job.exception(SECONDS), Cancelled)
        hung.freed.set()
        home.scores()


def test_a_session_that_a_party_ends_just_before_the_switch_leaves_the_old_model_with_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once: passive-2 had forgotten the old model by then, and the coordinator refused the new one.
    with town(tmp_path, parties=3) as home:
        old = home.train(**OLD)
        before = home.scores()
        original = Serving.switch_to

        def ended(serving: Serving, model: Any) -> None:
            home.sessions.end(MALLORY, model.session_id, "bye.")
            original(serving, model)

        with monkeypatch.context() as patch:
            patch.setattr(Serving, "switch_to", ended)
            with pytest.raises(OutOfOrder, match=r"The session has ended: bye\."):
                home.train(**NEW)
        assert home.active.stage == "failed"
        assert home.active.session_id == old
        assert home.active.obstacle() == ""
        np.testing.assert_array_equal(home.scores(), before)
        assert not list((tmp_path / "state").glob(f"*/{CANDIDATE}"))
        home.restart(*home.names)
        np.testing.assert_array_equal(home.scores(), before)
        home.train(**NEW)
        assert home.active.obstacle() == ""


@pytest.mark.parametrize("how", [Town.scores, Town.train])
def test_a_candidate_whose_session_is_gone_after_a_restart_gives_way_to_the_old_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: Any
) -> None:
    def killed(*_: Any) -> None:
        raise Killed

    with town(tmp_path, parties=3) as home:
        old = home.train(**OLD)
        before = home.scores()
        with monkeypatch.context() as patch:
            patch.setattr(Sessions, "serve", killed)
            patch.setattr(Serving, "_remind_of", lambda *_: None)
            with pytest.raises(Killed):
                home.train(**NEW)
        home.sessions.end(MALLORY, home.active.session_id, "bye.")
        home.restart(*home.names)
        assert home.active.session_id != old
        answered = how(home)
        if how is Town.scores:
            np.testing.assert_array_equal(answered, before)
            assert home.active.session_id == old
        assert home.active.obstacle() == ""
        home.restart(*home.names)
        assert home.active._serving._pending is None


def test_a_coordinator_that_can_not_write_is_no_reason_to_drop_the_new_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise StateNotKept("coordinator can't write its state (disk full): it needs room.")

    with town(tmp_path) as home:
        home.train(**OLD)
        with monkeypatch.context() as patch:
            patch.setattr(KeptSessions, "serve", full)
            new = home.train(**NEW)
            with pytest.raises(StateNotKept, match="disk full"):
                home.scores()
        home.scores()
        assert home.active.session_id == new


def test_a_switch_that_the_coordinator_may_have_made_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with town(tmp_path) as home:
        old = home.train(**OLD)
        original = Sessions.serve

        def answer_lost(sessions: Sessions, caller: Identity, session_id: str) -> None:
            original(sessions, caller, session_id)
            if session_id != old:
                raise PeerVanished("coordinator does not answer: the call was cut off.")

        with monkeypatch.context() as patch:
            patch.setattr(Sessions, "serve", answer_lost)
            new = home.train(**NEW)
        kept = home.folder / "state" / "coordinator"
        home.kill("coordinator")
        kept.rename(tmp_path / "put aside")
        home.start("coordinator")
        with pytest.raises(OutOfOrder, match="Unknown session"):
            home.scores()
        assert home.active.session_id == new
        home.kill("coordinator")
        shutil.rmtree(kept)
        (tmp_path / "put aside").rename(kept)
        home.start("coordinator")
        home.scores()
        assert home.active.session_id == new


@pytest.mark.parametrize("name", ["active", "passive"])
def test_a_folder_whose_sync_fails_once_holds_up_the_switch_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # Once: the rename had happened, and each retry said "No such file or directory" until a restart.
    with town(tmp_path) as home:
        home.train(**OLD)

        def failing(folder: Path) -> None:
            if folder.name == name and not (folder / CANDIDATE).exists() and fails:
                raise OSError(5, "Input/output error")

        fails = False
        original = ServedModels.serve

        def serve(models: ServedModels, session_id: str, active: str) -> None:
            nonlocal fails
            fails = True
            try:
                original(models, session_id, active)
            finally:
                fails = False

        with monkeypatch.context() as patch:
            patch.setattr(state_folder, "sync_folder", failing)
            patch.setattr(ServedModels, "serve", serve)
            new = home.train(**NEW)
            with pytest.raises(StateNotKept, match="Input/output error"):
                home.scores()
        after = home.scores()
        assert home.active.session_id == new
        home.restart(*home.names)
        np.testing.assert_array_equal(home.scores(), after)


@pytest.mark.parametrize("name", ["coordinator", "passive"])
def test_a_party_put_back_from_before_the_switch_learns_which_model_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # Once: the next job that was agreed and failed ended the served model at such a coordinator.
    def broken(*_: Any) -> None:
        raise OutOfOrder("The owner is on holiday.")

    with town(tmp_path) as home:
        home.train(**OLD)
        folder, copy = home.folder / "state" / name, tmp_path / "copy"
        original = Serving.switch_to

        def copied(serving: Serving, model: Any) -> None:
            shutil.copytree(folder, copy)
            original(serving, model)

        with monkeypatch.context() as patch:
            patch.setattr(Serving, "switch_to", copied)
            home.train(**NEW)
        before = home.scores()
        home.kill(name)
        shutil.rmtree(folder)
        copy.rename(folder)
        home.start(name)
        with monkeypatch.context() as patch:
            patch.setattr(PassiveParty, "finish_training", lambda *_: broken())
            with pytest.raises(FederationError, match="on holiday"):
                home.train()
        np.testing.assert_array_equal(home.scores(), before)
        home.restart(*home.names)
        np.testing.assert_array_equal(home.scores(), before)


def test_however_many_ask_for_the_status_each_party_is_asked_once_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once: "passive can't say whether it has this model: 8 calls of active are at work here."
    with town(tmp_path) as home, operator() as executor:
        home.train()
        inside, several, freed = threading.Semaphore(1), threading.Event(), threading.Event()
        original = PassiveParty.holds_model

        def holds_model(party: PassiveParty, session_id: str) -> bool:
            if not inside.acquire(blocking=False):
                several.set()
                return original(party, session_id)
            assert freed.wait(SECONDS)
            inside.release()
            return original(party, session_id)

        monkeypatch.setattr(PassiveParty, "holds_model", holds_model)
        asked = [executor.submit(home.active.obstacle) for _ in range(8)]
        # As long as it takes eight threads to come there.
        several.wait(1.0)
        freed.set()
        assert [answer.result(SECONDS) for answer in asked] == [""] * 8
        assert not several.is_set()


def test_a_model_that_another_replaces_meanwhile_has_not_been_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once: "it has lost it, or its table or its defences have changed ... or train again".
    with town(tmp_path) as home:
        old = home.train(**OLD)
        original = Sessions.holds_model
        overtaken = False

        def overtaking(sessions: Sessions, session_id: str) -> bool:
            nonlocal overtaken
            if not overtaken:
                overtaken = True
                home.train(**NEW)
            return original(sessions, session_id)

        monkeypatch.setattr(Sessions, "holds_model", overtaking)
        assert home.active.obstacle() == ""
        assert home.active.session_id != old


def test_a_status_takes_no_thread_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with town(tmp_path) as home:
        home.train()
        executor, asked = home.active.executor, list[str]()
        original = executor.submit

        def noted(work: Any, *arguments: Any) -> Any:
            # All parties of the test share these threads: another's work may still come.
            asked.append(getattr(work, "__name__", ""))
            return original(work, *arguments)

        monkeypatch.setattr(executor, "submit", noted)
        assert home.active.obstacle() == ""
    assert "holds_model" not in asked
