"""Local processes of a federation: free ports, certificates, start, log files, stop."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from services.common.certificates import create_federation_certificates
from services.common.identity import Identity, Role, role_of
from services.common.settings import PREFIX, Settings
from vfl.cores import available_cores
from vfl.plugin_trial import TRIED

_STOP_SECONDS = 5.0
# Starts a process of our own module, without a shell. Tests, which start hundreds, put another in its place.
launch = subprocess.Popen
# What a service's log says before a traceback (services.network.statuses, services.active.server).
UNEXPECTED = "Unexpected error"


class ProcessFailed(RuntimeError):
    """A party's process ended by itself; the text ends with its last words."""


@dataclass
class LocalProcesses:
    """One process per party on this machine.

    Attributes:
        folder: where certificates and the parties' state go, and logs by default.
        settings: settings of every process, by its party's name; addresses, certificates, a folder for its state and,
            where they name none, workers are added here. A folder for state that they name gets one for each party.
        logs: a folder that exists, for one log per party.
        addresses: HOST:PORT of every party, by name, once it is started.
    """

    folder: Path
    settings: Mapping[str, Settings]
    logs: Path | None = None
    addresses: dict[str, str] = field(default_factory=dict)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def certificates(self) -> Path:
        """Where the authority's and everybody's certificates are."""
        return self.folder / "certs"

    @property
    def is_insecure(self) -> bool:
        """Whether these processes speak without TLS."""
        return any(settings.transport == "insecure" for settings in self.settings.values())

    def state(self, name: str) -> Path:
        """Find the folder of one party's state."""
        return (self.settings[name].state_dir or self.folder / "state") / name

    def log(self, name: str) -> Path:
        """Find the file of one party's log."""
        return (self.logs or self.folder) / f"{name}.log"

    def logs_of_errors(self) -> dict[str, Path]:
        """Find the logs that hold an unexpected error, by the party's name."""
        logs = {name: self.log(name) for name in self._running}
        return {name: log for name, log in logs.items() if UNEXPECTED in log.read_text(errors="replace")}

    def start(self) -> None:
        """Make certificates and start every party; returns at once."""
        self.addresses = dict(zip(self.settings, _free_addresses(len(self.settings)), strict=True))
        if not self.is_insecure:
            names = [*self.settings, str(Role.OPERATOR)]
            create_federation_certificates(self.certificates, [Identity(role_of(name), name) for name in names])
        for name in self.settings:
            self.start_party(name)

    def start_party(self, name: str) -> None:
        """Start (or start again) one party at its address."""
        settings = self.settings[name].model_copy(
            update={"listen": self.addresses[name], "peers": dict(self.peers_of(name)), "state_dir": self.state(name)}
            | ({} if self.is_insecure else {"certs": self.certificates})
            | ({} if self.settings[name].workers else {"workers": self.fair_share()})
        )
        environment = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
        environment |= settings.environment() | {TRIED: "1"}  # by this process, whose settings they are
        # One thread per party: three parties share this machine's cores.
        environment.setdefault("OMP_NUM_THREADS", "1")
        environment.setdefault("OPENBLAS_NUM_THREADS", "1")
        with self.log(name).open("ab") as log:
            self._running[name] = launch(
                [sys.executable, "-m", "plumbline", "serve", str(role_of(name))],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def fair_share(self) -> int:
        """Share the cores of this machine among the parties that encrypt, all at the same time; at least 1."""
        busy = sum(role_of(name) is not Role.COORDINATOR for name in self.settings)
        return max(1, available_cores() // max(1, busy))

    def peers_of(self, name: str) -> Mapping[str, str]:
        """Tell where one party finds the others, and itself: HOST:PORT by name."""
        return self.addresses

    def check(self) -> None:
        """Raise ProcessFailed when a process has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise ProcessFailed(f"{name} ended with status {process.returncode}:\n{self.last_words(name)}")

    def last_words(self, name: str, lines: int = 8) -> str:
        """Read the last lines of a party's log."""
        return "\n".join(self.log(name).read_text(errors="replace").splitlines()[-lines:])

    def process(self, name: str) -> subprocess.Popen[bytes]:
        """Find one party's process, once it is started."""
        return self._running[name]

    def stop(self) -> None:
        """Ask every process to stop, and end those that don't."""
        for process in self._running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        for process in self._running.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_addresses(count: int) -> Sequence[str]:
    """Distinct loopback addresses that are free now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{held.getsockname()[1]}" for held in sockets]
