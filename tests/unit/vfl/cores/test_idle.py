"""Pieces of work run while somebody waits, and only then."""

import threading

import pytest

from vfl.cores.idle import IdleTime

HANGS = 20.0


class Work:
    """So many pieces; the last one that begins can be held."""

    def __init__(self, pieces: int) -> None:
        self.left = pieces
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self) -> bool:
        if not self.left:
            return False
        self.left -= 1
        self.begun.release()
        assert self.may_end.wait(HANGS)
        return True

    def await_begun(self, pieces: int) -> None:
        for _ in range(pieces):
            assert self.begun.acquire(timeout=HANGS)


def test_all_pieces_are_done_while_somebody_waits_and_no_thread_before() -> None:
    work = Work(3)
    idle = IdleTime(work)
    with idle.computing():
        assert idle._thread is None
    with idle.waiting():
        work.await_begun(3)
    idle.close()
    assert idle._thread is not None
    idle._thread.join(HANGS)
    assert not idle._thread.is_alive()
    assert work.left == 0


def test_no_piece_begins_when_the_wait_is_over_or_an_answer_is_computed() -> None:
    work = Work(5)
    work.may_end.clear()
    idle = IdleTime(work)
    with idle.waiting():
        work.await_begun(1)
    # The piece that had begun ends, and no other follows it.
    work.may_end.set()
    assert not work.begun.acquire(timeout=0.1)
    with idle.computing(), idle.waiting():
        assert not work.begun.acquire(timeout=0.1)
    with idle.waiting():
        work.await_begun(4)
    idle.close()
    assert work.left == 0


def test_work_that_appears_later_is_done_in_the_next_wait() -> None:
    work = Work(1)
    idle = IdleTime(work)
    for _ in range(3):
        with idle.waiting():
            work.await_begun(1)
        work.left = 1
    idle.close()


def test_a_piece_that_fails_ends_the_work_ahead_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> bool:
        raise OSError("No room.")

    idle = IdleTime(failing)
    with idle.waiting():
        assert idle._thread is not None
        idle._thread.join(HANGS)
    assert "Nothing is made ahead any more: No room." in caplog.text
    with idle.waiting():
        pass
    idle.close()


def test_a_closed_one_starts_nothing() -> None:
    work = Work(1)
    idle = IdleTime(work)
    idle.close()
    with idle.waiting():
        assert idle._thread is None
    assert work.left == 1
