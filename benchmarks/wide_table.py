"""What reading, typing and fitting a raw table of 100,000 rows and 100 columns takes, in processor seconds and memory.

python -m benchmarks.wide_table [ROWS]
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from vfl.data import fit_columns, read_table


def raw_table(rows: int, path: Path) -> None:
    """Write a table of every kind of column, separated by semicolons and with decimal commas."""
    random = np.random.default_rng(0)
    made: dict[str, object] = {"id": np.arange(rows)}
    made |= {f"amount{at}": random.normal(size=rows).round(4) for at in range(60)}
    made |= {f"count{at}": random.integers(0, 1000, rows) for at in range(10)}
    made |= {f"kind{at}": random.choice([f"kind {one}" for one in range(12)], rows) for at in range(10)}
    made |= {f"town{at}": random.choice([f"town {one}" for one in range(500)], rows) for at in range(5)}
    made |= {f"day{at}": (np.datetime64("2000-01-01") + random.integers(0, 9000, rows)).astype(str) for at in range(5)}
    made |= {f"gap{at}": np.where(random.random(rows) < 0.1, np.nan, random.normal(size=rows)) for at in range(5)}
    made |= {f"is{at}": random.choice(["yes", "no"], rows) for at in range(5)}
    pd.DataFrame(made).to_csv(path, index=False, sep=";", decimal=",", float_format="%.4f")


def main() -> None:
    """Print the processor seconds of each step, and the peak memory of this process, which wrote the table as well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=100_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.csv"
        raw_table(rows, path)
        size = path.stat().st_size / 1e6
        start = time.process_time()
        table = read_table(str(path), id_column="id", label_column=None)
    read = time.process_time()
    fitted = fit_columns(table, np.arange(rows * 4 // 5), "minmax")
    features = fitted.transform(table)
    done = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{size:.0f} MB read and typed in {read - start:.1f} s, fitted in {done - read:.1f} s, of the processor")  # noqa: T201
    print(f"{features.shape[0]:,} rows x {features.shape[1]} features; peak memory {peak:.2f} GB")  # noqa: T201


if __name__ == "__main__":
    main()
