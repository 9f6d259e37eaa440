"""How fast a sweep is, and how much two workers gain on one: processes of this machine, and a Dask cluster's.

python -m benchmarks.sweeps --data-dir data              # satellite: 35 d x 36 windows x 5 attacks x 200 predictions
python -m benchmarks.sweeps --data breast_cancer --every 4 --dask
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from plumbline.cells import AttackCell, Cell, Choice, DataChoice, ModelChoice, SweepOptions, run_cells, windows
from vfl.data import dataset

_ATTACKS = ("ls", "clamped_ls", "half", "half_star", "rcc2")
_LOOPBACK = ("--host", "127.0.0.1", "--no-dashboard")


def grid(name: str, records: int, every: int) -> list[Cell]:
    """List the cells of one model: every d, or each so many of them, every window, five attacks."""
    model, columns = ModelChoice(DataChoice(name)), dataset(name).features
    return [
        AttackCell(model, window, Choice(attack), records)
        for d in range(1, columns, every)
        for window in windows(columns, d)
        for attack in _ATTACKS
    ]


def warm(cells: Sequence[Cell], options: SweepOptions) -> None:
    """Have every worker import what it needs, which isn't measured."""
    run_cells(cells[:: max(len(cells) // 200, 1)], options)


def seconds_of(cells: Sequence[Cell], options: SweepOptions) -> float:
    """Measure cells and return the seconds that it took; nothing is kept."""
    warm(cells, options)
    start = time.monotonic()
    found = run_cells(cells, options)
    if (found["status"] == "failed").any():
        raise RuntimeError(f"Cells failed: {set(found['reason'])}")
    return time.monotonic() - start


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """Start a Dask scheduler and workers of one thread each on loopback; their address."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "scheduler.json")
        started = [_process("dask_scheduler", folder, "--port", "0", "--scheduler-file", str(place))]
        try:
            while not place.exists() or not place.read_text():
                time.sleep(0.1)
            options = ("--scheduler-file", str(place), "--nthreads", "1", "--no-nanny", "--local-directory", folder)
            started += [_process("dask_worker", folder, *options) for _ in range(workers)]
            from distributed import Client

            with Client(scheduler_file=str(place), set_as_default=False) as client:
                client.wait_for_workers(workers)
            yield str(json.loads(place.read_text())["address"])
        finally:
            for process in reversed(started):
                process.kill()
                process.wait()


def _process(module: str, folder: str, *arguments: str) -> "subprocess.Popen[bytes]":
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", f"distributed.cli.{module}", *_LOOPBACK, *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)  # noqa: S603


def main(
    data: Annotated[str, typer.Option(help="A data set.")] = "satellite",
    data_dir: Annotated[Path | None, typer.Option(help="Of raw files.")] = None,
    records: Annotated[int, typer.Option(help="Attacked predictions.")] = 200,
    every: Annotated[int, typer.Option(help="Take every so many values of d.")] = 1,
    dask: Annotated[bool, typer.Option("--dask", help="Measure clusters of one and two workers as well.")] = False,
) -> None:
    """Sweep with one and with two workers, and say how much the second one gains."""
    cells, console = grid(data, records, every), Console()
    here = [seconds_of(cells, SweepOptions(data_dir=data_dir, workers=workers)) for workers in (1, 2)]
    console.print(f"{data}, {len(cells):,} cells of {records} predictions")
    console.print(f"here: 1 worker {here[0]:.1f} s, 2 workers {here[1]:.1f} s: {here[0] / here[1]:.2f}x")
    if dask:
        there = list[float]()
        for workers in (1, 2):
            with cluster(workers) as address:
                there.append(seconds_of(cells, SweepOptions(data_dir=data_dir, dask=address)))
        console.print(f"Dask: 1 worker {there[0]:.1f} s, 2 workers {there[1]:.1f} s: {there[0] / there[1]:.2f}x")


if __name__ == "__main__":
    typer.run(main)
