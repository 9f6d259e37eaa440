"""However many ask at once, the work is done once."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from services.active.coalescing import SharedCall
from services.common.errors import OutOfOrder, PeerVanished

SECONDS = 20
PATIENT = {"patience": SECONDS}


def test_who_comes_meanwhile_shares_the_result_and_who_comes_later_begins_anew() -> None:
    numbers = itertools.count(1)
    begun, freed = threading.Event(), threading.Event()

    def work() -> int:
        begun.set()
        assert freed.wait(SECONDS)
        return next(numbers)

    shared = SharedCall(work, **PATIENT)
    with ThreadPoolExecutor(4) as askers:
        first = askers.submit(shared)
        assert begun.wait(SECONDS)
        call = shared._call
        others = [askers.submit(shared) for _ in range(3)]
        # None of them comes back by itself.
        assert not wait(others, timeout=0.2).done
        assert shared._call is call
        freed.set()
        assert [asker.result(SECONDS) for asker in (first, *others)] == [1, 1, 1, 1]
        assert shared() == 2


def test_an_error_is_shared_too_and_never_given_again() -> None:
    outcomes = iter([PeerVanished("passive does not answer."), None])
    begun, freed = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert freed.wait(SECONDS)
        if error := next(outcomes):
            raise error

    shared = SharedCall(work, **PATIENT)
    with ThreadPoolExecutor(2) as askers:
        both = [askers.submit(shared)]
        assert begun.wait(SECONDS)
        both.append(askers.submit(shared))
        assert not wait(both, timeout=0.2).done
        freed.set()
        assert all(isinstance(asker.exception(SECONDS), PeerVanished) for asker in both)
    shared()


def test_who_asks_after_a_call_was_forgotten_begins_anew() -> None:
    numbers = itertools.count(1)
    begun, freed = threading.Event(), threading.Event()

    def work() -> int:
        number = next(numbers)
        if number == 1:
            begun.set()
            assert freed.wait(SECONDS)
        return number

    shared = SharedCall(work, **PATIENT)
    with ThreadPoolExecutor(1) as asker:
        first = asker.submit(shared)
        assert begun.wait(SECONDS)
        shared.forget()
        assert shared() == 2
        freed.set()
        assert first.result(SECONDS) == 1


def test_nobody_waits_for_ever_for_anothers_call() -> None:
    begun, freed = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert freed.wait(SECONDS)

    shared = SharedCall(work, patience=0.05)
    with ThreadPoolExecutor(1) as asker:
        first = asker.submit(shared)
        assert begun.wait(SECONDS)
        with pytest.raises(OutOfOrder, match="ask again later"):
            shared()
        freed.set()
        first.result(SECONDS)
