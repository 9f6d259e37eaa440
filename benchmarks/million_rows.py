"""What a federation of many rows takes, stage by stage: seconds, and each party's memory, its workers included.

    python -m benchmarks.million_rows [ROWS] [COLUMNS] [--workers N]

Two parties of three processes share the columns and all but a tenth of the rows, in different orders. One epoch
without encryption follows, in batches of 4,096 rows: what is measured is everything but Paillier. Linux only. Memory is
that of a party's process and of the processes that it has started (workers, and the server that they are forks of),
looked at five times a second and added up; a page that several of them share counts once (Pss).
"""

import argparse
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from plumbline.federation import Federation
from protos.v1 import active_pb2

_PARTIES = ("active", "passive")


def tables(rows: int, columns: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two tables, each of so many rows and half of the columns; nine tenths of the ids are common."""
    draw = np.random.default_rng(15)
    halves = []
    for first, width in ((0, columns - columns // 2), (rows // 10, columns // 2)):
        order = first + draw.permutation(rows)
        half = pd.DataFrame(draw.random((rows, width)), columns=[f"c{first}_{column}" for column in range(width)])
        halves.append(half.assign(id=[f"client-{number:08}" for number in order]))
    halves[0]["label"] = np.where(halves[0].iloc[:, 0] + draw.normal(scale=0.2, size=rows) > 0.5, "yes", "no")
    return halves[0], halves[1]


@dataclass
class Stages:
    """Watches a job, and takes each stage's time and memory as the next one begins.

    Attributes:
        federation: whose processes are looked at.
        taken: a line per stage that is over.
        told: how many times each stage said how far it is.
    """

    federation: Federation
    taken: list[str] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)
    _name: str = "starting"
    _began: float = field(default_factory=time.perf_counter)
    _peaks: dict[str, tuple[float, int, float]] = field(default_factory=dict)

    def __call__(self, event: active_pb2.JobEvent) -> None:
        """Take what an event of the job tells."""
        if event.HasField("progress"):
            self.told[self._name] += 1
        if event.stage:
            self.next(event.stage)

    def next(self, name: str) -> None:
        """End the stage at work, and begin another."""
        self.look()
        seconds = time.perf_counter() - self._began
        sizes = ", ".join(
            f"{party} {total:,.0f} MB" + (f" with {count} others of {own:,.0f} MB together" if count else "")
            for party, (total, count, own) in self._peaks.items()
        )
        self.taken.append(f"{self._name:10} {seconds:7.1f} s  told {self.told[self._name]:4} times  {sizes}")
        self._name, self._began, self._peaks = name, time.perf_counter(), {}

    def look(self) -> None:
        """Note what every party's processes take now."""
        for party in _PARTIES:
            process = self.federation.processes.process(party).pid
            workers = [size for child in _descendants(process) if (size := _megabytes(child))]
            now = (_megabytes(process) + sum(workers), len(workers), sum(workers))
            self._peaks[party] = max(now, self._peaks.get(party, now))

    def look_on(self, over: threading.Event) -> None:
        """Look five times a second."""
        while not over.wait(0.2):
            self.look()


def _descendants(process: int) -> list[int]:
    found = []
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, children.read_text().split()):
                found += [child, *_descendants(child)]
    return found


def _megabytes(process: int) -> float:
    """What a process has in memory, shared pages shared out; 0 for one that has ended."""
    try:
        return int(Path(f"/proc/{process}/smaps_rollup").read_text().partition("Pss:")[2].split()[0]) / 1024
    except (OSError, IndexError):
        return 0.0


def main() -> None:
    """Run one federation and print its stages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000, help="rows of each table")
    parser.add_argument("columns", type=int, nargs="?", default=20, help="columns of both together")
    parser.add_argument("--workers", type=int, help="cores that each party uses; default: all")
    asked = parser.parse_args()
    active, passive = tables(asked.rows, asked.columns)
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "cipher": "plain",
            "epochs": 1,
            "batch_size": 4096,
            "step_timeout": 600,
            "run_dir": Path(folder),
            **({"workers": asked.workers} if asked.workers else {}),
        }
        with Federation.local(active=active, passive=[passive], label="label", settings=settings) as federation:
            stages, over = Stages(federation), threading.Event()
            looking = threading.Thread(target=stages.look_on, args=[over])
            looking.start()
            try:
                outcome = federation.train(watch=stages)
                stages.next("")
            finally:
                over.set()
                looking.join()
    print(f"{asked.rows:,} x {asked.columns} rows, {outcome.aligned_rows:,} aligned, AUC {outcome.auc:.3f}")  # noqa: T201
    print(*stages.taken, sep="\n")  # noqa: T201


if __name__ == "__main__":
    main()
