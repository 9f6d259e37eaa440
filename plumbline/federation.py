"""A federation from the operator's side: local processes in a context manager, or a running one elsewhere."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import grpc
import numpy as np
import pandas as pd

from plumbline.processes import LocalProcesses
from protos.v1 import active_pb2, active_pb2_grpc
from services.common.agreement import TrainingPlan
from services.common.certificates import CertificateFiles
from services.common.errors import PeerRefused
from services.common.identity import Identity, Role
from services.common.meters import TrafficMeter
from services.common.statuses import error_of
from services.common.transport import Transport, is_serving
from services.common.wire import PREDICTION_ROWS

if TYPE_CHECKING:
    from plumbline.judge.predictions import AttackFinding
    from plumbline.judge.training import TrainingFinding

_START_SECONDS = 60.0
# What services.common.statuses tells callers of an error that isn't ours.
_IN_A_LOG = "the service's log has the rest"


class FederationFailed(RuntimeError):
    """A request to the federation failed; the text is the party's own words."""


@dataclass(frozen=True)
class TrainingOutcome:
    """What a training job reports to its operator."""

    session_id: str
    aligned_rows: int
    epochs_run: int
    kept_epoch: int


JobWatcher = Callable[[active_pb2.JobEvent], None]


class Federation:
    """An operator's view of one federation: train it, ask it for scores.

    ``Federation.local`` starts one on this machine, ``Federation.connect`` reaches a running one. Every request that
    the federation refuses raises FederationFailed with the party's own words.
    """

    def __init__(
        self, channel: grpc.Channel, processes: LocalProcesses | None = None, plan: TrainingPlan | None = None
    ):
        self._channel = channel
        self._stub = active_pb2_grpc.ActiveStub(channel)
        self._processes = processes
        self._plan = plan or TrainingPlan()
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def local(
        cls,
        *,
        active: pd.DataFrame,
        passive: Sequence[pd.DataFrame],
        label: str,
        id: str = "id",
        attacks: Sequence[str] = (),
        defences: Sequence[str] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> Self:
        """Start coordinator, active and passive parties as processes of this machine, with mTLS, and wait for them.

        Each table is one party's own: rows keyed by the column ``id``, in any order; ``label`` is a column of
        ``active``. ``attacks``: those that the active party mounts; the passive ones then disclose their parameters,
        and ``findings`` judges the reconstructions. ``defences``: each is applied by the services that it sits with.
        ``settings``: any of the services' settings, for every party.
        """
        folder = tempfile.TemporaryDirectory(prefix="plumbline-")
        root = Path(folder.name)
        shared = {"defences": ",".join(defences), **(settings or {})}
        common = {"id_column": id, "run_dir": root / "parties", "record_features": bool(attacks), **shared}
        parties: dict[str, dict[str, Any]] = {"coordinator": shared}
        active.to_parquet(root / "active.parquet", index=False)
        parties["active"] = {**common, "data": root / "active.parquet", "label_column": label}
        parties["active"]["attacks"] = ",".join(attacks)
        for number, table in enumerate(passive, start=1):
            name = "passive" if len(passive) == 1 else f"passive-{number}"
            table.to_parquet(root / f"{name}.parquet", index=False)
            parties[name] = {**common, "data": root / f"{name}.parquet", "disclose": bool(attacks)}
        federation = cls.start(LocalProcesses(root, parties))
        federation._folder = folder
        return federation

    @classmethod
    def start(cls, processes: LocalProcesses) -> Self:
        """Start local processes and wait until all of them serve; whatever fails, none is left behind."""
        processes.start()
        try:
            transport = _operator_transport(None if processes.insecure_transport else processes.certificates)
            deadline = time.monotonic() + _START_SECONDS
            for name, address in processes.addresses.items():
                _await_health(transport.dial(address, name), deadline, processes, name)
            settings = processes.settings["active"]
            fields = {key: settings[key] for key in TrainingPlan.__dataclass_fields__ if key in settings}
            fields["installed_model"] = bool(settings.get("model"))
            return cls(
                transport.dial(processes.addresses["active"], "active"),
                processes,
                TrainingPlan(**fields),  # type: ignore[arg-type]
            )
        except BaseException:
            processes.stop()
            raise

    @classmethod
    def connect(cls, address: str, certificates: Path | None) -> Self:
        """Reach a running active party at HOST:PORT with the operator's certificate (None: INSECURE)."""
        return cls(_operator_transport(certificates).dial(address, "active"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the local processes, if any, and drop the connection."""
        self._channel.close()
        if self._processes is not None:
            self._processes.stop()
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def processes(self) -> LocalProcesses:
        """The local processes; raises FederationFailed for a federation elsewhere."""
        if self._processes is None:
            raise FederationFailed("This federation runs elsewhere: it has no local processes.")
        return self._processes

    def train(self, *, watch: JobWatcher = lambda _: None, **changes: Any) -> TrainingOutcome:
        """Align, agree and train; ``changes`` are fields of the training plan, such as ``epochs=3``."""
        request = active_pb2.TrainRequest()
        if self._processes is not None or changes:
            request.plan.CopyFrom(replace(self._plan, **changes).to_message())
        outcome: TrainingOutcome | None = None
        with self._own_words():
            for event in self._stub.Train(request):
                watch(event)
                if event.WhichOneof("event") == "result":
                    result = event.result
                    outcome = TrainingOutcome(
                        result.session_id, result.aligned_rows, result.epochs_run, result.kept_epoch
                    )
        if outcome is None:
            where = self._processes.log("active") if self._processes else "its log"
            raise FederationFailed(f"The job of the active party ended without a result; see {where}.")
        return outcome

    @contextmanager
    def _own_words(self) -> Iterator[None]:
        """Turns a refused call into FederationFailed with what the party said, and where the rest of it is."""
        try:
            yield
        except grpc.RpcError as error:
            if not isinstance(error, grpc.Call):
                raise
            told = error_of(str(Role.ACTIVE), error)
            # The operator asked the active party, and nobody else.
            words = told.words if isinstance(told, PeerRefused) else str(told)
            where = self._where_it_failed() if _IN_A_LOG in words else ""
            raise FederationFailed(words + where) from error

    def _where_it_failed(self) -> str:
        """Which service's log it is: the one that was called passes on what others told it, whatever the status."""
        if self._processes is None:
            return " It is the active party's, or that of a party which the active party had called."
        found = self._processes.logs_of_errors()
        return "".join(f" It happened at {name}: see {log}." for name, log in found.items())

    def findings(self) -> list[AttackFinding | TrainingFinding]:
        """What the mounted attacks found, against the truth: local federations with ``attacks``, after ``train``."""
        from plumbline.judge.predictions import read_leakage
        from plumbline.judge.training import read_training_leakage

        settings = self.processes.settings
        folder = Path(str(settings["active"]["run_dir"]))
        passive = [name for name in settings if name not in (Role.COORDINATOR, Role.ACTIVE)]
        return [*read_leakage(folder, passive), *read_training_leakage(folder)]

    def status(self) -> active_pb2.StatusReply:
        """The active party's stage, classes and warnings."""
        with self._own_words():
            return self._stub.Status(active_pb2.StatusRequest())

    def predict(self, ids: Iterable[str]) -> pd.DataFrame:
        """Confidence scores: one row per id, one column per class, and ``error`` (empty when there are scores)."""
        ids = list(ids)
        classes = list(self.status().class_names)

        def requests() -> Iterator[active_pb2.PredictRequest]:
            for start in range(0, len(ids), PREDICTION_ROWS):
                yield active_pb2.PredictRequest(ids=ids[start : start + PREDICTION_ROWS])

        with self._own_words():
            records = [record for reply in self._stub.Predict(requests()) for record in reply.records]
        missing = [np.nan] * len(classes)
        scores = pd.DataFrame(
            [list(record.scores) or missing for record in records],
            columns=classes,
            index=pd.Index([record.id for record in records], name="id"),
            dtype=np.float64,
        )
        scores["error"] = [record.error for record in records]
        return scores

    def predict_one(self, id: str) -> dict[str, float]:
        """Confidence scores of one record by class; raises FederationFailed when it is not aligned."""
        with self._own_words():
            scores = self._stub.PredictOne(active_pb2.PredictOneRequest(id=id)).scores
        return dict(zip(self.status().class_names, scores, strict=True))


def _operator_transport(certificates: Path | None) -> Transport:
    name = str(Role.OPERATOR)
    files = CertificateFiles.of(certificates, name) if certificates else None
    return Transport(Identity(Role.OPERATOR, name), files, TrafficMeter())


def _await_health(channel: grpc.Channel, deadline: float, processes: LocalProcesses, name: str) -> None:
    while time.monotonic() < deadline:
        processes.check()
        if is_serving(channel):
            channel.close()
            return
        time.sleep(0.1)
    raise FederationFailed(f"{name} did not answer within {_START_SECONDS:g} s; see {processes.log(name)}.")
