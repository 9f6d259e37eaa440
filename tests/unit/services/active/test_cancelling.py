"""A job that is cancelled, or loses a peer, wherever it is: parties without a network, one of which hangs."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.common.errors import Cancelled, OutOfOrder, PeerVanished
from services.common.heartbeat import Answer
from services.party import peer_watch
from tests.harness.parties import ACTIVE, House, Watcher, house, small_settings

SECONDS = 30


@dataclass
class Hang:
    """Where a call to the passive party never comes back, until it is freed."""

    method: str
    reached: threading.Event = field(default_factory=threading.Event)
    freed: threading.Event = field(default_factory=threading.Event)

    def strike(self, home: House) -> None:
        """Have the active party's way to the passive one hang in this method."""
        passive = home.active._passive_parties["passive"]
        honest = getattr(passive, self.method)

        def hanging(*arguments: Any) -> Any:
            self.reached.set()
            assert self.freed.wait(SECONDS)
            return honest(*arguments)

        object.__setattr__(passive, self.method, hanging)


@contextmanager
def hanging_in(folder: Path, method: str) -> Iterator[tuple[House, Hang, Future[Watcher]]]:
    """A house whose job hangs in a call to the passive party."""
    settings = small_settings(cipher="plain", epochs=3)
    with house(folder, settings=settings) as home, ThreadPoolExecutor(1) as operator:
        hang = Hang(method)
        hang.strike(home)
        job = operator.submit(home.train)
        try:
            assert hang.reached.wait(SECONDS)
            yield home, hang, job
        finally:
            hang.freed.set()


METHODS = ["set_up_alignment", "align", "toss", "fix_order", "join", "show_public_key", "run_epoch", "finish_training"]


@pytest.mark.parametrize("method", [*METHODS, "contribute_scores"])
def test_a_cancelled_job_ends_though_a_party_hangs(tmp_path: Path, method: str) -> None:
    with hanging_in(tmp_path, method) as (home, hang, job):
        home.active.cancel()
        with pytest.raises(Cancelled, match=r"^The job was cancelled by the operator\.$"):
            job.result(SECONDS)
        assert not hang.freed.is_set()
        assert home.active.stage == "idle"
        assert home.active.failure == "The job was cancelled by the operator."
        assert not home.active.holds_session("")
        with pytest.raises(OutOfOrder, match="there is nothing to cancel"):
            home.active.cancel()


def test_a_cancelled_session_has_ended_at_every_party(tmp_path: Path) -> None:
    with hanging_in(tmp_path, "run_epoch") as (home, _, job):
        session_id = home.active.session_id
        assert home.active.holds_session(session_id)
        home.active.cancel()
        with pytest.raises(Cancelled):
            job.result(SECONDS)
        for refuse in (
            lambda: home.passive["passive"].show_public_key(ACTIVE, session_id),
            lambda: home.sessions.score(ACTIVE, session_id, 1, np.ones((1, 1))),
        ):
            with pytest.raises(OutOfOrder, match=r"^The session has ended: cancelled by the operator\.$"):
                refuse()


def test_what_a_cancelled_job_still_does_changes_nothing_of_the_next(tmp_path: Path) -> None:
    with hanging_in(tmp_path, "run_epoch") as (home, hang, job):
        home.active.cancel()
        with pytest.raises(Cancelled):
            job.result(SECONDS)
        # Only that call hangs: another job goes round it.
        object.__delattr__(home.active._passive_parties["passive"], "run_epoch")
        watcher = home.train()
        assert home.active.stage == "serving"
        hang.freed.set()
    assert home.active.stage == "serving"
    assert watcher.stages[-1] == "serving"
    assert len(watcher.epochs) == 3


def test_the_served_model_outlives_a_cancelled_job(tmp_path: Path) -> None:
    settings = small_settings(cipher="plain", epochs=1)
    with house(tmp_path, settings=settings) as home, ThreadPoolExecutor(1) as operator:
        home.train()
        served = home.active._serving.newest
        hang = Hang("join")
        hang.strike(home)
        job = operator.submit(home.train)
        assert hang.reached.wait(SECONDS)
        home.active.cancel()
        with pytest.raises(Cancelled):
            job.result(SECONDS)
        hang.freed.set()
        assert home.active.stage == "serving"
        assert home.active._serving.newest is served


@dataclass
class Dying:
    """A coordinator that answers until it dies."""

    dead: threading.Event = field(default_factory=threading.Event)

    def ask(self, session_id: str, seconds: float, answered: Callable[[Answer], None]) -> None:
        answered(Answer.UNREACHABLE if self.dead.is_set() else Answer.KNOWS)


def test_a_job_ends_by_name_when_its_watch_loses_a_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Once: a coordinator killed at step 3 was noticed after all 280.
    monkeypatch.setattr(peer_watch, "INTERVAL_SECONDS", 0.02)
    coordinator = Dying()
    settings = small_settings(cipher="plain", epochs=3)
    with house(tmp_path, settings=settings) as home, ThreadPoolExecutor(1) as operator:
        object.__setattr__(home.active._context, "heartbeats", {"coordinator": coordinator})
        hang = Hang("run_epoch")
        hang.strike(home)
        job = operator.submit(home.train)
        assert hang.reached.wait(SECONDS)
        coordinator.dead.set()
        with pytest.raises(PeerVanished, match=r"^coordinator does not answer: its process has ended"):
            job.result(SECONDS)
        hang.freed.set()
        assert home.active.stage == "failed"


def test_a_passive_party_ends_its_session_when_the_active_one_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_watch, "INTERVAL_SECONDS", 0.02)
    active = Dying()
    with house(tmp_path, settings=small_settings(cipher="plain")) as home:
        passive = home.passive["passive"]
        object.__setattr__(passive._context, "heartbeats", {"active": active})
        session_id = home.sessions.open(ACTIVE, home.settings.plan(), 2, ("passive",))
        passive.set_up_alignment(ACTIVE, session_id, 3)
        ended = threading.Event()
        session = passive._session
        assert session is not None
        session.ending._ended.add_done_callback(lambda _: ended.set())
        active.dead.set()
        assert ended.wait(SECONDS)
        with pytest.raises(OutOfOrder, match=r"^The session has ended: active does not answer: its process has ended"):
            passive.join(ACTIVE, session_id)
        # Still known: nobody who watches this party takes the end of the session for a restart.
        assert passive.holds_session(session_id)
