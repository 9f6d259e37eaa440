"""How long a party's state takes to write in a step of training: files as they are, and SQLite in their place.

A step of two parties writes twice: the answer that is about to be given, and the weights before the next step begins.
Each time the whole of `steps.npz` is written, by the training log itself, at the sizes of a data set's session under
2,048-bit keys. In SQLite (a write-ahead log, every commit forced to disk) the same bytes are a row: in a commit of each
write, which is what "before it is given" takes, and for comparison in one of both.

    python -m scripts.state_writes --folder DISK [--data bank --data breast_cancer] [--steps 200]
"""

import argparse
import os
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import numpy as np

from plumbline.simulation.scaled_tables import load_scaled
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.identity import Identity, Role
from services.common.state_folder import State, StateFolder
from services.party.training_log import KeptTerms, TrainingLog
from services.protocol1.answers import Answered
from services.protocol1.default_plan import with_open_terms
from services.protocol1.formats import CipherFormats
from services.protocol1.vectors import DecryptedVector, VectorHeader

_ACTIVE, _PASSIVE = "active", "passive"


class Spent(NamedTuple):
    """What a step's writes took.

    milliseconds: 10th percentile, which other work on the machine hardly lengthens, and median; processor: mean of what
    was computed; syncs: calls of fsync by this process, a step; bytes: of a write.
    """

    how: str
    milliseconds: tuple[float, float]
    processor: float
    syncs: float | None
    bytes: int


class _Rows:
    """State in a table of names and contents; ``commits`` says after how many writes one is forced to disk."""

    def __init__(self, path: Path, commits: int) -> None:
        self._database, self._commits, self._open = sqlite3.connect(path, isolation_level=None), commits, 0
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute("CREATE TABLE state (name TEXT PRIMARY KEY, content BLOB)")

    def write(self, name: str, content: bytes) -> None:
        if not self._open:
            self._database.execute("BEGIN IMMEDIATE")
        self._database.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, content))
        self._open = (self._open + 1) % self._commits
        if not self._open:
            self._database.execute("COMMIT")

    def remove(self, *names: str) -> None:
        self._database.executemany("DELETE FROM state WHERE name = ?", [(name,) for name in names])


@contextmanager
def _counted_syncs() -> Iterator[list[int]]:
    calls, sync = [0], os.fsync

    def counted(descriptor: Any) -> None:
        calls[0] += 1
        sync(descriptor)

    os.fsync = counted  # type: ignore[assignment]
    try:
        yield calls
    finally:
        os.fsync = sync


def session_of(name: str, data_dir: Path | None) -> Agreement:
    """The terms of a data set's session between two parties, with half of its columns each."""
    rows, columns = load_scaled(name, data_dir).features.shape
    own = columns // 2
    parties = (
        PartyDescription(_ACTIVE, own + 1, 0, False, rows, True),
        PartyDescription(_PASSIVE, columns - own, 0, False, rows, True),
    )
    return with_open_terms(Agreement("5e55104e" * 4, TrainingPlan().changed(steps="own_moments"), 2, parties))


def measured(agreement: Agreement, how: str, state: State, steps: int) -> Spent:
    """Have the passive party's log write so many steps."""
    features, formats = agreement.party(_PASSIVE).feature_count, CipherFormats(agreement)
    log, generator = TrainingLog(state), np.random.default_rng(0)
    order = np.arange(agreement.active.aligned_rows)
    log.begin(KeptTerms(agreement, _PASSIVE, order, "0" * 64, "0" * 64))
    weights = generator.normal(size=(features, agreement.residual_columns))
    log.start(weights)
    bits, width = formats.answer_bits(_PASSIVE, _ACTIVE) or (), formats.answer_bytes(_PASSIVE, _ACTIVE)
    header = VectorHeader("0" * 32, len(bits), 512, 0)
    answer = DecryptedVector(len(bits), width, generator.bytes(len(bits) * width))
    taken, sizes = list[float](), list[int]()
    write: Callable[[str, bytes], None] = state.write

    def sized(name: str, content: bytes) -> None:
        sizes.append(len(content))
        write(name, content)

    state.write = sized  # type: ignore[method-assign]
    with _counted_syncs() as calls:
        begun = time.process_time()
        for step in range(steps):
            start = time.perf_counter()
            log.spend(_ACTIVE, step, Answered(header, "0" * 64, answer))
            # Momentum carries the weights before.
            log.complete(step, weights, {"before": weights, "taken": np.array(step + 1)})
            taken.append(1000 * (time.perf_counter() - start))
    processor = 1000 * (time.process_time() - begun) / steps
    syncs = None if isinstance(state, _Rows) else calls[0] / steps
    return Spent(how, (statistics.quantiles(taken, n=10)[0], statistics.median(taken)), processor, syncs, max(sizes))


def synced(folder: Path, count: int = 100) -> float:
    """Take the median milliseconds of forcing 4 KiB to disk that are appended to a file: what no way is below."""
    taken = []
    with TemporaryDirectory(dir=folder) as made, (Path(made) / "appended").open("wb", buffering=0) as file:
        for _ in range(count):
            start = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            taken.append(1000 * (time.perf_counter() - start))
    return statistics.median(taken)


def compared(agreement: Agreement, folder: Path, steps: int) -> Iterator[Spent]:
    """Write a data set's steps each way, on the disk that the folder is on."""
    with TemporaryDirectory(dir=folder) as made:
        owner, at = Identity(Role.PASSIVE, _PASSIVE), Path(made)
        kept = StateFolder(at / "state", owner)
        yield measured(agreement, "files", kept, steps)
        kept.close()
        for commits, how in ((1, "SQLite, a commit a write"), (2, "SQLite, a commit a step")):
            yield measured(agreement, how, cast(State, _Rows(at / f"{commits}.sqlite3", commits)), steps)


def main() -> None:
    """Print a line for each data set and way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", help="a data set of two classes; several times for several")
    parser.add_argument("--folder", type=Path, default=Path(), help="on the disk that is measured")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("PLUMBLINE_DATA_DIR"))
    options = parser.parse_args()
    print(f"4 KiB appended and forced to disk: {synced(options.folder):.2f} ms")
    for name in options.data or ("bank", "breast_cancer"):
        agreement = session_of(name, options.data_dir and Path(options.data_dir))
        for one in compared(agreement, options.folder, options.steps):
            least, middle = one.milliseconds
            syncs = "" if one.syncs is None else f", {one.syncs:g} calls of fsync"
            print(
                f"{name:14} {one.how:26} {least:5.2f} ms a step at best (median {middle:.2f}; {one.processor:.2f} "
                f"computed), {one.bytes:,} bytes{syncs}"
            )


if __name__ == "__main__":
    main()
