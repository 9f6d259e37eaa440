"""Makes measurements where a job of a sweep runs: in this process, in one beside it, or on a cluster's worker.

A job has one thread of linear algebra, and models are used as they are read from their kept training. So numbers don't
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

from studies.measurements.descriptions import ModelChoice, Work
from studies.measurements.measuring import NotApplicable, measure, train_model
from studies.measurements.model_parameters import KeptTrainer, parameters_of
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
    """What work is done on.

    Attributes:
        key: the same for the same content.
        table: the data set, or the model's; None for none.
        model: what was trained, where work is on a model.
        training: what came of that.
    """

    key: str
    table: ScaledTable | None = field(default=None, compare=False)
    model: ModelChoice | None = field(default=None, compare=False)
    training: Outcome | None = field(default=None, compare=False)


def run_job(shared: SharedThing, work: Mapping[str, Work]) -> list[Outcome]:
    """Do work, as much of it as a job's time suffices for; what goes wrong in a measurement is its outcome."""
    # Standard output has the results, as JSON perhaps: what a plugin prints goes where messages go.
    with (
        _at_work,
        quieted(_TALKING, logging.ERROR),
        redirect_stdout(sys.stderr),
        _one_thread(),
        parallel_config(backend="sequential"),
    ):
        end, outcomes = time.monotonic() + _SECONDS_OF_A_JOB, []
        for piece in work.values():
            outcomes.append(_tried(lambda piece=piece: _done(piece, shared)))  # type: ignore[misc]
            if time.monotonic() > end:
                break
        return outcomes


def _done(work: Work, shared: SharedThing) -> Mapping[str, Any]:
    if isinstance(work, ModelChoice):
        return parameters_of(train_model(work, shared.table))  # type: ignore[arg-type]
    return measure(work, made(shared))


@lru_cache(maxsize=_MOST_KEPT)
def made(shared: SharedThing) -> Any:
    """Give what measurements are made on: the same object for measurements that share it."""
    if shared.model is None or shared.training is None:
        return shared.table
    return train_model(shared.model, shared.table, KeptTrainer(shared.training.arrays))  # type: ignore[arg-type]


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
    before = {name: os.environ.pop(name, None) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else 0
    try:
        with threadpool_limits(1):
            if torch:
                torch.set_num_threads(1)
            yield
    finally:
        if torch:
            torch.set_num_threads(threads)
        for name in _THREADS:
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if value is not None})


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
