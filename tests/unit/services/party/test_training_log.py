"""What is kept of a training at work: the same when it is read again, and refused by name when it isn't whole."""

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from services.common.agreement import TrainingPlan
from services.common.errors import OutOfOrder
from services.common.identity import Identity, Role
from services.common.state_folder import State, StateError, StateFolder, StateNotKept
from services.party import training_log
from services.party.training_log import EPOCHS, STEPS, TRAINING, KeptTerms, TrainingLog, kept_training
from services.protocol1.answers import Answered
from services.protocol1.vectors import DecryptedVector, WireVector
from tests.harness.exchanges import Problem
from vfl.crypto.sharing.shares import Shares

QUESTION = WireVector("key", 2, 4, -30, b"question")
ANSWER = DecryptedVector(2, 3, b"answer")


def problem() -> Problem:
    blocks = {name: np.random.default_rng(1).uniform(size=(20, 2)) for name in ("active", "passive")}
    return Problem(blocks, np.arange(20) % 2, 2)


def begun(state: State, party: str = "passive", session_id: str = "a" * 32) -> TrainingLog:
    log = TrainingLog(state)
    log.start(np.zeros((2, 1)))
    terms = replace(problem().agreement(TrainingPlan(batch_size=5, key_bits=512)), session_id=session_id)
    log.begin(KeptTerms(terms, party, np.arange(20)[::-1], "table", "features"))
    return log


def folder(path: Path, party: str = "passive") -> StateFolder:
    return StateFolder(path, Identity(Role.PASSIVE, party))


def test_a_training_is_read_as_it_was_kept(tmp_path: Path) -> None:
    state = folder(tmp_path)
    log = begun(state)
    log.complete(0, np.ones((2, 1)), {"velocity": np.full((2, 1), 0.5), "top_step_0": np.float32(3)})
    before = kept_training(state, "passive")
    assert before is not None
    assert before.log.carried(0) == {}
    assert {name: float(np.max(one)) for name, one in before.log.carried(1).items()} == {
        "velocity": 0.5,
        "top_step_0": 3.0,
    }
    log.keep_answer("active", 1, Answered.of(QUESTION, ANSWER))
    log.skip({1})
    log.complete(1, np.ones((2, 1)), is_skipped=True)
    log.keep_answer("active", 2, Answered.of(QUESTION, ANSWER))
    log.keep_part(0, {"weights": np.ones((2, 1))})
    kept = kept_training(state, "passive")
    assert kept is not None
    assert kept.log.completed == 2
    assert kept.log.skipped == (1,)
    assert kept.log.token_key == log.token_key
    assert kept.log.place(frozenset()) == log.place(frozenset())
    np.testing.assert_array_equal(kept.log.weights(1), log.weights(1))
    np.testing.assert_array_equal(kept.log.parts[0]["weights"], np.ones((2, 1)))
    np.testing.assert_array_equal(kept.terms.order, np.arange(20)[::-1])
    again = kept.log.answered("active", 2)
    assert again is not None
    assert again.again(QUESTION, 2) == ANSWER
    with pytest.raises(OutOfOrder, match="Different sums of step 2 were answered already; a step is answered once"):
        again.again(WireVector("key", 2, 4, -30, b"Question"), 2)


def test_nothing_is_kept_of_a_training_that_is_over(tmp_path: Path) -> None:
    state = folder(tmp_path)
    begun(state).forget()
    assert kept_training(state, "passive") is None
    assert {path.name for path in tmp_path.iterdir()} == {"owner.json", "lock"}


def test_a_step_that_is_at_work_when_the_training_is_forgotten_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = folder(tmp_path)
    log, write = begun(state), state.write
    forgetting = threading.Thread(target=log.forget)

    def cancelled_meanwhile(name: str, content: bytes) -> None:
        forgetting.start()
        forgetting.join(0.1)  # it waits for this write
        write(name, content)

    monkeypatch.setattr(state, "write", cancelled_meanwhile)
    log.complete(0, np.ones((2, 1)))
    forgetting.join()
    log.complete(1, np.ones((2, 1)))
    assert {path.name for path in tmp_path.iterdir()} == {"owner.json", "lock"}


def test_only_the_last_two_steps_are_kept(tmp_path: Path) -> None:
    log = begun(folder(tmp_path))
    for step in range(4):
        log.keep_answer("active", step, Answered.of(QUESTION, ANSWER))
        log.complete(step, np.full((2, 1), float(step)))
    assert log.place(frozenset()).answered == {3: frozenset({"active"})}
    with pytest.raises(KeyError):
        log.weights(2)


@pytest.mark.parametrize("name", [TRAINING, STEPS, EPOCHS])
def test_a_file_that_is_cut_off_is_refused_by_name_and_stays(tmp_path: Path, name: str) -> None:
    state = folder(tmp_path)
    log = begun(state)
    log.keep_part(0, {"weights": np.ones((2, 1))})
    whole = (tmp_path / name).read_bytes()
    for size in {*range(0, len(whole), 37), len(whole) - 1}:
        (tmp_path / name).write_bytes(whole[:size])
        with pytest.raises(StateError, match=name.replace(".", r"\.")):
            kept_training(state, "passive")
        assert (tmp_path / name).read_bytes() == whole[:size]
    (tmp_path / name).write_bytes(whole)
    assert kept_training(state, "passive") is not None


def test_steps_of_another_session_and_missing_ones_are_refused(tmp_path: Path) -> None:
    state = folder(tmp_path)
    begun(state)
    whole = (tmp_path / STEPS).read_bytes()
    (tmp_path / STEPS).unlink()
    with pytest.raises(StateError, match=r"steps\.npz, which isn't there beside training\.npz"):
        kept_training(state, "passive")
    begun(state, session_id="f" * 32)
    (tmp_path / STEPS).write_bytes(whole)
    with pytest.raises(StateError, match=r"steps\.npz, which is of another session than training\.npz"):
        kept_training(state, "passive")


def test_a_training_that_another_version_has_written_is_refused_by_name_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = folder(tmp_path)
    with monkeypatch.context() as other:
        other.setattr(training_log, "_VERSION", 999)
        begun(state)
    written = (tmp_path / TRAINING).read_bytes()
    with pytest.raises(StateError, match=r"training\.npz .* is of version 999, .* reads \d+: start the version that"):
        kept_training(state, "passive")
    assert (tmp_path / TRAINING).read_bytes() == written


def test_another_partys_training_is_refused(tmp_path: Path) -> None:
    state = folder(tmp_path)
    begun(state, party="clinic")
    with pytest.raises(StateError, match="is clinic's, and this is passive"):
        kept_training(state, "passive")


def no_room(name: str, content: bytes) -> None:
    raise StateNotKept("no room")


def test_an_answer_that_cant_be_kept_is_as_if_it_was_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = folder(tmp_path)
    log = begun(state)
    monkeypatch.setattr(state, "write", no_room)
    with pytest.raises(StateNotKept):
        log.keep_answer("active", 0, Answered.of(QUESTION, ANSWER))
    assert log.answered("active", 0) is None


def test_shares_are_read_as_they_were_kept_and_nothing_behind_the_step_to_go_back_to(tmp_path: Path) -> None:
    state = folder(tmp_path)
    log = begun(state)
    before, after = (Shares(np.array([[sign * 3**70], [1 - sign]], dtype=object), 52) for sign in (1, -1))
    log.complete(0, before)
    log.complete(1, after, {"velocity": before.rescaled(40)})
    kept = kept_training(state, "passive")
    assert kept is not None
    for step, shares in ((1, before), (2, after)):
        assert kept.log.weights(step).fraction_bits == 52
        assert (kept.log.weights(step).integers == shares.integers).all()
    velocity = kept.log.carried(2)["velocity"]
    assert velocity.fraction_bits == 40
    assert (velocity.integers == before.rescaled(40).integers).all()
    # Another party is a step behind: shares of two tries of a step don't add up.
    kept.log.go_back(1)
    again = kept_training(state, "passive")
    assert again is not None
    assert again.log.completed == 1
    with pytest.raises(KeyError):
        again.log.weights(2)
