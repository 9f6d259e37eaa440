"""What hostile tests share: a served federation, its logs, its memory, and what must never be found in either."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pandas as pd

from plumbline.federation import Federation, FederationFailed
from plumbline.processes import LocalProcesses
from protos.v1 import active_pb2
from services.common.certificates import CertificateFiles
from services.common.identity import Identity, Role, role_of
from tests.harness.processes import QUICK, local_processes, weights_of
from vfl.arrays import FloatArray

PROCESSES = ("coordinator", "active", "passive")
PARTIES = ("active", "passive")
# The same weights and batches whenever it trains: what disturbs a job shows in the last bit.
SEEDED: dict[str, Any] = {**QUICK, "private_seed": 7, "step_timeout": 4}
IDS = [f"r{number:06d}" for number in range(1, 40)]
# A record begins so; a line that doesn't is one of a traceback, which nobody wants to see, or forged.
_RECORD = re.compile(r"\d\d:\d\d:\d\d (coordinator|active|passive(-\d)?) (DEBUG|INFO|WARNING|ERROR|CRITICAL) .+")
_FORGED = re.compile(r"^\d\d:\d\d:\d\d passive INFO Aligned 9999")


def log_of(processes: LocalProcesses, name: str) -> str:
    """One party's log so far."""
    return processes.log(name).read_text(errors="replace")


def assert_sound(processes: LocalProcesses) -> None:
    """Every process lives, and no log has a traceback, a forged line, or what a terminal would obey."""
    processes.check()
    for name in processes.settings:
        for line in log_of(processes, name).split("\n")[:-1]:
            assert _RECORD.fullmatch(line), f"{name} wrote {line!r:.300}"
            assert not _FORGED.match(line)
            assert line.isprintable(), f"{name} wrote {line!r:.300}"
            assert len(line) < 5_000


def trained(federation: Federation, **changes: Any) -> list[FloatArray]:
    """Train, and what each party wrote of its weights."""
    federation.train(**changes)
    return written_weights(federation)


def written_weights(federation: Federation) -> list[FloatArray]:
    """What each party wrote of its weights."""
    parties = [name for name in federation.processes.settings if role_of(name) is not Role.COORDINATOR]
    return weights_of(parties_folder(federation.processes), parties)


def parties_folder(processes: LocalProcesses) -> Path:
    """Where the parties write their records."""
    return processes.folder / "parties"


def scores_of(federation: Federation) -> pd.DataFrame:
    """Scores of some records, to the last bit."""
    return federation.predict(IDS)


def pem_of(folder: Path, name: str) -> tuple[bytes, bytes, bytes]:
    """The authority, a party's certificate and its key as they stand in files, whatever is wrong with them."""
    files = CertificateFiles.of(folder, name)
    return files.authority.read_bytes(), files.certificate.read_bytes(), files.key.read_bytes()


def raw_channel(processes: LocalProcesses, caller: str, callee: str, certificates: Path | None = None) -> grpc.Channel:
    """A channel of a stranger's program: our certificate, none of our code. It sends whatever bytes it is given."""
    authority, certificate, key = pem_of(certificates or processes.certificates, caller)
    return grpc.secure_channel(
        processes.addresses[callee],
        grpc.ssl_channel_credentials(authority, key, certificate),
        # Connections of their own: the channels of one process would share one.
        [
            ("grpc.ssl_target_name_override", Identity(role_of(callee), callee).host_name),
            ("grpc.use_local_subchannel_pool", 1),
        ],
    )


class HonestJob:
    """A job of an honest operator on a thread of its own, while others attack.

    Attributes:
        training: set once the first steps are done.
        failure: why it failed, once it has.
    """

    def __init__(self, federation: Federation, **changes: Any) -> None:
        self.training = threading.Event()
        self.failure: Exception | None = None
        self._federation = federation
        self._changes = changes
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it is at work."""
        return self._thread.is_alive()

    def await_training(self, seconds: float = 60) -> None:
        """Wait until it trains."""
        assert self.training.wait(seconds), f"the honest job does not train: {self.failure}"

    def await_end(self, seconds: float) -> None:
        """Wait until it is done. Raises what it failed with."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"the honest job hangs: not done after {seconds:g} s"
        if self.failure is not None:
            raise self.failure

    def result(self, seconds: float) -> list[FloatArray]:
        """Its weights. Raises what it failed with."""
        self.await_end(seconds)
        return written_weights(self._federation)

    def _watch(self, event: active_pb2.JobEvent) -> None:
        if event.WhichOneof("event") == "progress" and event.progress.steps_planned > 4 and event.progress.steps_done:
            self.training.set()

    def _run(self) -> None:
        try:
            self._federation.train(watch=self._watch, **self._changes)
        except FederationFailed as error:
            self.failure = error
        finally:
            self.training.set()


@contextmanager
def served_federation(folder: Path, **settings: Any) -> Iterator[Federation]:
    """A federation that has trained once and serves."""
    with Federation.start(local_processes(folder, **{**SEEDED, **settings})) as federation:
        federation.train()
        yield federation


def memory_of(process_id: int) -> int:
    """Largest resident size of a process since ``forget_memory``, in bytes."""
    status = Path(f"/proc/{process_id}/status").read_text()
    (line,) = [one for one in status.splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def forget_memory(process_id: int) -> None:
    """Count a process's largest resident size anew."""
    Path(f"/proc/{process_id}/clear_refs").write_text("5")


def code_of(error: grpc.RpcError) -> grpc.StatusCode:
    """Status of a failed call."""
    assert isinstance(error, grpc.Call)
    return error.code()
