"""What a federation of large raw tables takes: memory of each process at its peak, and seconds.

    python -m benchmarks.large_tables --rows 100000 --columns 100

Two parties share the columns: numbers, some with gaps, and every fifth a text of a few categories. One epoch without
encryption, which adds nothing to a table's size. Peaks are summed as if all came at once.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from plumbline.federation import Federation

_TOWNS = np.array(["Ulm", "Trier", "Jena", "Emden", "Passau", "Speyer"])


def make_tables(rows: int, columns: int, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Make an active and a passive table of so many columns together, in different orders of rows."""
    generator = np.random.default_rng(seed)
    halves = [_table(generator, rows, part) for part in (columns - columns // 2, columns // 2)]
    first = halves[0]["c0"].fillna(0) + generator.normal(size=rows) > 0
    halves[0]["label"] = np.where(first, "yes", "no")
    return halves[0], halves[1].sample(frac=1.0, random_state=seed)


def _table(generator: np.random.Generator, rows: int, columns: int) -> pd.DataFrame:
    made: dict[str, object] = {"id": [f"client-{row:07d}" for row in range(rows)]}
    for column in range(columns):
        if column % 5 == 4:
            made[f"c{column}"] = generator.choice(_TOWNS, rows)
        else:
            values = generator.normal(size=rows)
            made[f"c{column}"] = np.where(generator.random(rows) < 0.03, np.nan, values) if column % 5 == 3 else values
    return pd.DataFrame(made)


def _peak(process: str) -> int:
    """The largest resident size of a process so far, in bytes, as Linux tells it."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def main() -> None:
    """Run one federation and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=100)
    asked = parser.parse_args()
    active, passive = make_tables(asked.rows, asked.columns)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "cipher": "plain",
            "epochs": 1,
            "step_timeout": 600,
            "run_dir": Path(folder),
            "record_features": True,
        }
        with Federation.local(active=active, passive=[passive], label="label", settings=settings) as federation:
            aligned = federation.train().aligned_rows
            peaks = {name: _peak(str(federation.processes.process(name).pid)) for name in federation.processes.settings}
    peaks["this process"] = _peak("self")
    console = Console(highlight=False)
    for name, peak in peaks.items():
        console.print(f"{name}: {peak / 1e9:.2f} GB")
    console.print(
        f"{aligned:,} aligned rows, {sum(peaks.values()) / 1e9:.2f} GB in all, {time.perf_counter() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
