"""Measures cells where a job of a sweep runs: in this process, in one beside it, or on a cluster's worker."""

import time
from typing import Any

from plumbline.sweep.cells import Cell
from plumbline.sweep.measuring import NotApplicable, measure
from plumbline.sweep.outcomes import Outcome, done


def outcome_of(cell: Cell, on: Any) -> Outcome:
    """Measure a cell on what it shares with others; what goes wrong is its reason."""
    start = time.thread_time()
    try:
        return done(measure(cell, on), time.thread_time() - start)
    except NotApplicable as error:
        return Outcome("not applicable", str(error), seconds=time.thread_time() - start)
    except (Exception, SystemExit) as error:
        return Outcome("failed", f"{type(error).__name__}: {error}", seconds=time.thread_time() - start)
