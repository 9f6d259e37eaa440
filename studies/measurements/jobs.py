"""Makes measurements where a job of a sweep runs: in this process, in one beside it, or on a cluster's worker.

A job has one thread of linear algebra, and models are used as they are read from their parameters. So numbers don't
depend on how many workers there are, where they run, or whether a model was trained just now.
"""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from joblib import parallel_config
from threadpoolctl import threadpool_limits

from studies.measurements.descriptions import Measurement, ModelChoice
from studies.measurements.measuring import NotApplicable, Shared, measure, train_model
from studies.measurements.model_parameters import KeptTrainer, Parameters, parameters_of
from studies.measurements.outcomes import Outcome, done
from studies.simulation.scaled_tables import ScaledTable

# Libraries that are loaded while a job runs read these.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# What an attack logs of its view, thousands of views would say; results have it in their measures.
_TALKING = ("attacks", "defences")
# What the extra `lab` brings.
_LAB = ("cvxpy", "opacus", "flint", "torch")
# What a job has measured by then is kept, and the rest of it goes to whoever is free.
_SECONDS_OF_A_JOB = 1.5
_MOST_KEPT = 6
# Limits on threads are the process's: a worker with several slots does one job at a time.
_at_work = threading.Lock()


@dataclass(frozen=True)
class SharedThing:
    """What measurements are made on.

    Attributes:
        key: the same for the same content.
        on: the model or data set; None for none.
        table: the data set, or the model's.
        parameters: of the model; None until it is trained.
    """

    key: str
    on: Shared | None = field(default=None, compare=False)
    table: ScaledTable | None = field(default=None, compare=False)
    parameters: Parameters | None = field(default=None, compare=False)


@dataclass(frozen=True, eq=False)
class Job:
    """What one worker computes at a time.

    Attributes:
        shared: what its measurements share.
        measurements: what is measured, by their keys; while their model isn't trained, that is done instead.
    """

    shared: SharedThing
    measurements: Mapping[str, Measurement]

    @property
    def trains(self) -> bool:
        """Whether it trains the model."""
        return isinstance(self.shared.on, ModelChoice) and self.shared.parameters is None

    def rest(self, count: int) -> "list[Job]":
        """Halve what is left when so many of its measurements are made."""
        left = list(self.measurements.items())[count:]
        middle = (len(left) + 1) // 2
        return [replace(self, measurements=dict(part)) for part in (left[:middle], left[middle:]) if part]

    @property
    def singles(self) -> "list[Job]":
        """A job for each measurement: one that kills its worker takes no other with it. Itself where it trains."""
        return (
            [self]
            if self.trains
            else [replace(self, measurements={key: measurement}) for key, measurement in self.measurements.items()]
        )


@dataclass(frozen=True, eq=False)
class Result:
    """What a job computed.

    Attributes:
        outcomes: of its first measurements, those that its time sufficed for; of a training, a single one.
        parameters: of a training that was done.
    """

    outcomes: tuple[Outcome, ...]
    parameters: Parameters | None = None


def run_job(job: Job) -> Result:
    """Compute a job; what goes wrong in a measurement is its outcome."""
    # Standard output has the results, as JSON perhaps: what a plugin prints goes where messages go.
    with (
        _at_work,
        quieted(_TALKING, logging.ERROR),
        redirect_stdout(sys.stderr),
        _one_thread(),
        parallel_config(backend="sequential"),
    ):
        return _trained(job.shared) if job.trains else Result(tuple(_measured(job)))


def forget() -> None:
    """Drop what this process keeps of data and models for the next job."""
    _made.cache_clear()


def _measured(job: Job) -> Iterator[Outcome]:
    end = time.monotonic() + _SECONDS_OF_A_JOB
    for measurement in job.measurements.values():
        yield _tried(lambda measurement=measurement: measure(measurement, _made(job.shared)))  # type: ignore[misc]
        if time.monotonic() > end:
            return


def _trained(shared: SharedThing) -> Result:
    parameters: dict[str, Any] = {}

    def train() -> Mapping[str, Any]:
        parameters.update(parameters_of(train_model(shared.on, shared.table)))  # type: ignore[arg-type]
        return {}

    outcome = _tried(train)
    return Result((outcome,), parameters or None)


@lru_cache(maxsize=_MOST_KEPT)
def _made(shared: SharedThing) -> Any:
    """Give what measurements are made on: the same object for measurements that share it."""
    if not isinstance(shared.on, ModelChoice):
        return shared.table
    return train_model(shared.on, shared.table, KeptTrainer(shared.parameters or {}))  # type: ignore[arg-type]


def _tried(work: Callable[[], Mapping[str, Any]]) -> Outcome:
    """Do the work and say how it ended, with what it measured."""
    cpu, clock = time.thread_time(), time.monotonic()
    try:
        outcome = done(work())
    except NotApplicable as error:
        outcome = Outcome("not applicable", str(error))
    except ModuleNotFoundError as error:
        remedy = "pip install 'plumbline[lab]'" if error.name in _LAB else "install it"
        outcome = Outcome("failed", f"It needs {error.name}, which isn't here: {remedy}.")
    except (Exception, SystemExit) as error:
        outcome = Outcome("failed", f"{type(error).__name__}: {error}")
    return replace(outcome, seconds=time.thread_time() - cpu, elapsed=time.monotonic() - clock)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Has all linear algebra take one thread, and gives back what it had."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else 0
    if torch:
        torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        if torch:
            torch.set_num_threads(threads)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def quieted(names: Sequence[str], level: int = logging.CRITICAL) -> Iterator[None]:
    """Have loggers say nothing below a level for a while."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
