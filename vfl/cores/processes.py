"""Processes as cores: for work that holds the interpreter's lock.

A party has threads and, when gRPC runs, native ones: a fork of it would not be safe, and would copy its secrets and
inherit its sockets. Workers are forks of a small server process instead, which is started before all that, has loaded
what workers need, and never holds a secret (`multiprocessing`'s forkserver).

What a task takes along reaches a worker through a pipe of this process and its workers: `vfl.cores.own_children` says
which secrets may.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, wait
from typing import Any, Generic, NamedTuple, cast

from vfl.cores.cores import Result, Task
from vfl.cores.in_order import in_order
from vfl.cores.own_children import packed_for_child
from vfl.cores.worker import prepare, run_packed

_log = logging.getLogger(__name__)
_UNDER_WAY = 2  # tasks per core: one runs, one waits
_ATTEMPTS = 2  # by workers; then a task is run here
_MOST_DEATHS = 3  # of pools in a row, without a result in between
_TASK_SECONDS = 600.0  # a worker that is stopped, or stuck, is ended; so is a slow one, and its work is done here
_END_SECONDS = 5.0  # for workers to finish what they have when nobody waits for it any more


class ProcessCores:
    """Processes of this machine, children of the calling process's own. They are started when they are first needed.

    Make it before other threads run: that starts the server which workers are forks of.

    Attributes:
        count: of processes.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._deaths = 0
        self._closed = False
        self._ending: list[tuple[threading.Thread, ProcessPoolExecutor]] = []
        from vfl.cores.fork_server import start_server

        try:
            start_server()
        except OSError as error:
            self._do_without(error)

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Run the tasks in worker processes, and give the results in order."""
        return in_order(lambda task: _Errand(self, function, task), tasks, _UNDER_WAY * self.count)

    def forget(self) -> None:
        """End the workers, and what they remember of keys, when their tasks are done; the next task starts new ones."""
        with self._lock:
            pool, self._pool, self._deaths = self._pool, None, 0
        if pool is not None:
            self._end(pool)

    def close(self) -> None:
        """End the workers, within seconds. What is mapped afterwards runs in the calling process."""
        self._closed = True
        self.forget()
        for thread, pool in self._ending:
            thread.join(_END_SECONDS)
            if thread.is_alive():
                _kill(pool)
                thread.join()

    def submit(self, packed: bytes) -> "_Sent | None":
        """Give a packed (function, task) to a worker; None where no worker can be had."""
        for _ in range(_ATTEMPTS):
            pool = self._running_pool()
            if pool is None:
                return None
            try:
                return _Sent(pool, pool.submit(run_packed, packed))
            except (RuntimeError, OSError, EOFError):
                # A worker has died, or it or the pool's own thread could not be started: what has no thread answers
                # nobody. If another thread has ended this pool there is nothing to bury, and the next one is new.
                self.bury(pool)
        return None

    def bury(self, pool: ProcessPoolExecutor) -> None:
        """Put aside a pool that has lost a worker: the executor ends the others, whose tasks are run again as well."""
        with self._lock:
            if self._pool is not pool:
                return
            self._pool = None
            self._deaths += 1
            deaths = self._deaths
        self._end(pool)
        if deaths < _MOST_DEATHS:
            _log.warning("A worker process has died: its work is done again.")
        else:
            _log.warning("Worker processes keep dying, for lack of memory perhaps: work goes on without them.")

    def praise(self) -> None:
        """Note that a worker has delivered."""
        self._deaths = 0

    def _end(self, pool: ProcessPoolExecutor) -> None:
        """Let a pool finish what it has, and end. Nobody waits for that but `close`."""
        # Found: a pool that ends while the interpreter does leaves a traceback.
        thread = threading.Thread(target=_shut_down, args=[pool], name="end of workers")
        try:
            thread.start()
        except RuntimeError:  # no more threads
            _kill(pool)
            pool.shutdown(wait=False)
            return
        self._ending = [one for one in self._ending if one[0].is_alive()] + [(thread, pool)]

    def _running_pool(self) -> ProcessPoolExecutor | None:
        with self._lock:
            if self._closed or self._deaths >= _MOST_DEATHS:
                return None
            if self._pool is None:
                from vfl.cores.fork_server import context

                try:
                    self._pool = ProcessPoolExecutor(self.count, mp_context=context(), initializer=prepare)
                except (OSError, ImportError, NotImplementedError) as error:  # a system without semaphores
                    self._do_without(error)
            return self._pool

    def _do_without(self, error: Exception) -> None:
        """Start no workers until the next session."""
        self._deaths = _MOST_DEATHS
        _log.warning("No worker process can be had here, work goes on without them: %s.", error)


def _kill(pool: ProcessPoolExecutor) -> None:
    """End the workers of a pool whatever they are at; the executor notices."""
    for worker in list((pool._processes or {}).values()):
        worker.kill()


def _shut_down(pool: ProcessPoolExecutor) -> None:
    try:
        pool.shutdown()
    except RuntimeError:  # its own thread could not be started, which would have told them
        _kill(pool)


def _awaited(sent: "_Sent") -> Any:
    """A worker's result; raises BrokenExecutor, or what the task raised."""
    wait([sent.future], _TASK_SECONDS)
    if not sent.future.done():
        _log.warning("A worker process has not answered for %d s: it is ended.", _TASK_SECONDS)
        _kill(sent.pool)
    return sent.future.result()


class _Sent(NamedTuple):
    """Work that a pool has."""

    pool: ProcessPoolExecutor
    future: Future[Any]


class _Errand(Generic[Task, Result]):
    """One task on its way: to a worker, to another when that one dies, at last done here."""

    def __init__(self, cores: ProcessCores, function: Callable[[Task], Result], task: Task) -> None:
        self._cores = cores
        self._function = function
        self._task = task
        self._sent = self._send()

    def _send(self) -> _Sent | None:
        return self._cores.submit(packed_for_child((self._function, self._task)))

    def result(self) -> Result:
        """Wait for the result, wherever it comes from."""
        for attempt in range(_ATTEMPTS):
            if self._sent is None:
                break
            try:
                result = cast(Result, _awaited(self._sent))
            except BrokenExecutor:
                self._cores.bury(self._sent.pool)
                self._sent = self._send() if attempt + 1 < _ATTEMPTS else None
            except MemoryError:
                _log.warning("A worker process has run out of memory: its work is done again in this one.")
                break
            else:
                self._cores.praise()
                return result
        return self._function(self._task)

    def cancel(self) -> None:
        """Don't begin it where no worker has."""
        if self._sent is not None:
            self._sent.future.cancel()
