"""What a federation of many rows takes, stage by stage: seconds, and each party's peak memory, its workers apart.

    python -m benchmarks.million_rows [ROWS] [COLUMNS] [--workers N]

Two parties of three processes share the columns and all but a tenth of the rows, in different orders. One epoch
without encryption follows, in batches of 4,096 rows: what is measured is everything but Paillier. Peaks are of Linux,
one per stage; workers' are summed, as if they shared no page.
"""

import argparse
import tempfile
import time
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
        taken: a line per stage that is over: its name, seconds, and megabytes by party.
        told: how many times each stage said how far it is.
    """

    federation: Federation
    taken: list[tuple[str, float, dict[str, str]]] = field(default_factory=list)
    told: dict[str, int] = field(default_factory=dict)
    _name: str = "starting"
    _began: float = field(default_factory=time.perf_counter)

    def __call__(self, event: active_pb2.JobEvent) -> None:
        """Take what an event of the job tells."""
        if event.HasField("progress"):
            self.told[self._name] = self.told.get(self._name, 0) + 1
        if event.stage:
            self.next(event.stage)

    def next(self, name: str) -> None:
        """End the stage at work, and begin another."""
        now = time.perf_counter()
        self.taken.append((self._name, now - self._began, {party: self._megabytes(party) for party in _PARTIES}))
        self._name, self._began = name, now

    def _megabytes(self, party: str) -> str:
        process = self.federation.processes.process(party).pid
        workers = [_peak(child) for child in _descendants(process)]
        return f"{_peak(process):,.0f}" + (f" + {sum(workers):,.0f} in {len(workers)}" if workers else "")


def _descendants(process: int) -> list[int]:
    found = []
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found += [child, *_descendants(child)]
    return found


def _peak(process: int) -> float:
    """Megabytes of the largest resident size since this was last asked."""
    peak = int(Path(f"/proc/{process}/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
    Path(f"/proc/{process}/clear_refs").write_text("5")
    return peak


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
            stages = Stages(federation)
            outcome = federation.train(watch=stages)
            stages.next("")
    print(f"{asked.rows:,} x {asked.columns} rows, {outcome.aligned_rows:,} aligned, AUC {outcome.auc:.3f}")  # noqa: T201
    for name, seconds, memory in stages.taken:
        sizes = ", ".join(f"{party} {size} MB" for party, size in memory.items())
        print(f"{name:10} {seconds:7.1f} s  told {stages.told.get(name, 0):4} times  {sizes}")  # noqa: T201


if __name__ == "__main__":
    main()
