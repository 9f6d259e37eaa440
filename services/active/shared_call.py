"""One call for however many ask for its result at the same time."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from services.common.errors import OutOfOrder

T = TypeVar("T")


class SharedCall(Generic[T]):
    """Runs ``work`` for the first who asks; who comes meanwhile gets the same result, or the same error. Thread-safe.

    So a party that hangs costs all of them one deadline, and not one after the other's.
    """

    def __init__(self, work: Callable[[], T], *, patience: float) -> None:
        """Share ``work``.

        Args:
            work: has deadlines of its own.
            patience: seconds that somebody waits at most for a call that another has begun.
        """
        self._work = work
        self._patience = patience
        self._lock = threading.Lock()
        self._call: Future[T] | None = None

    def __call__(self) -> T:
        """The result.

        Raises:
            OutOfOrder: when another's call takes longer than anybody should wait.
        """
        with self._lock:
            call = self._call
            is_own = call is None or call.done()
            if call is None or is_own:
                call = self._call = Future()
        if is_own:
            self._run(call)
        try:
            return call.result(self._patience)
        except TimeoutError:
            if call.done():
                raise
            raise OutOfOrder("Another caller has waited for the same for long: ask again later.") from None

    def forget(self) -> None:
        """Share the call at work with nobody who asks from now on: what it finds may be of before."""
        with self._lock:
            self._call = None

    def _run(self, call: Future[T]) -> None:
        try:
            result = self._work()
        except BaseException as error:
            call.set_exception(error)
        else:
            call.set_result(result)
