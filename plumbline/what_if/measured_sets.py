"""Sets of columns are measured side by side in processes, each once: what is done is kept in the run's folder."""

import hashlib
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import astuple
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import threadpool_limits

from plumbline.audit.folder import versions
from plumbline.judge.column_sets import Change, ColumnPart, ColumnSet
from plumbline.what_if.simulated_sets import AuditedRun, measured
from services.common.durable import write_durably
from vfl.cores import available_cores

_FOLDER = "whatif-cells"


def measured_sets(
    run: AuditedRun,
    sets: Sequence[tuple[Change, ...]],
    attacks: Sequence[str],
    records: int,
    workers: int | None,
    done: Callable[[float], object],
) -> list[ColumnSet]:
    """Measure sets of a run's columns; those that were measured before are read.

    Args:
        run: whose columns.
        sets: what becomes of columns in each.
        attacks: their names.
        records: how many are attacked at most; 0 for as many as in the run.
        workers: processes; None for the processors of this one.
        done: told which share of what was missing is done.

    Raises:
        ValueError: for a set that can't be simulated. What is done stays.
        OSError: where the run's folder can't be written.
    """
    questions = [
        {
            "folder": str(run.folder.path),
            "digest": run.digest,
            "changes": [list(astuple(change)) for change in changes],
            "attacks": list(attacks),
            "records": records,
        }
        for changes in sets
    ]
    paths = [run.folder.path / _FOLDER / f"{_key(one)}.json" for one in questions]
    missing = {path: one for path, one in zip(paths, questions, strict=True) if not path.exists()}
    # One thread each: numbers don't depend on how many processes there are.
    with parallel_config(backend="loky", n_jobs=workers or available_cores(), inner_max_num_threads=1):
        calls = (delayed(_measure)(path, one) for path, one in missing.items())
        try:
            for behind, _ in enumerate(Parallel(return_as="generator_unordered", batch_size=1)(calls), start=1):
                done(behind / len(missing))
        except TerminatedWorkerError as error:
            raise ValueError(
                "A process that measured a set of columns died: it may need more memory than there is. What is done "
                "stays: start again with --workers 1."
            ) from error
    done(1.0)
    contents = [json.loads(path.read_bytes()) for path in paths]
    return [
        ColumnSet(
            changes, tuple(ColumnPart(*part) for part in measures["columns"]), measures["auc"], measures["is_measured"]
        )
        for changes, measures in zip(sets, contents, strict=True)
    ]


def _key(question: Mapping[str, Any]) -> str:
    """Name what a measurement depends on: what is asked, and the versions that answer."""
    # Where the run lies is none of it.
    content = {**question, "folder": "", "versions": versions()}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _measure(path: Path, question: Mapping[str, Any]) -> None:
    # What an attack logs of its view stands in the run's report; standard output has the results, as JSON perhaps.
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(sys.stderr), threadpool_limits(1):
            measures = measured(**question)
    except Exception as error:
        raise ValueError(f"A set of columns can't be simulated: {type(error).__name__}: {error}") from error
    finally:
        logging.disable(logging.NOTSET)
    write_durably(path, json.dumps(measures).encode(), private=False)
