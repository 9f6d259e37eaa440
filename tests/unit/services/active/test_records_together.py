"""Single records that are asked about together by real parties: the same scores and the same refusals as alone."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from defences import load
from services.common.errors import FederationError, NotAllowed, OutOfOrder, UnknownRecord
from services.coordinator.sessions import Sessions
from services.network.deadlines import answering_within, current_deadline
from services.passive.party import PassiveParty
from tests.harness.parties import ACTIVE, House, house, small_settings
from vfl.arrays import FloatArray

PLAIN = small_settings(cipher="plain")
SECONDS = 30
# Those of the smallest of the house's tables.
IDS = [f"id-{row}" for row in range(5, 60)]
DEFENCES = ["score_rounding", "score_noise", "score_scheme1", "score_scheme2", "score_scheme3", "class_label"]


class Held:
    """The house's next request is held at the passive party, while others come."""

    def __init__(self, home: House, patch: pytest.MonkeyPatch, executor: ThreadPoolExecutor) -> None:
        self.sizes: list[int] = []
        self._home = home
        self._executor = executor
        self._reached, self._freed = threading.Event(), threading.Event()
        original = PassiveParty.contribute_scores

        def contribute(
            party: PassiveParty, caller: Any, session: str, request: int, rows: Sequence[int], *on: Any
        ) -> Any:
            self.sizes.append(len(rows))
            if len(self.sizes) == 1:
                self._reached.set()
                assert self._freed.wait(SECONDS)
            return original(party, caller, session, request, rows, *on)

        patch.setattr(PassiveParty, "contribute_scores", contribute)
        self.first = self._executor.submit(home.active.predict_one, IDS[0])
        assert self._reached.wait(SECONDS)

    def waits(self, record: str) -> Future[FloatArray]:
        """A caller that waits behind the held request when this returns."""
        is_waiting = threading.Event()

        def on_end(_: Callable[[], None]) -> bool:
            is_waiting.set()
            return True

        call = self._executor.submit(self._home.active.predict_one, record, on_end)
        assert is_waiting.wait(SECONDS)
        return call

    def free(self) -> None:
        self._freed.set()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is sent away for waiting: on a busy machine the others are late."""
    monkeypatch.setattr("services.active.coalescing._LONGEST_WAIT_SECONDS", 600.0)


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(64) as made:
        yield made


@contextmanager
def trained(folder: Path, defence: str | None = None) -> Iterator[House]:
    defences = [load(defence)] if defence else []
    with house(folder, settings=PLAIN, score_defences=defences) as home:
        home.train()
        yield home


@pytest.mark.parametrize("defence", [None, *DEFENCES])
def test_records_that_waited_get_the_very_scores_that_each_gets_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: ThreadPoolExecutor, defence: str | None
) -> None:
    with trained(tmp_path, defence) as home:
        asked_before = {record: home.active.predict_one(record) for record in IDS[1:20]}
        held = Held(home, monkeypatch, executor)
        calls = {record: held.waits(record) for record in IDS[1:40]}
        stranger = held.waits("stranger")
        held.free()
        together = {record: call.result(SECONDS) for record, call in calls.items()}
        with pytest.raises(UnknownRecord, match="not among the aligned"):
            stranger.result(SECONDS)
        assert held.sizes == [1, 39]
        for record, scores in together.items():
            np.testing.assert_array_equal(scores, home.active.predict_one(record), strict=True)
            np.testing.assert_array_equal(scores, asked_before.get(record, scores))


def test_a_record_that_the_coordinator_refuses_fails_its_own_caller_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: ThreadPoolExecutor
) -> None:
    with trained(tmp_path, "class_label") as home:
        model = home.active._serving.newest
        assert model is not None
        row = model.row_of_id["id-7"]
        # Asked about by an active party that lied: what it is told now is no second answer.
        home.passive["passive"].contribute_scores(ACTIVE, model.session_id, 1, [row])
        home.sessions.score(ACTIVE, model.session_id, 1, model.model.partial_scores([row]) + 0.5)
        with pytest.raises(NotAllowed) as alone:
            home.active.predict([("id-7")])
        held = Held(home, monkeypatch, executor)
        good = {record: held.waits(record) for record in IDS[5:10]}
        bad = held.waits("id-7")
        held.free()
        with pytest.raises(NotAllowed, match="once per record") as together:
            bad.result(SECONDS)
        assert str(together.value) == str(alone.value)
        for record, call in good.items():
            np.testing.assert_array_equal(call.result(SECONDS), home.active.predict_one(record))
        # One request held, one refused, each of six alone; and whoever insists is alone from then on.
        assert held.sizes[:8] == [1, 6, *[1] * 6]
        with pytest.raises(NotAllowed):
            home.active.predict_one("id-7")


def test_records_that_wait_while_another_model_takes_its_place_are_answered_by_one_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: ThreadPoolExecutor
) -> None:
    with trained(tmp_path) as home:
        old = home.active.predict(IDS)
        held = Held(home, monkeypatch, executor)
        calls = {record: held.waits(record) for record in IDS[1:20]}
        home.train(epochs=3)
        held.free()
        new = {record: home.active.predict_one(record) for record in IDS}
        assert not any(np.array_equal(new[record], old[record]) for record in IDS)
        for record, call in calls.items():
            np.testing.assert_array_equal(call.result(SECONDS), new[record])
        np.testing.assert_array_equal(held.first.result(SECONDS), new[IDS[0]])


def test_without_a_model_everybody_who_waited_is_told_so(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    def said(record: str) -> str:
        with pytest.raises(FederationError) as refused:
            home.active.predict_one(record)
        return str(refused.value)

    with house(tmp_path, settings=PLAIN) as home:
        words = set(executor.map(said, IDS, timeout=SECONDS))
        assert words == {"There is no trained model to ask (stage: idle). Train first."}
        home.train()
        # What was refused then is answered now.
        assert all(len(scores) == 2 for scores in executor.map(home.active.predict_one, IDS, timeout=SECONDS))


def test_a_passive_party_is_asked_within_the_callers_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it was waited for as long as a step may take: the caller's time was up, and nobody was named."""
    deadlines: list[float] = []

    def contribute(*_: Any) -> None:
        deadlines.append(current_deadline())
        raise OutOfOrder("not now")

    with trained(tmp_path) as home:
        monkeypatch.setattr(PassiveParty, "contribute_scores", contribute)
        for seconds in (50.0, None):
            with answering_within(seconds), pytest.raises(OutOfOrder, match="not now"):
                home.active.predict_one(IDS[0])
    assert deadlines == [pytest.approx(time.monotonic() + 50, abs=40), np.inf]


def test_a_share_that_is_refused_says_so_in_its_own_words_and_nobody_asks_early_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    original = Sessions.score

    def score(sessions: Sessions, caller: Any, session: str, request: int, products: Any) -> Any:
        asked.append(sessions._sessions[session].has_shares_of(request))
        return original(sessions, caller, session, request, products)

    def refuse(*_: Any) -> None:
        raise OutOfOrder("not now")

    with trained(tmp_path) as home:
        monkeypatch.setattr(Sessions, "score", score)
        with monkeypatch.context() as refusing:
            refusing.setattr(PassiveParty, "contribute_scores", refuse)
            for _ in range(2):
                with pytest.raises(OutOfOrder, match="not now"):
                    home.active.predict_one(IDS[0])
        assert asked == [False], "the second time nobody waited in vain"
        home.active.predict_one(IDS[0])
        assert asked == [False, True]
