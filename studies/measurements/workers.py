"""Who computes a sweep: this process, joblib's processes beside it, or a Dask cluster; and what becomes of lost work.

A cluster's workers need Plumbline in the same version and nothing else: data and models travel to each of them once.
"""

import re
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor

from studies.measurements.jobs import Job, Result, quieted, run_job
from studies.measurements.keys import versions_of, versions_of_model
from studies.measurements.outcomes import Outcome
from studies.measurements.store import SweepStopped
from vfl.cores import available_cores
from vfl.source_words import without_password

_LOST = Result(
    (
        Outcome(
            "failed",
            "The worker process that measured it died, and so did another one: it may need more memory than there is, "
            "or crash.",
        ),
    )
)
# A process that waits so long for work ends: who started it may have been killed.
_IDLE_SECONDS = 120
# Of anything else Dask's client makes a traceback when it is taken away.
_ADDRESS = r"(tcp|tls|wss?|ucx|inproc)://\S+(:\d+|/\S+)"
_CONNECT_SECONDS = 8
# What they log of a lost connection is said in a sentence here.
_TALKING = ("asyncio", "distributed", "tornado.application")
_STAYS = "What is done stays: start again, and the sweep goes on with what is missing."


class WorkerDiffers(SweepStopped):
    """A worker has other versions than who asked it: it would give other numbers under the same key."""


@dataclass(frozen=True, eq=False)
class Workers:
    """Those who compute jobs.

    Attributes:
        submit: begins a job.
        most: jobs at a time.
        recover: called when work was lost: puts others in the place of who is gone, or raises SweepStopped.
    """

    submit: Callable[[Job], "Future[Result]"]
    most: int
    recover: Callable[[], None]

    def results(self, jobs: "deque[Job]") -> Iterator[tuple[Job, Result]]:
        """Compute jobs and give their results in the order in which they come; jobs may be added meanwhile.

        When a worker dies, the jobs that were in flight are done once more, one at a time, and one that ends its worker
        again measurement by measurement. A measurement that ends its worker alone has failed.

        Raises:
            SweepStopped: when there is nobody left to go on with.
        """
        flying: dict[Future[Result], Job] = {}
        while jobs or flying:
            while jobs and len(flying) < self.most:
                job = jobs.popleft()
                flying[self.submit(job)] = job
            if lost := (yield from self._ended(flying, FIRST_COMPLETED)):
                self.recover()
                lost += yield from self._ended(flying, ALL_COMPLETED)
                for job in lost:
                    yield from self._alone(job)

    def _alone(self, job: Job) -> Iterator[tuple[Job, Result]]:
        if (yield from self._ended({self.submit(job): job}, ALL_COMPLETED)):
            self.recover()
            singles = job.singles
            if len(singles) == 1:
                yield job, _LOST
                return
            for single in singles:
                yield from self._alone(single)

    def _ended(self, flying: "dict[Future[Result], Job]", when: str) -> Generator[tuple[Job, Result], None, list[Job]]:
        """Give the results of jobs that ended, and return those that were lost."""
        lost = []
        for future in wait(flying, return_when=when).done:
            job = flying.pop(future)
            try:
                result = future.result()
            except SweepStopped:
                raise
            except Exception:
                # What goes wrong in a measurement is in its outcome: these are processes or a cluster that lost work.
                lost.append(job)
            else:
                yield job, result
        return lost


@contextmanager
def local_workers(count: int | None) -> Iterator[Workers]:
    """Use processes on this machine; one is this process itself. None: as many as it has processors."""
    count = available_cores() if count is None else count
    if count < 1:
        raise ValueError(f"Expected workers >= 1, got {count}.")
    if count == 1:
        yield Workers(_done_here, 1, lambda: None)
        return

    def pool() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(count, timeout=_IDLE_SECONDS, initializer=_leave_interruption)

    pools = [pool()]
    try:
        # One more for each waits beside it.
        yield Workers(lambda job: pools[-1].submit(run_job, job), 2 * count, lambda: pools.append(pool()))
    finally:
        for started in pools:
            started.shutdown(kill_workers=True)


def _done_here(job: Job) -> "Future[Result]":
    future: Future[Result] = Future()
    future.set_result(run_job(job))
    return future


def _leave_interruption() -> None:
    """Leave Ctrl-C to who started this process and ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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
            cluster = _Cluster(client, address, client.get_executor(pure=False), {})
            yield Workers(cluster.submit, 2 * slots, cluster.recover)


@dataclass(frozen=True, eq=False)
class _Cluster:
    """A connection to a Dask cluster; ``sent`` has what its workers hold, by the identity of what was sent."""

    client: Any
    address: str
    executor: Any
    sent: dict[int, tuple[Any, Any]]

    def submit(self, job: Job) -> "Future[Result]":
        """Begin a job, whose data and model travel apart from it."""
        shared, versions = job.shared, _versions(job)
        job = replace(job, shared=replace(shared, table=None, parameters=None))
        arrays = self._at_workers(shared.table), self._at_workers(shared.parameters)
        future: Future[Result] = self.executor.submit(run_checked, job, versions, *arrays)
        return future

    def _at_workers(self, thing: Any) -> Any:
        if thing is not None and id(thing) not in self.sent:
            # Kept beside it: what is gone from memory may leave its identity to another.
            self.sent[id(thing)] = thing, self.client.scatter([thing], broadcast=True, hash=False)[0]
        return None if thing is None else self.sent[id(thing)][1]

    def recover(self) -> None:
        """Send everything again, as who had it may be gone; raises SweepStopped without a scheduler."""
        if self.client.status != "running":
            raise SweepStopped(f"The Dask scheduler at {self.address} has gone. {_STAYS}")
        self.sent.clear()


def run_checked(job: Job, versions: Mapping[str, str], table: Any, parameters: Any) -> Result:
    """Compute a job as ``run_job`` does, on a worker that has the versions that its keys are made of.

    Raises:
        WorkerDiffers: when it has others.
    """
    own = _versions(job)
    for name, version in versions.items():
        if own.get(name) != version:
            raise WorkerDiffers(
                f"A worker of the cluster has another version of {name} ({own.get(name, 'none')}) than this "
                f"machine ({version}), and would give other numbers: install the same there, and start it again."
            )
    return run_job(replace(job, shared=replace(job.shared, table=table, parameters=parameters)))


def _versions(job: Job) -> dict[str, str]:
    versions = versions_of_model(job.shared.on)
    for measurement in job.measurements.values():
        versions |= versions_of(measurement)
    return versions
