"""What one party writes of a run, into its own folder: terms, timings, traffic and weights, all its own."""

import logging
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.common.agreement import Agreement
from services.common.errors import OutOfOrder
from services.common.lost_records import LostRecords
from services.common.meters import TrafficMeter
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.run_records import DeliveredScores, PartyFeatures, PartyRecord, StepRecord
from services.watching.measures import Measure
from vfl.arrays import FloatArray, IntArray
from vfl.data import GriddedFeatures
from vfl.data.columns import EncodedColumn
from vfl.data.typed_tables import TypedTable
from vfl.learning import Part

_log = logging.getLogger(__name__)
_EMPTY = PartyRecord(bytes_by_message={}, peak_memory_bytes=0)


class RunRecord:
    """Collects one party's record of a session and writes it to its run folder. Without a folder it only collects.

    The record of a session that came to its end stays until another one has: its model is served as long. What can't
    be written once there is a model is noted, and never raised: the model is worth more than its record.

    Attributes:
        lost: what could not be written of the session at work.
    """

    def __init__(self, folder: Path | None, name: str, meter: TrafficMeter) -> None:
        self.lost = LostRecords()
        self._folder = RunFolder(folder) if folder is not None else None
        self._name = name
        self._meter = meter
        self._lock = threading.Lock()
        self._content = _EMPTY
        self._steps: list[StepRecord] = []
        # Of all sessions of this process.
        self._stages: defaultdict[str, float] = defaultdict(float)
        self._steps_of_all = 0
        self._columns: tuple[EncodedColumn, ...] = ()
        self._table: TypedTable | None = None
        self._finished: PartyRecord | None = None
        self._was_there = self._folder is not None and self._folder.has_record(name)

    def check(self) -> None:
        """Look whether records can be written, before a session's work begins.

        Raises:
            OutOfOrder: when they can't. The folder's name is for this party's own log only.
        """
        if self._folder is None:
            return
        try:
            self._folder.check(self._name)
        except RunFolderError as error:
            _log.error("%s", error)
            why = error.__cause__.strerror if isinstance(error.__cause__, OSError) else ""
            raise OutOfOrder(
                f"{self._name} can't write its records ({why or 'see its log'}): it needs room, or another folder "
                "(PLUMBLINE_RUN_DIR)."
            ) from error

    def begin(self, agreement: Agreement, columns: tuple[EncodedColumn, ...], table: TypedTable | None = None) -> None:
        """Start over with a new session's terms, what this party's features are of in it, and its table."""
        self.lost.forget()
        with self._lock:
            self._content = replace(_EMPTY, agreement=agreement)
            self._steps = []
            self._columns, self._table = columns, table

    def add_step(self, step: int, seconds: Mapping[str, float]) -> None:
        """Add one training step and its seconds by stage."""
        with self._lock:
            self._steps.append(StepRecord(step, dict(seconds)))
            for stage, spent in seconds.items():
                self._stages[stage] += spent
            self._steps_of_all += 1

    def measures(self) -> Iterator[Measure]:
        """Measure steps of training and their seconds, since this process has started."""
        with self._lock:
            stages, steps = dict(self._stages), self._steps_of_all
        yield Measure("steps", "Steps of training.", {(): steps}, grows=True)
        yield Measure.by("stage", "stage_seconds", "Seconds of steps, by stage.", stages, grows=True)

    def note(self, **facts: Any) -> None:
        """Add facts to the record: fields of PartyRecord."""
        with self._lock:
            self._content = replace(self._content, **facts)

    def finish(self, part: Part | None, tested: DeliveredScores | None = None) -> None:
        """Write the record, this party's own part of the model and the test's scores, as far as that can be done.

        Args:
            part: None for a share of weights, which is for the party's own state: whoever reads all parties' folders
                would join them.
            tested: scores of the test rows.
        """
        if self._folder is not None and tested is not None:
            with self.lost.noting(f"{self._name}'s test scores of this run"):
                self._folder.write_delivered_scores(self._name, tested)
        if self._folder is not None and part is not None:
            with self.lost.noting(f"{self._name}'s weights of this run"):
                self._folder.write_part(self._name, part.arrays(), self._names)
        with self._lock:
            self._finished = self._as_it_stands()
        self.write()

    def keep_features(self, features: FloatArray, gridded: GriddedFeatures, labels: IntArray | None = None) -> None:
        """Write this party's own encoded table, in the common order, for an auditor who may read its folder.

        Args:
            features: (aligned rows, d) before any defence.
            gridded: what is trained on: the grids of the columns are its.
            labels: class indices, (aligned rows,); the active party's only.
        """
        if self._folder is None:
            return
        plans = () if self._table is None else self._table.plans
        widths, steps = np.array(gridded.column_widths), gridded.scales
        table = PartyFeatures.of(features, self._columns, plans, labels=labels, widths=widths, steps=steps)
        with self.lost.noting(f"{self._name}'s features of this run"):
            self._folder.write_features(self._name, table)

    @property
    def _names(self) -> NDArray[np.str_]:
        return np.array([one.name for one in self._columns], dtype=np.str_)

    def write(self) -> None:
        """Write the record as it stands, with the traffic and peak memory so far, if that can be done."""
        if self._folder is None:
            return
        with self._lock:
            record = self._finished or self._as_it_stands()
            if self._finished is None and self._was_there:
                # Of the model that another process has trained, and this one serves.
                return
        record = replace(record, bytes_by_message=self._meter.snapshot(), peak_memory_bytes=_peak_memory_bytes())
        with self.lost.noting(f"{self._name}'s record of this run"):
            self._folder.write_record(self._name, record)

    def _as_it_stands(self) -> PartyRecord:
        return replace(self._content, steps=None if self._content.agreement is None else tuple(self._steps))


def _peak_memory_bytes() -> int:
    """Measure the largest resident size of this process so far; the system counts it in kilobytes, macOS in bytes."""
    import resource  # Windows has none

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
