"""Computes jobs on local cores or on a cluster, through joblib, and survives workers that don't."""

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from joblib import Parallel, delayed, parallel_config

from plumbline.cells.job_queue import CellJob
from plumbline.cells.jobs import Result, Task, run_task
from plumbline.cells.packed_arrays import Content, KeyedArray
from plumbline.cells.store import SweepStopped
from vfl.cores import available_cores

Run = Callable[[Task, Content | None, Content | None], Result]
_LOST = (
    "The worker process that measured it died, and so did another one: it may need more memory than there is, or crash."
)


def unbroken() -> None:
    """Say nothing: what computes is this machine."""


@dataclass(frozen=True, eq=False)
class Workers:
    """Those who compute jobs.

    Attributes:
        backend: makes joblib's configuration; it is given the arrays that all workers will need.
        run: what a worker calls.
        check: raises SweepStopped when there is nobody left to go on with.
    """

    backend: Callable[[list[Content]], AbstractContextManager[Any]]
    run: Run = run_task
    check: Callable[[], None] = unbroken

    def results(self, jobs: Iterator[CellJob], arrays: list[KeyedArray]) -> Iterator[tuple[CellJob, Result]]:
        """Compute jobs and give their results in the order in which they come.

        When a worker is lost and its work with it, the cells that were in flight are tried once more, each in a job of
        its own; those in flight when that goes wrong, alone. One that ends its worker even so has failed.

        Raises:
            SweepStopped: when there is nobody left to go on with.
        """
        again: deque[CellJob] = deque()
        while True:
            flying: dict[int, CellJob] = {}
            try:
                with _abandoned_quietly(self._parallel(arrays)(self._calls(_both(again, jobs), flying))) as results:
                    for number, result in results:
                        yield flying.pop(number), result
                return
            except SweepStopped:
                raise
            except Exception:
                # Whatever goes wrong in a cell is in its outcome: this is a pool or a cluster that lost work.
                self.check()
            for job in flying.values():
                if job.suspect:
                    yield job, self._alone(job, arrays)
                else:
                    again.extend(job.suspects)

    def _alone(self, job: CellJob, arrays: list[KeyedArray]) -> Result:
        result: Result
        try:
            ((_, result),) = self._parallel(arrays)(self._calls(iter([job]), {}))
        except SweepStopped:
            raise
        except Exception:
            self.check()
            return job.lost(_LOST)
        return result

    def _parallel(self, arrays: list[KeyedArray]) -> Parallel:
        with self.backend([array.content for array in arrays]):
            return Parallel(return_as="generator_unordered", batch_size=1)

    def _calls(self, jobs: Iterator[CellJob], flying: dict[int, CellJob]) -> Iterator[Any]:
        """Make calls for joblib, which asks for them when a worker is free; those it has are in ``flying``."""
        for number, job in enumerate(jobs):
            flying[number] = job
            contents = [array and array.content for array in (job.table, job.parameters)]
            yield delayed(_numbered)(self.run, number, job.task, *contents)


@contextmanager
def _abandoned_quietly(results: Any) -> Iterator[Any]:
    """Close joblib's results without its warning of work in flight: who stops a sweep says why in a sentence."""
    try:
        yield results
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "[0-9]+ tasks (which were still|have been successfully)", UserWarning)
            results.close()


def _numbered(run: Run, number: int, task: Task, table: Content | None, parameters: Content | None) -> Any:
    return number, run(task, table, parameters)


def _both(again: "deque[CellJob]", jobs: Iterator[CellJob]) -> Iterator[CellJob]:
    while again:
        yield again.popleft()
    yield from jobs


def local_workers(count: int | None) -> Workers:
    """Use processes on this machine; one is this process itself. None: as many as it has processors."""
    count = available_cores() if count is None else count
    if count < 1:
        raise ValueError(f"Expected workers >= 1, got {count}.")
    if count == 1:
        return Workers(lambda _: parallel_config(backend="sequential"))
    return Workers(lambda _: parallel_config(backend="loky", n_jobs=count, inner_max_num_threads=1))
