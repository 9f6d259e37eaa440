"""A party's side of its dialogue with one worker: nothing here waits for ever, whoever is stopped."""

import os
import pickle
import signal
import socket
from contextlib import suppress
from multiprocessing.connection import wait

from vfl.cores.signs_of_life import processor_time, stands_still
from vfl.cores.worker import Outcome, receive, send, work

_SERVER_LOST = 255  # what multiprocessing calls the exit status of a process that it can't know


class WorkerLink:
    """A worker process, and the pipe to it. One thread uses it at a time.

    Attributes:
        session: whose secrets it may remember.
    """

    def __init__(self, session: int, patience: float) -> None:
        """Start a worker.

        Args:
            session: number of the party's present session.
            patience: seconds without a sign of life after which it, or what starts it, counts as stopped.

        Raises:
            OSError, EOFError, RuntimeError: when none can be had.
        """
        from vfl.cores.fork_server import start_worker

        self.session = session
        self._patience = patience
        self._pipe, others = socket.socketpair()
        with others:
            try:
                self._process = start_worker(work, others, patience)
            except BaseException:
                self._pipe.close()
                raise
        self._pipe.settimeout(patience)

    def send(self, packed: bytes) -> None:
        """Give it a packed (function, task); raises OSError when it has died, or doesn't take it."""
        send(self._pipe, packed)

    def has_answered(self, seconds: float = 0) -> bool:
        """Whether an answer begins, or its end, within a time."""
        return bool(wait([self._pipe], seconds))

    def stands_still(self) -> bool:
        """Wait for its answer. Whether none came, and it computed nothing, in a whole patience."""
        return stands_still(self.has_answered, lambda: processor_time(self._process.pid), self._patience)

    def receive(self) -> Outcome:
        """What its task gave, or what that raised; raises OSError or EOFError when it dies or stops meanwhile."""
        outcome: Outcome = pickle.loads(receive(self._pipe))  # noqa: S301 - of our own child
        return outcome

    def end(self) -> None:
        """End it at once, whatever it is at."""
        from vfl.cores.fork_server import end_server

        self._pipe.close()
        if self._process.exitcode in (None, _SERVER_LOST) and self._process.pid:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        self._process.join(self._patience)
        if self._process.is_alive():  # nobody tells of its end
            end_server()
            self._process.join()
