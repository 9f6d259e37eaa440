"""How long a training stands still once a killed party is back: each in turn is killed and started again.

Prints the seconds until the next step is done, of which ``back`` is from where the new process serves, and ``started``
from where it is started: with its imports.

    python -m scripts.recovery --rounds 3
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pandas as pd

from plumbline.audit.request import AuditRequest
from plumbline.federation import Federation, FederationFailed
from plumbline.federation_status import FederationStatus
from plumbline.processes import LocalProcesses
from services.common.certificates import CertificateFiles
from services.common.identity import Identity, Role
from services.common.meters import TrafficMeter
from services.network.transport import Transport, is_serving

_SECONDS, _PAUSE = 120.0, 0.02
_TERMS = {
    "steps": "plain",
    "epochs": 500,
    "batch_size": 64,
    "resume_within": _SECONDS,
    "step_timeout": 30,
    "log_level": "WARNING",
}


def _until(federation: Federation, holds: Callable[[FederationStatus], bool]) -> float:
    """Ask until the status is so; returns when that was."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        # An active party that starts again doesn't answer yet.
        with suppress(FederationFailed):
            if holds(federation.status(quick=True)):
                return time.monotonic()
        time.sleep(_PAUSE)
    raise TimeoutError(f"Nothing of the kind in {_SECONDS:g} s: see {federation.processes.folder}.")


def _steps(status: FederationStatus) -> int:
    at_work = status.stage == "training" and status.job is not None and status.job.waiting_since is None
    return status.job.steps_done if at_work and status.job is not None else 0


def _seconds_until_it_goes_on(federation: Federation, victim: str) -> tuple[float, float]:
    """Kill a party in mid-training and start it again."""
    processes = federation.processes
    reached = _steps(federation.status(quick=True))
    processes.process(victim).kill()
    processes.process(victim).wait()
    if victim != "active":
        _until(federation, lambda status: status.job is not None and victim in status.job.waiting_for)
    started = time.monotonic()
    processes.start_party(victim)
    back = _serves(processes, victim)
    goes_on = _until(federation, lambda status: _steps(status) > reached + 1)
    return max(0.0, goes_on - back), goes_on - started


def _serves(processes: LocalProcesses, name: str) -> float:
    """Wait until a party serves; returns when that was."""
    operator = str(Role.OPERATOR)
    files = CertificateFiles.of(processes.certificates, operator)
    transport = Transport(Identity(Role.OPERATOR, operator), files, TrafficMeter())
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        processes.check()
        with transport.dial(processes.addresses[name], name) as channel:
            if is_serving(channel):
                return time.monotonic()
        time.sleep(_PAUSE)
    raise TimeoutError(f"{name} doesn't serve: see {processes.log(name)}.")


def recoveries(protocol: str, rounds: int) -> Iterator[tuple[str, str, float, float]]:
    """Yield protocol, killed party and seconds since it was back and since it was started, round by round."""
    with tempfile.TemporaryDirectory() as scratch:
        request = AuditRequest.of(data="breast_cancer", settings={**_TERMS, "protocol": protocol, "opening": "always"})
        settings = request.recipe(request.tables.party_settings).checked().settings(Path(scratch) / "parties")
        with Federation.start(LocalProcesses(Path(scratch), settings)) as federation:
            training = threading.Thread(target=_trained, args=(federation,))
            training.start()
            _until(federation, lambda status: _steps(status) > 1)
            for _ in range(rounds):
                for victim in settings:
                    yield protocol, victim, *_seconds_until_it_goes_on(federation, victim)
            federation.cancel()
            training.join()


def _trained(federation: Federation) -> None:
    # The call ends with the process that it was made to; the job goes on.
    with suppress(FederationFailed):
        federation.train()


def main() -> None:
    """Measure and print."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--rounds", type=int, default=3, help="how often each party is killed, under each protocol")
    rounds = asked.parse_args().rounds
    rows = [row for protocol in ("hu", "shared") for row in recoveries(protocol, rounds)]
    found = pd.DataFrame(rows, columns=pd.Index(["protocol", "killed", "back", "started"]))
    print(found.groupby(["protocol", "killed"]).agg(["median", "max"]).round(1))


if __name__ == "__main__":
    main()
