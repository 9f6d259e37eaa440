"""Processes as cores: for work that holds the interpreter's lock.

A party has threads and, when gRPC runs, native ones: a fork of it would not be safe, and would copy its secrets and
inherit its sockets. Workers are forks of a small server process instead, which is started before all that, has loaded
what workers need, and never holds a secret (`multiprocessing`'s forkserver).

What a task takes along reaches a worker through a pipe of this process and that worker: `vfl.cores.own_children` says
which secrets may. Each worker has a pipe of its own: one that is stopped holds up no other, and an answer that comes
late is nobody's.
"""

import atexit
import logging
import os
import pickle
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import wait
from typing import cast

from vfl.cores.cores import Result, Task
from vfl.cores.own_children import packed_for_child
from vfl.cores.signs_of_life import processor_time, stands_still
from vfl.cores.threads import ThreadCores
from vfl.cores.worker import Outcome, receive, send, tried, work

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
        self._pipe, worker_end = socket.socketpair()
        with worker_end:
            try:
                self._process = start_worker(work, worker_end, patience)
            except BaseException:
                self._pipe.close()
                raise
        self._pipe.settimeout(patience)

    def send(self, packed: bytes) -> None:
        """Give it a packed (function, task); raises OSError when it has died, or doesn't take it."""
        send(self._pipe, packed)

    def has_answered(self, seconds: float = 0) -> bool:
        """Tell whether an answer begins, or its end, within a time."""
        return bool(wait([self._pipe], seconds))

    def stands_still(self) -> bool:
        """Wait for its answer. Whether none came, and it computed nothing, in a whole patience."""
        return stands_still(self.has_answered, lambda: processor_time(self._process.pid), self._patience)

    def receive(self) -> Outcome:
        """Give what its task gave, or raise what that raised; OSError or EOFError when it dies or stops meanwhile."""
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


_log = logging.getLogger(__name__)
_ATTEMPTS = 2  # by workers; then a task is run here
_MOST_DEATHS = 3  # of each worker, without a result in between; one that can't be started stands for all
PATIENCE_SECONDS = 10.0


class ProcessCores:
    """Processes of this machine, children of the calling process's own. They are started when they are first needed.

    Make it before other threads run: that starts the server which workers are forks of.

    Attributes:
        count: of processes.
    """

    def __init__(self, count: int, patience: float = PATIENCE_SECONDS, preload: Sequence[str] = ()) -> None:
        """Start the server, and no worker yet.

        Args:
            count: of processes.
            patience: seconds in which a worker with a task answers or computes at all. Then the same task is done here,
                and a worker that is silent even then is ended. So is a server that starts none.
            preload: modules of the work, which the server loads once for all workers.
        """
        self.count = count
        self._patience = patience
        self._threads = ThreadCores(count)  # each waits for one worker
        self._lock = threading.Lock()
        self._here = threading.Lock()
        self._idle: list[WorkerLink] = []
        self._session = 0
        self._deaths = 0
        self._closed = False
        from vfl.cores.fork_server import start_server

        try:
            start_server(preload)
        except OSError as error:
            self._deaths = self._most_deaths
            _log.warning("No worker process can be had here, work goes on without them: %s.", error)
        atexit.register(self.close)

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Run the tasks in worker processes, and give the results in order.

        A task that begins after `forget` was called gets a worker that ends with it: who mapped it may have gone.
        """
        return self._threads.map(partial(self._run, self._session, function), tasks)

    def forget(self) -> None:
        """End the workers, and what they remember of keys, when their tasks are done; the next task starts new ones."""
        with self._lock:
            idle, self._idle, self._deaths = self._idle, [], 0
            self._session += 1
        for worker in idle:
            worker.end()

    def close(self) -> None:
        """End the workers when their tasks are done. What is mapped afterwards runs in the calling process."""
        self._closed = True
        self._threads.close()
        self.forget()
        atexit.unregister(self.close)

    @property
    def _most_deaths(self) -> int:
        return _MOST_DEATHS * self.count

    def _run(self, session: int, function: Callable[[Task], Result], task: Task) -> Result:
        """Have a task run by a worker, by another when that one dies, at last here."""
        packed = packed_for_child((function, task))
        for _ in range(_ATTEMPTS):
            if (worker := self._worker(session)) is None:
                break
            try:
                worker.send(packed)
                result, error = self._outcome(worker, function, task)
            except Exception:  # of its pipe, or of what can't be read
                self._bury(worker, "A worker process has died: its work is done again.")
                continue
            if isinstance(error, MemoryError):
                _log.warning("A worker process has run out of memory: its work is done again in this one.")
                break
            if error is not None:
                raise error
            return cast(Result, result)
        return function(task)

    def _outcome(self, worker: WorkerLink, function: Callable[[Task], Result], task: Task) -> Outcome:
        """Give what a worker's task gave; raises what its pipe does when it dies.

        It counts as stopped when it is silent for a patience, and for the time that the same work takes here.
        """
        if worker.stands_still():
            with self._here:  # one after the other: workers that are slow answer meanwhile
                outcome = None if worker.has_answered() else tried(function, task)
            if outcome is not None and not worker.has_answered():
                self._bury(worker, "A worker process stood still: its work was done here, and it was ended.")
                return outcome
        outcome = worker.receive()
        self._release(worker)
        return outcome

    def _worker(self, session: int) -> WorkerLink | None:
        """Find a worker that waits for a task of this session; None where there is none and none can be started."""
        with self._lock:
            if self._closed or self._deaths >= self._most_deaths:
                return None
            if self._idle and session == self._session:
                return self._idle.pop()
        try:
            return WorkerLink(session, self._patience)
        except (OSError, EOFError, RuntimeError):
            self._note_deaths(self.count, "A worker process could not be started: its work is done here.")
            return None

    def _release(self, worker: WorkerLink) -> None:
        """Let a worker that has delivered wait for the next task, if that may know what this one knew."""
        with self._lock:
            self._deaths = 0
            if worker.session == self._session and not self._closed:
                self._idle.append(worker)
                return
        worker.end()

    def _bury(self, worker: WorkerLink, warning: str) -> None:
        worker.end()
        self._note_deaths(1, warning)

    def _note_deaths(self, count: int, warning: str) -> None:
        with self._lock:
            before, self._deaths = self._deaths, self._deaths + count
        if self._deaths < self._most_deaths:
            _log.warning(warning)
        elif before < self._most_deaths:
            _log.warning("Worker processes keep dying, for lack of memory perhaps: work goes on without them.")
