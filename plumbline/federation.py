"""A federation from the operator's side: local processes in a context manager, or a running one elsewhere."""

from __future__ import annotations

import math
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import grpc
import numpy as np
from numpy.typing import NDArray

from plumbline.federation_status import FederationStatus
from plumbline.processes import LocalProcesses
from protos.v1 import active_pb2, active_pb2_grpc
from services.common.agreement import OF_SHARING, TrainingPlan
from services.common.certificates import CertificateError, CertificateFiles
from services.common.errors import PeerRefused
from services.common.identity import Identity, Role, role_of
from services.common.limits import PREDICTION_ROWS
from services.common.meters import TrafficMeter
from services.common.protocols import option_names
from services.common.run_folder import RunFolder
from services.common.settings import Settings, by_present_names
from services.network.statuses import error_of
from services.network.transport import Transport, is_serving
from services.network.unanswered import is_another_party, is_nobody
from vfl.arrays import FloatArray
from vfl.cores.signs_of_life import processor_time, stands_still
from vfl.suggestions import did_you_mean

# Every service imports this module with its package, and needs no data frames for that.
if TYPE_CHECKING:
    import pandas as pd

    from plumbline.judge.predictions import PredictionFindings
    from plumbline.notebook import NotebookFindings

# A process that has neither answered nor computed a sixtieth of so long stands still; a slow one is waited for.
_START_SECONDS = 60.0
_TICKS_PER_SECOND = 100  # as Linux counts a process's time
# For what the active party answers by itself.
_ANSWER_SECONDS = 10.0
# An active party that starts again, perhaps with other classes, takes longer before it serves.
_CLASS_NAMES_SECONDS = 0.5
_HANGS = f"active has not answered for {_ANSWER_SECONDS:g} s: it hangs, or its machine is overloaded. See its log."
_NO_BLOCK = (
    "active answers with other scores than those that were asked for: install the same release of Plumbline at the "
    "active party and here."
)
_OTHER_PARTY = (
    "No active party answers at {}: is it the active party's address? You may be asking the coordinator or a passive "
    "party."
)
# What services.network.statuses tells callers of an error that isn't ours.
_IN_A_LOG = "the service's log has the rest"


class FederationFailed(RuntimeError):
    """The federation refused a request, or failed in it; the text is the party's own words."""


class NobodyListens(FederationFailed):
    """Nothing listens at the active party's address: it hasn't begun, has ended, or the address is another."""


@dataclass(frozen=True)
class TrainingOutcome:
    """What a training job reports to its operator.

    Attributes:
        session_id: name of the session.
        aligned_rows: records that all parties have.
        epochs_run: number of trained epochs.
        kept_epoch: the epoch whose weights every party kept, from 0.
        accuracy: share of test records that the largest score labels right; None without any.
        auc: area under the ROC curve over them; None where a class has none.
    """

    session_id: str
    aligned_rows: int
    epochs_run: int
    kept_epoch: int
    accuracy: float | None = None
    auc: float | None = None


JobWatcher = Callable[[active_pb2.JobEvent], None]


class Federation:
    """Trains one federation and asks it for scores, on its operator's behalf.

    ``Federation.local`` starts one on this machine, ``Federation.connect`` reaches a running one. What the federation
    refuses raises FederationFailed with the party's own words.
    """

    def __init__(self, channel: grpc.Channel, processes: LocalProcesses | None = None, *, address: str = ""):
        self._channel = channel
        self._stub = active_pb2_grpc.ActiveStub(channel)
        self._processes = processes
        self._address = address
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._titles: Mapping[str, str] = {}
        self._naming = threading.Lock()
        self._named: list[str] = []
        self._named_at = -math.inf

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
        **terms: Any,
    ) -> Self:
        """Start coordinator, active and passive parties as processes of this machine, with mTLS, and wait for them.

        Raises ValueError for what can't work before a process starts, ProcessFailed when one ends by itself.

        Arguments:
            active: the table of the party with the labels: rows keyed by the column ``id``, in any order. Findings call
                a party by its table's ``attrs["name"]``, where it has one.
            passive: each passive party's table, keyed by the same column; a list, of a single one as well.
            label: column of the labels in ``active``.
            id: column of the record ids in every table; also its index, where that is called so.
            attacks: labels of attacks to mount, such as ``gia(init=half)``, each by the parties that can, the active
                one where both can. Passive parties then disclose their parameters, and ``findings`` compares what was
                found with the truth.
            defences: defences to apply, in this order, each by the services that it sits with.
            settings: settings of every process, by field name. The PLUMBLINE_* variables of this process say nothing
                of them: they are those of a service that somebody starts from this shell.
            terms: of the training plan, such as ``protocol="shared"`` or ``learner="network"``, which are settings as
                well, and options of its learner, such as ``hidden=8``. With ``seed``, initial weights and
                noise are drawn from it as well: under ``protocol="hu"`` the run repeats bit for bit.
        """
        # Only who starts a federation needs what reads tables, and the attacks and defences that a recipe checks.
        from plumbline.own_frames import check_tables, named, write_frames
        from plumbline.recipe import Recipe, own_tables, party_names

        _check_terms(terms, TrainingPlan())
        of_plan = {name: terms[name] for name in terms if name in Settings.model_fields}
        values = {**by_present_names(settings or {}), **of_plan}
        if options := {name: terms[name] for name in terms if name not in Settings.model_fields}:
            values["learner_options"] = {**values.get("learner_options", {}), **options}
        if isinstance(passive, str) or hasattr(passive, "columns"):
            raise ValueError("passive is a list of tables, one for each passive party: write passive=[table].")
        folder = tempfile.TemporaryDirectory(prefix="plumbline-")
        try:
            root = Path(folder.name)
            tables = [active, *passive]
            files = [root / f"{name}.parquet" for name in party_names(len(tables))]
            recipe = Recipe(
                tables=own_tables([str(file) for file in files], label=label, id_column=id),
                attacks=tuple(attacks),
                defences=tuple(defences),
                disclose=bool(attacks),
                is_repeatable="seed" in values,
                settings=values,
            )
            run_dir = Path(values.get("run_dir") or root / "parties")
            parties = recipe.checked().settings(run_dir)
            write_frames(tables, files, id)
            check_tables({name: parties[name] for name in party_names(len(tables))})
            federation = cls.start(LocalProcesses(root, parties))
        except BaseException:
            folder.cleanup()
            raise
        federation._folder = folder
        titles = zip(party_names(len(tables)), map(named, tables), strict=True)
        federation._titles = {party: title for party, title in titles if title}
        return federation

    @classmethod
    def start(cls, processes: LocalProcesses) -> Self:
        """Start local processes and wait until all of them serve; whatever fails, none is left behind."""
        processes.start()
        try:
            transport = _operator_transport(None if processes.is_insecure else processes.certificates)
            for name, address in processes.addresses.items():
                _await_health(transport.dial(address, name), processes, name)
            return cls(transport.dial(processes.addresses[Role.ACTIVE], Role.ACTIVE), processes)
        except BaseException:
            processes.stop()
            raise

    @classmethod
    def connect(cls, address: str, certificates: Path | None) -> Self:
        """Reach a running active party at HOST:PORT with the operator's certificate (None: INSECURE).

        Raises ValueError for what is no address, CertificateError for certificates that can't be used.
        """
        _check_address(address)
        return cls(_operator_transport(certificates).dial(address, "active"), address=address)

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
        """Align, agree and train; raises FederationFailed when the federation refuses.

        Arguments:
            watch: called with every event of the job as it comes. The job goes on when it raises: ``cancel`` ends it.
            changes: fields of the training plan, such as ``epochs=3``, in place of the active party's settings.
                ValueError is raised for one that there isn't, InvalidMessage for a value that can't be.
        """
        request = active_pb2.TrainRequest()
        if changes:
            own_plan = self.status(quick=True).own_plan
            _check_terms(changes, own_plan)
            plan = own_plan.changed(**changes)
            plan.check()
            request.plan.CopyFrom(plan.to_message())
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
        status = self.status(quick=True)
        if status.test is None or status.session_id != outcome.session_id:
            return outcome
        return replace(outcome, accuracy=status.test.accuracy, auc=status.test.auc)

    @contextmanager
    def _own_words(self) -> Iterator[None]:
        """Turn a refused call into FederationFailed with what the party said, and where the rest of it is."""
        try:
            yield
        except grpc.RpcError as error:
            if not isinstance(error, grpc.Call):
                raise
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise FederationFailed(_HANGS) from error
            if error.code() is grpc.StatusCode.UNIMPLEMENTED or is_another_party(error.details() or ""):
                raise FederationFailed(_OTHER_PARTY.format(self._address or "its address")) from error
            refusal = error_of(str(Role.ACTIVE), error)
            where_asked = f" It was asked at {self._address}." if self._address else ""
            # The operator asked the active party, and nobody else.
            message = refusal.words if isinstance(refusal, PeerRefused) else str(refusal) + where_asked
            where = self._where_it_failed() if _IN_A_LOG in message else ""
            kind = NobodyListens if is_nobody(error.details() or "") else FederationFailed
            raise kind(message + where) from error

    def _where_it_failed(self) -> str:
        """Find which service's log it is: the one that was called passes on what others told it."""
        if self._processes is None:
            return " It is the active party's, or that of a party which the active party had called."
        logs = self._processes.logs_of_errors()
        return "".join(f" It happened at {name}: see {log}." for name, log in logs.items())

    def findings(self) -> NotebookFindings:
        """Compare what the mounted attacks found with the truth; as a sequence, one finding per attack.

        Raises FederationFailed for a federation elsewhere, RunFolderError before ``train``, and when a party left a
        file out or a broken one.
        """
        from plumbline.judge.findings import read_findings
        from plumbline.notebook import NotebookFindings

        passive = sorted(name for name in self.processes.settings if role_of(name) is Role.PASSIVE)
        return NotebookFindings.of(read_findings(self._records(), passive, "federation", titles=self._titles))

    def report(self, path: Path | str = "report.html") -> Path:
        """Judge the run and write the report as one page; returns where. Raises what ``findings`` does."""
        return self.findings().report(path)

    def leakage(self) -> PredictionFindings:
        """Judge what predictions gave away of each passive column, beyond what is guessed without a score.

        Raises what ``findings`` does.
        """
        return self.findings().predictions

    def _records(self) -> RunFolder:
        run_dir = self.processes.settings[Role.ACTIVE].run_dir
        if run_dir is None:
            raise FederationFailed("The parties of this federation write no records: start them with a run_dir.")
        return RunFolder(run_dir)

    def status(self, *, quick: bool = False) -> FederationStatus:
        """Ask the active party where it is, what its model is worth, and what stands against a prediction now.

        It asks the other parties for that, about 2 s at most; with ``quick`` it asks nobody, and doesn't say.
        """
        with self._own_words():
            return FederationStatus.from_message(
                self._stub.Status(active_pb2.StatusRequest(quick=quick), timeout=_ANSWER_SECONDS)
            )

    def cancel(self) -> None:
        """End the job at work, at every party; the model that is served stays.

        Raises FederationFailed without a job, when its model is being served already, and when it isn't over in time.
        """
        with self._own_words():
            self._stub.Cancel(active_pb2.CancelRequest(), timeout=_ANSWER_SECONDS)

    def _class_names(self) -> list[str]:
        return list(self.status(quick=True).class_names)

    def _recent_class_names(self) -> list[str]:
        """Find the class names, without a question for every single record."""
        with self._naming:
            if time.monotonic() - self._named_at > _CLASS_NAMES_SECONDS:
                self._named, self._named_at = self._class_names(), time.monotonic()
            return self._named

    def predict(self, ids: Iterable[object]) -> pd.DataFrame:
        """Ask for confidence scores: a row per id, a column per class, and ``error``, empty where there are scores.

        Ids are as in the tables, text or whole numbers; the rows keep them. Raises TableError (a ValueError) for what
        is neither.
        """
        import pandas as pd

        from vfl.data.record_ids import id_text

        if isinstance(ids, str):
            raise ValueError("predict takes several ids, such as a list: predict_one takes one.")
        records = list(ids)
        texts = [id_text(one, row) for row, one in enumerate(records, start=1)]
        classes = self._class_names()
        parts = [texts[start : start + PREDICTION_ROWS] for start in range(0, len(texts), PREDICTION_ROWS)]
        requests = (active_pb2.PredictRequest(ids=part, as_block=True) for part in parts)
        values, errors = np.full((len(texts), len(classes)), np.nan), np.full(len(texts), "", dtype=object)
        count = 0
        with self._own_words():
            for part, reply in zip(parts, self._stub.Predict(requests), strict=False):
                rows = slice(count, count + len(part))
                _take(reply.block, values[rows], errors[rows])
                count += len(part)
        if count < len(texts):
            raise FederationFailed(f"active has answered for {count} of {len(texts)} records only: see its log.")
        scores = pd.DataFrame(values, columns=classes, index=pd.Index(records, name="id"))
        scores["error"] = errors
        return scores

    def predict_one(self, id: object) -> dict[str, float]:
        """Ask for one record's confidence scores, by class; raises FederationFailed when it is not aligned."""
        from vfl.data.record_ids import id_text

        with self._own_words():
            scores = self._stub.PredictOne(active_pb2.PredictOneRequest(id=id_text(id))).scores
        return dict(zip(self._recent_class_names(), scores, strict=True))


def _take(block: active_pb2.ScoreBlock, values: FloatArray, errors: NDArray[np.object_]) -> None:
    """Write a block's scores to rows of (records, classes) values, and why the others have none to their errors.

    Raises FederationFailed for a block that doesn't fit.
    """
    missing = np.fromiter(block.missing, dtype=np.int64, count=len(block.missing))
    has_scores = np.ones(len(values), dtype=np.bool_)
    has_scores[missing[missing < len(values)]] = False
    if len(block.scores) != np.count_nonzero(has_scores) * values.shape[1]:
        raise FederationFailed(_NO_BLOCK)
    values[has_scores] = np.fromiter(block.scores, np.float64, len(block.scores)).reshape(-1, values.shape[1])
    errors[~has_scores] = block.error


def _check_address(address: str) -> None:
    """Raise ValueError for what is no HOST:PORT."""
    host, colon, port = address.rpartition(":")
    if address and not colon:
        raise ValueError(f"The address {address!r} has no port: give the active party's, such as {address}:50051.")
    if not host or not port.isdecimal() or int(port) >= 1 << 16:
        raise ValueError(f"Expected the active party's address as HOST:PORT, got {address!r}.")


def _check_terms(changes: Mapping[str, Any], plan: TrainingPlan) -> None:
    """Raise ValueError for what is neither a field of a training plan nor an option of its learner or protocol."""
    learner, protocol = (changes.get(plugin, getattr(plan, plugin)) for plugin in ("learner", "protocol"))
    of_protocol = (*option_names(protocol), *OF_SHARING, "protocol_options")
    names = {**TrainingPlan(learner=learner).terms, "learner_options": {}, **dict.fromkeys(of_protocol)}
    if unknown := [name for name in changes if name not in names]:
        meant = did_you_mean(unknown[0], names)
        raise ValueError(f"A training has no {unknown[0]!r}.{meant} Its terms: {', '.join(names)}.")


def _operator_transport(certificates: Path | None) -> Transport:
    name = str(Role.OPERATOR)
    files = CertificateFiles.of(certificates, name) if certificates else None
    if files is not None and not files.certificate.exists():
        raise CertificateError(
            f"There is no operator's certificate in {certificates}: give the folder of ca.crt, operator.crt and "
            "operator.key with --certs (`plumbline certs` makes them)."
        )
    return Transport(Identity(Role.OPERATOR, name), files, TrafficMeter())


def _await_health(channel: grpc.Channel, processes: LocalProcesses, name: str) -> None:
    process, least = processes.process(name).pid, max(1, round(_START_SECONDS / 60 * _TICKS_PER_SECOND))

    def serves(seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            processes.check()
            if is_serving(channel):
                return True
            time.sleep(0.1)
        return False

    def spent() -> list[str]:
        return [str(sum(map(int, processor_time(process))) // least)]

    if stands_still(serves, spent, _START_SECONDS):
        raise FederationFailed(
            f"{name} has not answered for {_START_SECONDS:g} s, nor computed; see {processes.log(name)}."
        )
    channel.close()
