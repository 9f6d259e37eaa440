"""What is kept of a training at work: the same when it is read again, and refused by name when it isn't whole."""

import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from services.common.agreement import TrainingPlan
from services.common.errors import OutOfOrder
from services.common.identity import Identity, Role
from services.common.state_folder import State, StateError, StateFolder, StateNotKept
from services.exchange.answers import Answered
from services.exchange.vectors import DecryptedVector, WireVector
from services.party import training_log
from services.party.resumption import Resumption
from services.party.step_notes import ALL_STEPS
from services.party.training_log import EPOCHS, STEPS, TRAINING, KeptTerms, TrainingLog, kept_training
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
    log.spend("active", 1, Answered.of(QUESTION, ANSWER))
    log.go_on(Resumption(1, frozenset({1}), attempt=3), by="active", waited=2.5, anew=False)
    log.complete(1, np.ones((2, 1)), is_skipped=True)
    log.spend("active", 2, Answered.of(QUESTION, ANSWER))
    log.keep_part(0, {"weights": np.ones((2, 1))})
    kept = kept_training(state, "passive")
    assert kept is not None
    assert kept.log.completed == 2
    assert kept.log.skipped == (1,)
    assert (kept.log.attempt, kept.log.interruptions, kept.log.waited) == (3, {"active": 1}, 2.5)
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


def test_notes_and_large_messages_last_as_long_as_their_step_can_be_done_again(tmp_path: Path) -> None:
    state = folder(tmp_path)
    log = begun(state)
    log.notes.note(ALL_STEPS, "key", b"secret")
    for step in range(3):
        log.notes.note(step, "sums", bytes([step]))
        log.keep_message(step, b"derivatives %d" % step)
    generation = log.generation
    log.keep_notes()
    kept = kept_training(state, "passive")
    assert kept is not None
    assert kept.log.generation == generation + 1
    assert [kept.log.notes.of(step, "sums") for step in range(4)] == [b"\0", b"\1", b"\2", None]
    assert [kept.log.kept_message(step) for step in range(4)] == [None, b"derivatives 1", b"derivatives 2", None]
    log.complete(1, np.ones((2, 1)))
    kept = kept_training(state, "passive")
    assert kept is not None
    assert [kept.log.notes.of(step, "sums") for step in range(3)] == [None, b"\1", b"\2"]
    assert kept.log.notes.of(ALL_STEPS, "key") == b"secret"
    # Another session's is none.
    assert begun(state, session_id="b" * 32).kept_message(2) is None


def test_notes_that_cannot_be_written_are_not_counted_as_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = folder(tmp_path)
    log = begun(state)

    def full(*_: object) -> None:
        raise StateNotKept("no room")

    monkeypatch.setattr(state, "write", full)
    generation = log.generation
    with pytest.raises(StateNotKept):
        log.keep_notes()
    assert log.generation == generation


def test_nothing_is_kept_of_a_training_that_is_over(tmp_path: Path) -> None:
    state = folder(tmp_path)
    log = begun(state)
    log.keep_message(0, b"derivatives")
    log.forget()
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
        log.spend("active", step, Answered.of(QUESTION, ANSWER))
        log.complete(step, np.full((2, 1), float(step)))
    assert log.place(frozenset()).answered == {3: frozenset({"active"})}
    with pytest.raises(KeyError):
        log.weights(2)


@pytest.mark.parametrize("name", [TRAINING, EPOCHS])
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


def test_steps_that_are_cut_off_are_refused_by_name_or_are_whole(tmp_path: Path) -> None:
    with closing(folder(tmp_path)) as state:
        begun(state).complete(0, np.ones((2, 1)))
        expected = state.read(STEPS)
    whole, refused = (tmp_path / STEPS).read_bytes(), 0
    for size in {*range(0, len(whole), 211), len(whole) - 1}:
        (tmp_path / STEPS).write_bytes(whole[:size])
        with closing(folder(tmp_path)) as state:
            if _is_refused(state):
                refused += 1
            else:
                assert state.read(STEPS) == expected
    assert refused > len(whole) // 211 // 2
    (tmp_path / STEPS).write_bytes(whole)
    with closing(folder(tmp_path)) as state:
        assert kept_training(state, "passive") is not None


def _is_refused(state: State) -> bool:
    """Whether a training is refused, with the steps' name."""
    try:
        return kept_training(state, "passive") is None
    except StateError as error:
        if STEPS not in str(error):
            raise
        return True


def test_steps_of_another_session_and_missing_ones_are_refused(tmp_path: Path) -> None:
    state = folder(tmp_path)
    begun(state)
    whole = state.read(STEPS)
    assert whole is not None
    state.remove(STEPS)
    with pytest.raises(StateError, match=r"steps\.sqlite3, which isn't there beside training\.npz"):
        kept_training(state, "passive")
    begun(state, session_id="f" * 32)
    state.write(STEPS, whole)
    with pytest.raises(StateError, match=r"steps\.sqlite3, which is of another session than training\.npz"):
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
        log.spend("active", 0, Answered.of(QUESTION, ANSWER))
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
    kept.log.go_on(Resumption(1), by="active", waited=0.0, anew=True)
    again = kept_training(state, "passive")
    assert again is not None
    assert again.log.completed == 1
    with pytest.raises(KeyError):
        again.log.weights(2)


def test_a_right_that_is_spent_or_passed_over_never_comes_back_whatever_the_training_goes_back_to(
    tmp_path: Path,
) -> None:
    state = folder(tmp_path)
    log = begun(state)
    for step in range(3):
        log.complete(step, np.ones((2, 1)))
    assert [log.owes("active", step) for step in range(5)] == [False, False, True, True, True]
    log.spend("active", 3, Answered.of(QUESTION, ANSWER))
    # Its progress is undone, a step passed over, and the folder read anew: nothing is owed once more.
    log.go_on(Resumption(2, frozenset({2}), attempt=1), by="active", waited=0.0, anew=False)
    kept = kept_training(state, "passive")
    assert kept is not None
    for known in (log, kept.log):
        assert [known.owes("active", step) for step in range(5)] == [False, False, False, False, True]
        assert known.owes("third", 3)
        for step in (0, 1, 2):
            with pytest.raises(OutOfOrder, match=f"active has no right to an answer in step {step}"):
                known.spend("active", step, Answered.of(QUESTION, ANSWER))
    log.go_on(Resumption(3, attempt=2), by="active", waited=0.0, anew=False)
    assert not log.owes("third", 2)


def test_what_cant_be_kept_of_an_interruption_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = folder(tmp_path)
    log = begun(state)
    log.complete(0, np.ones((2, 1)))
    before = (log.place(frozenset()), log.steps_kept, log.interruptions)
    monkeypatch.setattr(state, "write", no_room)
    with pytest.raises(StateNotKept):
        log.go_on(Resumption(0, frozenset({0}), attempt=1), by="active", waited=1.0, anew=True)
    assert (log.place(frozenset()), log.steps_kept, log.interruptions) == before
    assert log.waited == 0.0
