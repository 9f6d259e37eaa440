"""Local processes of a federation: free ports, certificates, start, log files, stop."""

import json
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
from services.common.settings import PREFIX

_STOP_SECONDS = 5.0
# What a service's log says before a traceback (services.common.statuses, services.active.server).
UNEXPECTED = "Unexpected error"


class ProcessFailed(RuntimeError):
    """A party's process ended by itself; the text ends with its last words."""


@dataclass
class LocalProcesses:
    """One process per party on this machine, all certificates in ``folder``/certs, a log per party in ``logs``.

    ``settings[name]`` are that party's own settings, by field name; addresses, certificates and names are added here.
    ``logs``: a folder that exists; default: ``folder``.
    """

    folder: Path
    settings: Mapping[str, Mapping[str, object]]
    insecure_transport: bool = False
    logs: Path | None = None
    addresses: dict[str, str] = field(default_factory=dict)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def certificates(self) -> Path:
        return self.folder / "certs"

    def log(self, name: str) -> Path:
        """Where one party's log is."""
        return (self.logs or self.folder) / f"{name}.log"

    def logs_of_errors(self) -> dict[str, Path]:
        """The logs, by party, that hold an error that no party expected."""
        logs = {name: self.log(name) for name in self._running}
        return {name: log for name, log in logs.items() if UNEXPECTED in log.read_text(errors="replace")}

    def start(self) -> None:
        """Make certificates and start every party; returns at once."""
        self.addresses = dict(zip(self.settings, _free_addresses(len(self.settings)), strict=True))
        if not self.insecure_transport:
            names = [*self.settings, str(Role.OPERATOR)]
            create_federation_certificates(self.certificates, [Identity(role_of(name), name) for name in names])
        for name in self.settings:
            self.start_party(name)

    def start_party(self, name: str) -> None:
        """Start (or start again) one party at its address."""
        role = role_of(name)
        values: dict[str, object] = {
            "listen": self.addresses[name],
            "peers": ",".join(f"{peer}={address}" for peer, address in self.addresses.items()),
            **self.settings[name],
        }
        if role is Role.PASSIVE:
            values["name"] = name
        if self.insecure_transport:
            values["transport"] = "insecure"
        else:
            values["certs"] = self.certificates
        environment = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
        environment |= {PREFIX + key.upper(): _as_text(value) for key, value in values.items()}
        # One thread per party: three parties share this machine's cores.
        environment.setdefault("OMP_NUM_THREADS", "1")
        environment.setdefault("OPENBLAS_NUM_THREADS", "1")
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(  # noqa: S603 - our own module, no shell
                [sys.executable, "-m", "plumbline", "serve", str(role)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def check(self) -> None:
        """Raises ProcessFailed when a process has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise ProcessFailed(f"{name} ended with status {process.returncode}:\n{self.last_words(name)}")

    def last_words(self, name: str, lines: int = 8) -> str:
        """The end of a party's log."""
        return "\n".join(self.log(name).read_text(errors="replace").splitlines()[-lines:])

    def process(self, name: str) -> subprocess.Popen[bytes]:
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


def _as_text(value: object) -> str:
    """A setting as an environment variable."""
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _free_addresses(count: int) -> Sequence[str]:
    """Distinct loopback addresses that are free now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{held.getsockname()[1]}" for held in sockets]
