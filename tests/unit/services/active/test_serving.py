"""The served model stays until another has taken its place at every party, whoever dies in between."""

import itertools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from attacks import load_prediction
from services.common.errors import FederationError, OutOfOrder, PeerVanished
from services.common.run_folder import RunFolder
from services.common.state_folder import StateFolder, StateNotKept
from services.coordinator.sessions import Sessions
from services.party.served_models import ServedModels
from services.passive.party import PassiveParty
from tests.harness.parties import ACTIVE, PASSIVE, values_of, with_values
from tests.harness.restarts import IDS, Killed, town
from vfl.arrays import FloatArray

OLD, NEW = {"epochs": 1}, {"epochs": 2}


def reached(method: Callable[..., Any], strike: Callable[[], None], *, after: bool, at: int = 1) -> Callable[..., Any]:
    """``method``, whose ``at``-th call is struck: ``after`` it has done its work, or before."""
    numbers = itertools.count(1)

    def struck(*arguments: Any, **named: Any) -> Any:
        is_the_one = next(numbers) == at
        if is_the_one and not after:
            strike()
        result = method(*arguments, **named)
        if is_the_one and after:
            strike()
        return result

    return struck


def die() -> None:
    raise Killed


# Each is a place in a second job: whose method, at which call, before or after it; and whose model answers afterwards.
# A job begins by telling everybody once more which model is served: the first calls are those.
POINTS = [
    pytest.param(PassiveParty, "finish_training", 1, False, OLD, id="before anybody keeps the new one"),
    pytest.param(PassiveParty, "finish_training", 1, True, OLD, id="after one passive party keeps it"),
    pytest.param(PassiveParty, "finish_training", 2, True, OLD, id="after both passive parties keep it"),
    pytest.param(ServedModels, "keep_candidate", 3, False, OLD, id="before the active party keeps it"),
    pytest.param(ServedModels, "keep_candidate", 3, True, NEW, id="after the active party keeps it"),
    pytest.param(Sessions, "serve", 2, False, NEW, id="before the coordinator serves it"),
    pytest.param(Sessions, "serve", 2, True, NEW, id="after the coordinator serves it"),
    pytest.param(PassiveParty, "serve_model", 3, True, NEW, id="after one passive party serves it"),
    pytest.param(PassiveParty, "serve_model", 4, True, NEW, id="after both passive parties serve it"),
    pytest.param(ServedModels, "serve", 5, False, NEW, id="before the active party serves it"),
    pytest.param(ServedModels, "serve", 5, True, NEW, id="after the active party serves it"),
]


@cache
def scores_after(epochs: int) -> FloatArray:
    with TemporaryDirectory() as folder, town(Path(folder), parties=3, private_seed=1) as home:
        home.train(epochs=epochs)
        return home.scores()


def assert_alike(scores: FloatArray, others: FloatArray) -> None:
    """Of another session the rows stand batch by batch, so that sums are rounded in another order."""
    np.testing.assert_allclose(scores, others, rtol=0, atol=1e-12)


def expected(plan: dict[str, int]) -> FloatArray:
    """The scores of a federation that trained this plan and nothing else."""
    return scores_after(**plan)


@pytest.mark.parametrize(
    "everybody", [pytest.param(False, marks=pytest.mark.thorough), True], ids=["active dies", "all die"]
)
@pytest.mark.parametrize(("kind", "method", "at", "after", "plan"), POINTS)
def test_wherever_a_second_job_dies_all_parties_answer_with_the_same_model(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    method: str,
    at: int,
    after: bool,
    plan: dict[str, Any],
    everybody: bool,
) -> None:
    with town(tmp_path / "town", parties=3, private_seed=1) as home:
        home.train(**OLD)
        with monkeypatch.context() as patch:
            patch.setattr(kind, method, reached(getattr(kind, method), die, after=after, at=at))
            with pytest.raises(Killed):
                home.train(**NEW)
        home.restart(*(home.names if everybody else ["active"]))
        assert home.active.stage == "serving"
        assert home.active.obstacle() == ""
        answered = home.scores()
        assert_alike(answered, expected(plan))
        # And what comes next works.
        home.train(**OLD)
        home.restart(*home.names)
        assert_alike(home.scores(), expected(OLD))


@pytest.mark.parametrize("name", ["coordinator", "passive-1", "passive-2"])
@pytest.mark.parametrize("after", [False, True], ids=["before it serves", "after it serves"])
def test_a_party_that_dies_in_the_switch_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, after: bool
) -> None:
    with town(tmp_path / "town", parties=3, private_seed=1) as home:
        old = home.train(**OLD)
        kind: Any = Sessions if name == "coordinator" else PassiveParty
        method = "serve" if name == "coordinator" else "serve_model"
        original = getattr(kind, method)

        def dying(party: Any, caller: Any, session_id: str) -> None:
            arguments = caller, session_id
            dies = party is home.running.get(name) and session_id != old
            if after or not dies:
                original(party, *arguments)
            if dies:
                home.kill(name)
                raise PeerVanished(f"{name} does not answer: the call was cut off.")

        with monkeypatch.context() as patch:
            patch.setattr(kind, method, dying)
            home.train(**NEW)
        assert f"{name} does not answer" in home.active.obstacle()
        with pytest.raises(PeerVanished, match=name):
            home.scores()
        home.start(name)
        assert home.active.obstacle() == ""
        assert_alike(home.scores(), expected(NEW))


def test_a_refused_a_failed_and_an_ended_retrain_leave_the_model_that_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OutOfOrder("The owner is on holiday.")

    with town(tmp_path, parties=3) as home:
        session = home.train()
        before = home.scores()

        def fails(words: str, **plan: Any) -> None:
            with pytest.raises(FederationError, match=words):
                home.train(**plan)
            assert home.active.stage == "failed"
            assert home.active.session_id == session
            assert home.active.obstacle() == ""
            np.testing.assert_array_equal(home.scores(), before)

        fails("batch of 5000 is larger", batch_size=5000)
        for name in ("join", "run_epoch", "finish_training"):
            with monkeypatch.context() as patch:
                patch.setattr(PassiveParty, name, broken)
                fails("on holiday")
        with monkeypatch.context() as patch:
            # Trained to its end and kept by the passive parties, and then its test fails.
            patch.setattr(Sessions, "score", reached(Sessions.score, lambda: broken(), after=False, at=3))
            fails("on holiday")
        home.kill("passive-2")
        with pytest.raises(PeerVanished, match="passive-2"):
            home.train()
        home.start("passive-2")
        np.testing.assert_array_equal(home.scores(), before)
        home.restart(*home.names)
        np.testing.assert_array_equal(home.scores(), before)


def test_records_are_those_of_the_model_that_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise OutOfOrder("The owner is on holiday.")

    def recorded(name: str) -> str:
        agreement = RunFolder(tmp_path).record(name).agreement
        assert agreement is not None
        return agreement.session_id

    with town(tmp_path) as home:
        session = home.train()
        with pytest.raises(FederationError):
            home.train(batch_size=5000)
        # As each process does when it stops; then one that has only served, and one whose job has failed.
        for fails in (False, True):
            for name in home.data:
                home.running[name]._context.record.write()
                assert recorded(name) == session
            home.restart(*home.names)
            home.scores()
            if fails:
                with monkeypatch.context() as patch:
                    patch.setattr(PassiveParty, "run_epoch", broken)
                    with pytest.raises(OutOfOrder, match="on holiday"):
                        home.train()
        for name in home.data:
            home.running[name]._context.record.write()
            assert recorded(name) == session
        assert home.train() == recorded("active") == recorded("passive")


def test_attacks_go_on_after_a_restart_behind_what_they_found_before(tmp_path: Path) -> None:
    with town(tmp_path, attacks={"half": load_prediction("half")}) as home:
        home.train()

        def found() -> list[tuple[int, int]]:
            home.active._attacks._threads.shutdown()
            outcomes = RunFolder(tmp_path).prediction_outcomes()
            assert all(outcome.is_done for outcome in outcomes)
            return [(outcome.batch, outcome.records) for outcome in outcomes]

        tests = RunFolder(tmp_path).estimates(0).rows.tolist()
        home.scores(IDS[:3])
        before = found()
        assert before == [(0, len(tests)), (1, 3)]
        home.restart(*home.names)
        home.scores(IDS[:4])
        # Once, after a restart, the next batch would have been number 0 and have taken the test records' place.
        assert found() == [*before, (2, 4)]
        assert RunFolder(tmp_path).estimates(0).rows.tolist() == tests


def test_predicting_goes_on_while_another_model_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with town(tmp_path, parties=3) as home:
        home.train(**OLD)
        before = home.scores()
        seen = []

        def ask() -> None:
            seen.append(home.scores())

        for kind, method in ((PassiveParty, "align"), (PassiveParty, "run_epoch"), (PassiveParty, "finish_training")):
            monkeypatch.setattr(kind, method, reached(getattr(kind, method), ask, after=False))
        monkeypatch.setattr(ServedModels, "keep_candidate", reached(ServedModels.keep_candidate, ask, after=True))
        home.train(**NEW)
        assert len(seen) == 4
        for answered in seen:
            np.testing.assert_array_equal(answered, before)
        assert np.abs(home.scores() - before).max() > 1e-6


def test_a_question_that_another_model_overtakes_is_answered_by_that_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with town(tmp_path, parties=3) as home:
        home.train(**OLD)
        before = home.scores()
        original = PassiveParty.contribute_scores
        overtaken = False

        def overtaking(self: PassiveParty, caller: Any, session_id: str, *rest: Any) -> None:
            nonlocal overtaken
            if not overtaken and self.name == "passive-1":
                overtaken = True
                home.train(**NEW)
            original(self, caller, session_id, *rest)

        monkeypatch.setattr(PassiveParty, "contribute_scores", overtaking)
        after = home.scores()
        assert np.abs(after - before).max() > 1e-6
        np.testing.assert_array_equal(home.scores(), after)


def test_a_served_session_is_ended_by_nobody_and_aligned_by_nobody_again(tmp_path: Path) -> None:
    with town(tmp_path) as home:
        session = home.train()
        before = home.scores()
        for caller in (ACTIVE, PASSIVE):
            home.sessions.end(caller, session, "enough.")
        home.passive().end_session(ACTIVE, session, "enough.")
        np.testing.assert_array_equal(home.scores(), before)
        home.restart(*home.names)
        with pytest.raises(OutOfOrder, match="begun its alignment already"):
            home.passive().set_up_alignment(ACTIVE, session, 5)
        np.testing.assert_array_equal(home.scores(), before)


def test_a_disk_that_is_full_stops_a_job_before_its_work_and_in_the_switch_leaves_the_old_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: StateFolder, name: str, *_: Any) -> None:
        raise StateNotKept("passive can't write its state (No space left on device): it needs room.")

    with town(tmp_path) as home:
        home.train(**OLD)
        before = home.scores()
        stages: list[str] = []
        original = StateFolder.write
        for name in ("passive", "active"):

            def writing(self: StateFolder, file: str, content: bytes, name: str = name) -> None:
                if self.path.name == name:
                    full(self, file)
                original(self, file, content)

            with monkeypatch.context() as patch:
                patch.setattr(StateFolder, "write", writing)
                patch.setattr(PassiveParty, "run_epoch", lambda *_: stages.append("trains"))
                with pytest.raises(OutOfOrder, match="No space left on device"):
                    home.train(**NEW)
        assert stages == []
        with monkeypatch.context() as patch:
            patch.setattr(ServedModels, "_write", full)
            with pytest.raises(OutOfOrder, match="No space left on device"):
                home.train(**NEW)
        np.testing.assert_array_equal(home.scores(), before)
        home.train(**NEW)
        assert np.abs(home.scores() - before).max() > 1e-6


def test_a_party_that_lost_its_state_is_named_with_what_to_do(tmp_path: Path) -> None:
    with town(tmp_path, parties=3) as home:
        assert home.active.obstacle() == "There is no trained model to ask (stage: idle). Train first."
        home.train()
        assert home.active.obstacle() == ""
        home.kill("passive-2")
        for file in (tmp_path / "state" / "passive-2").iterdir():
            file.unlink()
        home.start("passive-2")
        assert home.active.obstacle().startswith("passive-2 can't answer for this model: it has lost it")
        assert "train again" in home.active.obstacle()
        with pytest.raises(FederationError):
            home.scores()
        home.train()
        assert home.active.obstacle() == ""


@pytest.mark.parametrize("name", ["active", "passive"])
def test_a_changed_table_answers_nothing_until_it_is_put_back(tmp_path: Path, name: str) -> None:
    with town(tmp_path) as home:
        home.train()
        before = home.scores()
        table = home.data[name]
        values = values_of(table)
        values[7, 0] += 2.0**-20
        home.kill(name)
        home.data[name] = with_values(table, values)
        home.start(name)
        with pytest.raises(OutOfOrder, match=f"{name}'s table, or how it is encoded, has changed"):
            home.scores()
        assert name in home.active.obstacle()
        home.kill(name)
        home.data[name] = table
        home.start(name)
        np.testing.assert_array_equal(home.scores(), before)


def test_a_switch_that_a_party_without_its_state_holds_up_gives_way_to_another_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with town(tmp_path / "town") as home:
        old = home.train(**OLD)

        def lost(self: PassiveParty, _: Any, session_id: str) -> None:
            if session_id == old:
                return
            home.kill("passive")
            for file in (tmp_path / "town" / "state" / "passive").iterdir():
                file.unlink()
            raise PeerVanished("passive does not answer: the call was cut off.")

        with monkeypatch.context() as patch:
            patch.setattr(PassiveParty, "serve_model", lost)
            home.train(**NEW)
        with pytest.raises(PeerVanished, match="passive"):
            home.train(**NEW)
        home.start("passive")
        with pytest.raises(FederationError, match="passive has no finished model"):
            home.scores()
        home.train(**NEW)
        assert home.active.obstacle() == ""
        assert len(home.scores())
