"""``plumbline bench federation``: what a step of a real federation takes, beside its own cryptography by itself."""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from plumbline.federation import Federation
from protos.v1 import active_pb2
from services.ciphers.arithmetic import EngineArithmetic, messages_by
from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement
from services.common.run_folder import RunFolder
from studies.speed.federations.made_tables import TableShape, started
from studies.speed.machine import kernel_settings
from studies.speed.repetition import WrongResult, cpu_seconds, in_turns, timed
from studies.speed.result import Cell, Progress, Result, ResultTable, Spread, columns_of, command_of, silent
from vfl.arrays import FloatArray
from vfl.crypto import Engine
from vfl.crypto.kernels import Kernel, kernel_named
from vfl.crypto.widths import ColumnFormats
from vfl.learning import smallest_batch

# Sums of float64 may round in another order; they are of whole numbers times residuals on their grid.
_SAME = 1e-3


class OwnCryptography:
    """Both parties of an agreement about Protocol 1, without a network between them."""

    def __init__(self, agreement: Agreement, kernel: Kernel) -> None:
        """Make both parties' keys, and features and residuals of one batch."""
        arithmetic = EngineArithmetic(Engine(kernel))
        self._names = [party.name for party in agreement.parties]
        self._senders = agreement.senders
        self._messages = {name: messages_by(arithmetic, agreement, name) for name in self._names}
        rows, draw = smallest_batch(agreement.training_rows, agreement.plan.batch_size), np.random.default_rng(0)
        step = 2.0**agreement.plan.residual_fraction_bits
        self._shares = np.rint(draw.uniform(-2, 2, (rows, agreement.residual_columns)) * step) / step
        self._features = {
            name: drawn_features(CipherFormats(agreement).columns_of(name), rows, draw) for name in self._names
        }
        for name in self._names:
            self._messages[name].encrypt(0, self._shares[:1])  # builds the owner's tables: once per session

    def step(self) -> float:
        """Do one step's arithmetic: CPU seconds. Raises WrongResult unless it finds the plain sums."""
        seconds, found = timed(self._both)
        for name, sums in found.items():
            expected = self._features[name].T @ self._shares
            if np.abs(sums - expected).max() > _SAME:
                raise WrongResult(f"{name}'s sums aren't the plain ones: the time of its step means nothing.")
        return seconds

    def _both(self) -> dict[str, FloatArray]:
        first, second = self._names
        ways = (first, second), (second, first)
        return {peer: self._sums(holder, peer) for holder, peer in ways if holder in self._senders}

    def _sums(self, holder: str, peer: str) -> FloatArray:
        encrypted = self._messages[holder].encrypt(0, self._shares)
        combination = self._messages[peer].combine(0, holder, self._features[peer], encrypted)
        question = self._messages[peer].mask(0, holder, combination)
        return question.read(self._messages[holder].answer(0, peer, question.masked))


def drawn_features(columns: ColumnFormats, rows: int, draw: np.random.Generator) -> FloatArray:
    """Whole numbers of every column's format, in wire order."""
    made = [draw.integers(-one.offset, one.bound + 1, size=rows) for one in columns.each()]
    return np.stack(made, axis=1).astype(np.float64)


_MILLISECONDS = 1e3
_PARTIES = ("active", "passive")
_OWN_REPETITIONS = 3
# Calls and messages of a step, as parties count them: what the caller sends, and what it is answered.
_ASKED = ("Send: MessagePart", "Ask: MessagePart")
_ANSWERED = ("Ask: AnswerPart",)


@dataclass(frozen=True)
class StepsAsked:
    """What is measured.

    Attributes:
        shapes: each party's table, by the name of the federation.
        batch: rows of a batch.
        epochs: of a training, at least 2: the first one warms up.
        repetitions: trainings of each kernel, in turns.
        key_bits: length of the moduli.
    """

    shapes: dict[str, TableShape] = field(
        default_factory=lambda: {
            "credit: 12 real columns each": TableShape(2_560, 12),
            "one-hot: 6 real and 44 one-hot columns each": TableShape(2_560, 6, binary=44),
        }
    )
    batch: int = 256
    epochs: int = 3
    repetitions: int = 1
    key_bits: int = 2048


@dataclass(frozen=True)
class TrainedOnce:
    """What one training told.

    Attributes:
        start: seconds from the first process's start until all of them serve.
        steps: seconds of a step, epoch by epoch but for the first.
        cpu: processor seconds of a step, of all processes with their workers.
        sent: bytes of ciphertexts of a step, by the way that they take.
        own: CPU seconds of a step's cryptography by itself, repeated.
    """

    start: float
    steps: tuple[float, ...]
    cpu: float
    sent: dict[str, float]
    own: tuple[float, ...]


def measure_steps(asked: StepsAsked, progress: Progress = silent) -> Result:
    """Train federations of processes over mTLS, one kernel beside the other.

    Raises WrongResult where cryptography by itself finds other sums than plain arithmetic, FederationFailed when a
    federation fails.
    """
    rows = list[dict[str, Cell]]()
    for name, shape in asked.shapes.items():
        progress(f"a federation: {name}")
        variants = {words: _training(asked, shape, one) for words, one in _variants(shape).items()}
        for words, runs in in_turns(variants, asked.repetitions).items():
            rows.append({"federation": name, "variant": words, **_cells(runs)})
    table = ResultTable(
        "steps",
        f"A step of a federation of three processes, batches of {asked.batch}, {asked.key_bits:,} bits",
        columns_of(
            federation="each party's table",
            variant="kernel",
            step="step, ms",
            own="its cryptography's CPU, ms",
            ratio="step / CPU",
            cpu="CPU of all processes, ms",
            from_active="from active, kB",
            from_passive="from passive, kB",
            start="start, s",
        ),
        tuple(rows),
        (
            "step: of an epoch, by the clock. Its cryptography's CPU: both parties' arithmetic of a step on one core, "
            "in a process without a network. Bytes: residuals and masked sums that a party sends in a step.",
        ),
    )
    return Result(
        "federation", command_of("federation", asked, ("repetitions",), ("batch", "epochs", "key_bits")), (table,)
    )


def _variants(shape: TableShape) -> dict[str, dict[str, object]]:
    """Settings of the trainings that are compared: each kernel, and columns as wide as before there were widths."""
    variants: dict[str, dict[str, object]] = {}
    if shape.byte or shape.binary:
        variants["portable, all columns full"] = {"kernel": "portable", "pad_widths": True}
    return variants | {kernel: {"kernel": kernel} for kernel in kernel_settings()}


def _cells(runs: list[TrainedOnce]) -> dict[str, Cell]:
    steps, own = ([second for run in runs for second in getattr(run, name)] for name in ("steps", "own"))
    step, alone = (Spread.of(one).scaled(_MILLISECONDS) for one in (steps, own))
    sent = {f"from_{party}": Spread.of([run.sent[party] for run in runs]).median / 1e3 for party in _PARTIES}
    return {
        "step": step,
        "own": alone,
        "ratio": step.median / alone.median,
        "cpu": Spread.of([run.cpu for run in runs]).scaled(_MILLISECONDS),
        "start": Spread.of([run.start for run in runs]),
        **sent,
    }


def _training(asked: StepsAsked, shape: TableShape, variant: Mapping[str, object]) -> Callable[[], TrainedOnce]:
    settings = {
        "cipher": "paillier",
        "key_bits": asked.key_bits,
        "allow_insecure_keys": asked.key_bits < 2048,
        "batch_size": asked.batch,
        "epochs": asked.epochs,
        "steps": "plain",
        **variant,
        "validation_fraction": 0.0,
        "test_fraction": 0.0,
        "seed": 1,
        "learning_rate": 0.01,
    }

    def train() -> TrainedOnce:
        with tempfile.TemporaryDirectory(prefix="plumbline-bench-") as folder:
            begin = time.perf_counter()
            with started(shape, Path(folder), settings) as federation:
                start = time.perf_counter() - begin
                watcher = _EpochWatcher(federation)
                federation.train(watch=watcher)
            return _told(RunFolder(Path(folder)), start, watcher, kernel_named(str(variant["kernel"])))

    return train


class _EpochWatcher:
    """Notes the processor time of all processes at every epoch's end."""

    def __init__(self, federation: Federation) -> None:
        running = federation.processes
        self._processes = [running.process(name).pid for name in running.settings]
        self.seconds = list[float]()

    def __call__(self, event: active_pb2.JobEvent) -> None:
        if event.WhichOneof("event") == "epoch":
            self.seconds.append(sum(cpu_seconds(process) for process in self._processes))


def _told(folder: RunFolder, start: float, watcher: _EpochWatcher, kernel: Kernel) -> TrainedOnce:
    records = {party: folder.record(party) for party in _PARTIES}
    active = records["active"]
    assert active.agreement is not None  # noqa: S101 - a training has ended
    assert active.epochs is not None  # noqa: S101
    steps = len(active.steps or ()) // len(active.epochs)
    cpu = np.diff(watcher.seconds) / steps
    own = OwnCryptography(active.agreement, kernel)
    return TrainedOnce(
        start,
        tuple(epoch.seconds / steps for epoch in active.epochs[1:]),
        float(np.median(cpu)),
        _bytes_of_step({party: one.bytes_by_message for party, one in records.items()}, len(active.steps or ())),
        tuple(own.step() for _ in range(_OWN_REPETITIONS)),
    )


def _bytes_of_step(told: Mapping[str, Mapping[str, int]], steps: int) -> dict[str, float]:
    """What each party sends in a step: residuals and sums in calls of its own, answers in the other's calls."""
    return {
        party: (sum(told[party].get(name, 0) for name in _ASKED) + sum(told[peer].get(name, 0) for name in _ANSWERED))
        / steps
        for party, peer in (_PARTIES, _PARTIES[::-1])
    }
