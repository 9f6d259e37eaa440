"""How long a party's state takes to write in a step of training: in a database as it is, and files in its place.

A step of two parties writes twice: the answer that is about to be given, and the weights before the next step begins.
Each time the training log writes all that it keeps of steps, at the sizes of a data set's session under 2,048-bit keys.
A file is replaced: written beside it, forced to disk, renamed, and the folder forced to disk. A row is written by a
commit that is forced to disk; a commit a step, which would come too late for the answer, is measured for comparison.

    python -m scripts.state_writes --folder DISK [--data bank --data breast_cancer] [--steps 200]
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import numpy as np

from services.ciphers.default_plan import with_open_terms
from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.durable import write_durably
from services.common.identity import Identity, Role
from services.common.kept_row import KeptRow
from services.common.state_folder import State, StateFolder
from services.exchange.answers import Answered
from services.exchange.vectors import DecryptedVector, VectorHeader
from services.party.training_log import KeptTerms, TrainingLog
from studies.simulation.scaled_tables import load_scaled

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


class _Files:
    """State whose every content is a file that is replaced."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, content: bytes) -> None:
        write_durably(self._folder / name, content)

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)


class _ACommitAStep(_Files):
    """State of which every second write is forced to disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._row, self._waiting = KeptRow(folder / "row.sqlite3"), False

    def write(self, name: str, content: bytes) -> None:
        if self._waiting:
            self._row.write(content)
        self._waiting = not self._waiting


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
    syncs = calls[0] / steps or None  # SQLite's own aren't seen from here
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
        yield measured(agreement, "SQLite, a commit a write", kept, steps)
        kept.close()
        (at / "files").mkdir()
        yield measured(agreement, "files", cast(State, _Files(at / "files")), steps)
        yield measured(agreement, "SQLite, a commit a step", cast(State, _ACommitAStep(at / "files")), steps)


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
