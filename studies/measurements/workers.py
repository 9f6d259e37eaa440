"""Who computes a sweep: this process, joblib's processes beside it, or a Dask cluster; and what becomes of lost work.

A cluster's workers need Plumbline in the same version and nothing else: data and models travel to each of them once.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from signal import SIG_IGN, SIGINT, signal
from typing import Any

from joblib.externals.loky import get_reusable_executor

from studies.measurements.descriptions import Work
from studies.measurements.jobs import SharedThing, quieted, run_job
from studies.measurements.keys import versions_of
from studies.measurements.outcomes import Outcome
from studies.measurements.store import SweepStopped
from vfl.cores import available_cores
from vfl.source_words import without_password

_LOST = Outcome(
    "failed",
    "The worker process that measured it died, and so did another: it may need more memory than there is, or crash.",
)
# A process that waits so long for work ends: who started it may have been killed.
_IDLE_SECONDS = 120
# Of anything else Dask's client makes a traceback when it is taken away.
_ADDRESS = r"(tcp|tls|wss?|ucx|inproc)://\S+(:\d+|/\S+)"
_CONNECT_SECONDS = 8
# Data sets and models that a cluster's workers hold at a time.
_MOST_SENT = 8
# What they log of a lost connection is said in a sentence here.
_TALKING = ("asyncio", "distributed", "tornado.application")


@dataclass(frozen=True, eq=False)
class Job:
    """What one worker computes at a time.

    Attributes:
        shared: what its work is done on.
        work: what is measured or trained, by key.
        alone: whether nothing else may be in flight beside it, as one like it was lost.
    """

    shared: SharedThing
    work: Mapping[str, Work]
    alone: bool = False

    def parts(self, size: int, start: int = 0) -> "list[Job]":
        """Divide its work, from the piece at ``start`` on, into jobs of at most ``size``."""
        pieces, size = list(self.work.items()), max(1, size)
        starts = range(start, len(pieces), size)
        return [replace(self, work=dict(pieces[first : first + size])) for first in starts]


@dataclass(frozen=True, eq=False)
class Workers:
    """Those who compute jobs.

    Attributes:
        submit: begins a job; raises SweepStopped when there is nobody left to go on with.
        most: jobs at a time.
    """

    submit: Callable[[Job], "Future[list[Outcome]]"]
    most: int

    def outcomes(self, jobs: "deque[Job]") -> Iterator[dict[str, Outcome]]:
        """Compute jobs and give what came of them, by key, as it comes; what a job had no time for is halved.

        When a worker dies, what was in flight is done once more, piece by piece, each alone. One that ends its worker
        again has failed.

        Raises:
            SweepStopped: when there is nobody left to go on with.
        """
        flying: dict[Future[list[Outcome]], Job] = {}
        while jobs or flying:
            while jobs and len(flying) < (1 if any(job.alone for job in (jobs[0], *flying.values())) else self.most):
                job = jobs.popleft()
                flying[self.submit(job)] = job
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                job = flying.pop(future)
                try:
                    outcomes = future.result()
                except SweepStopped:
                    raise
                except Exception:
                    # What goes wrong in a measurement is in its outcome: here processes or a cluster lost work.
                    if not job.alone:
                        jobs.extendleft(reversed(replace(job, alone=True).parts(1)))
                        continue
                    outcomes = [_LOST]
                left = len(job.work) - len(outcomes)
                jobs.extendleft(reversed(job.parts((left + 1) // 2, len(outcomes))))
                yield dict(zip(job.work, outcomes, strict=False))


@contextmanager
def local_workers(count: int | None) -> Iterator[Workers]:
    """Use processes on this machine; one is this process itself. None: as many as it has processors."""
    count = available_cores() if count is None else count
    if count == 1:
        yield Workers(_done_here, 1)
        return

    def pool() -> Any:
        """Those that there are, or new ones where one has died."""
        # Ctrl-C is for who started them and ends them.
        return get_reusable_executor(count, timeout=_IDLE_SECONDS, initializer=signal, initargs=(SIGINT, SIG_IGN))

    try:
        # One more for each waits beside it.
        yield Workers(lambda job: pool().submit(run_job, job.shared, job.work), 2 * count)
    finally:
        pool().shutdown(kill_workers=True)


def _done_here(job: Job) -> "Future[list[Outcome]]":
    future: Future[list[Outcome]] = Future()
    future.set_result(run_job(job.shared, job.work))
    return future


@contextmanager
def cluster_workers(address: str) -> Iterator[Workers]:
    """Connect to a Dask cluster.

    Raises:
        SweepStopped: when the extra isn't installed, for what is no address, when nobody answers in time, or when there
            are no workers.
    """
    if not re.fullmatch(_ADDRESS, address):
        raise SweepStopped(
            f"{without_password(address)!r} is no address of a Dask scheduler: give it as tcp://host:port."
        )
    try:
        import dask
        from distributed import Client
    except ImportError as error:
        raise SweepStopped("A Dask cluster needs the extra `dask`: pip install 'plumbline[dask]'.") from error

    with dask.config.set({"distributed.comm.timeouts.connect": f"{_CONNECT_SECONDS}s"}), quieted(_TALKING):
        try:
            client: Any = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise SweepStopped(
                f"No Dask scheduler answers at {address}: start one with `dask scheduler`, or check the address."
            ) from error
        with client:
            slots = sum(client.nthreads().values())
            if not slots:
                raise SweepStopped(f"The Dask cluster at {address} has no worker: start some with `dask worker`.")
            executor: Any = client.get_executor(pure=False)

            @lru_cache(maxsize=_MOST_SENT)
            def sent(shared: SharedThing) -> Any:
                """Send what work is done on to every worker, once."""
                return client.scatter([shared], broadcast=True, hash=False)[0]

            def submit(job: Job) -> "Future[list[Outcome]]":
                if client.status != "running":
                    raise SweepStopped(
                        f"The Dask scheduler at {address} has gone. What is done stays: start again, and the sweep "
                        "goes on with what is missing."
                    )
                if job.alone:
                    # Who had it may be gone.
                    sent.cache_clear()
                future: Future[list[Outcome]] = executor.submit(
                    run_checked, sent(job.shared), job.work, _versions(job.work)
                )
                return future

            yield Workers(submit, 2 * slots)


def run_checked(shared: SharedThing, work: Mapping[str, Work], versions: Mapping[str, str]) -> list[Outcome]:
    """Do work as ``run_job`` does, on a worker that has the versions that its keys are made of.

    Raises:
        SweepStopped: when it has others: it would give other numbers under the same key.
    """
    own = _versions(work)
    for name, version in versions.items():
        if own.get(name) != version:
            raise SweepStopped(
                f"A worker of the cluster has another version of {name} ({own.get(name, 'none')}) than this "
                f"machine ({version}), and would give other numbers: install the same there, and start it again."
            )
    return run_job(shared, work)


def _versions(work: Mapping[str, Work]) -> dict[str, str]:
    return {name: version for piece in work.values() for name, version in versions_of(piece).items()}
