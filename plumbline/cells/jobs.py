"""Measures cells where a job of a sweep runs: in this process, in one beside it, or on a cluster's worker.

A job has one thread of linear algebra, and models are used as they are read from their packed parameters. So numbers
don't depend on how many workers there are, where they run, or whether a model was trained just now.
"""

import logging
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from typing import Any

from joblib import parallel_config
from threadpoolctl import threadpool_limits

from plumbline.cells.cells import Cell, ModelChoice
from plumbline.cells.measuring import NotApplicable, Shared, measure, train_model
from plumbline.cells.outcomes import Outcome, done
from plumbline.cells.packed_arrays import Content, KeptTrainer, pack, parameters_of, unpack, unpack_table

# Libraries that are loaded while a job runs read these.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# What an attack logs of its view, thousands of views would say; results have it in their measures.
_TALKING = ("attacks", "defences")
# What the extra `lab` brings.
_LAB = ("cvxpy", "opacus", "flint", "torch")
_MOST_KEPT = 6
_kept: OrderedDict[str, Any] = OrderedDict()
# Limits on threads are the process's: a worker with several slots does one job at a time.
_at_work = threading.Lock()


@dataclass(frozen=True)
class Task:
    """What a job computes.

    Attributes:
        on: the model or data set that its cells share; None for none.
        cells: what is measured. None of them: the model is trained.
        table: key of the data set's arrays; empty for none.
        model: key of the trained model.
        versions: of what its numbers depend on, by name, for a worker elsewhere to compare.
    """

    on: Shared | None
    cells: tuple[Cell, ...]
    table: str = ""
    model: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Result:
    """What a job computed.

    Attributes:
        outcomes: of the cells in their order; of a training, a single one.
        parameters: of a training that was done, packed.
    """

    outcomes: tuple[Outcome, ...]
    parameters: Content | None = None


def run_task(task: Task, table: Content | None, parameters: Content | None) -> Result:
    """Compute a job; what goes wrong in a cell is its outcome.

    Args:
        task: what is computed.
        table: the packed data set, where the task has one.
        parameters: what training found, packed, where cells are on a model.
    """
    # Standard output has the results, as JSON perhaps: what a plugin prints goes where messages go.
    with (
        _at_work,
        quieted(_TALKING, logging.ERROR),
        redirect_stdout(sys.stderr),
        _one_thread(),
        parallel_config(backend="sequential"),
    ):
        if not task.cells:
            return _trained(task, table)
        shared: list[Any] = []
        failure = _tried(lambda: shared.append(_shared(task, table, parameters)))
        if failure.status != "done":
            return Result((failure,) * len(task.cells))
        return Result(tuple(_measured(cell, shared[0]) for cell in task.cells))


def forget() -> None:
    """Drop what this process keeps of data and models for the next job."""
    _kept.clear()


def _trained(task: Task, table: Content | None) -> Result:
    parameters: list[Content] = []

    def train() -> None:
        parameters.append(pack(parameters_of(train_model(_model_of(task), _table(task, table)))))

    outcome = _tried(train)
    return Result((outcome,), parameters[0] if parameters else None)


def _measured(cell: Cell, on: Any) -> Outcome:
    measures: dict[str, Any] = {}
    return _tried(lambda: measures.update(measure(cell, on)), measures)


def _tried(work: Callable[[], object], measures: dict[str, Any] | None = None) -> Outcome:
    """Do the work and say how it ended; ``measures`` are what it has measured by then."""
    cpu, clock = time.thread_time(), time.monotonic()
    try:
        work()
        outcome = done(measures or {})
    except NotApplicable as error:
        outcome = Outcome("not applicable", str(error))
    except ModuleNotFoundError as error:
        remedy = "pip install 'plumbline[lab]'" if error.name in _LAB else "install it"
        outcome = Outcome("failed", f"It needs {error.name}, which isn't here: {remedy}.")
    except (Exception, SystemExit) as error:
        outcome = Outcome("failed", f"{type(error).__name__}: {error}")
    return replace(outcome, seconds=time.thread_time() - cpu, elapsed=time.monotonic() - clock)


def _shared(task: Task, table: Content | None, parameters: Content | None) -> Any:
    if task.on is None:
        return None
    if not isinstance(task.on, ModelChoice):
        return _table(task, table)
    if parameters is None:
        raise AssertionError(f"The model {task.model} was not sent along.")
    trainer = KeptTrainer(unpack(parameters))
    return _once(task.model, lambda: train_model(_model_of(task), _table(task, table), trainer))


def _model_of(task: Task) -> ModelChoice:
    if not isinstance(task.on, ModelChoice):
        raise AssertionError("Only models are trained.")
    return task.on


def _table(task: Task, table: Content | None) -> Any:
    if table is None:
        raise AssertionError(f"The data set {task.table} was not sent along.")
    return _once(task.table, lambda: unpack_table(table))


def _once(key: str, make: Callable[[], Any]) -> Any:
    """Make something, or take it from those that were made last."""
    if key not in _kept:
        _kept[key] = make()
    _kept.move_to_end(key)
    while len(_kept) > _MOST_KEPT:
        _kept.popitem(last=False)
    return _kept[key]


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
