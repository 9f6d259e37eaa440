"""What is done to a federation at work, and undone: each fault draws its particulars from the run's own randomness."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple
from unittest.mock import patch

from plumbline.federation import Federation, FederationFailed
from services.common.certificates import renew_certificates
from tests.harness.clocks import Clock
from tests.harness.disks import Disk
from tests.harness.proxy import Fault, ProxiedProcesses

_LINK_FAULTS = (Fault.CUT, Fault.DELAY, Fault.TRUNCATE, Fault.FLIP, Fault.BLACK_HOLE)
# Within a certificate's life, and outside it.
_STEPS = (-86_400, -3_600, -60, 60, 3_600, 30 * 86_400, 400 * 86_400)
# What glibc keeps of freed memory, in an arena for each of many threads, grows by 100 MB before it stays: here it gives
# everything back, so that what grows is held.
_TIDY_MEMORY = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_MMAP_THRESHOLD_": "65536"}
# libfaketime looks at its file once a second.
_CLOCK_SECONDS = 1.2


@dataclass
class SoakedProcesses(ProxiedProcesses):
    """Local processes with proxies between them, a clock of their own each, and a folder that a disk may be lost under.

    Attributes:
        clocks: by party.
    """

    clocks: dict[str, Clock] = field(default_factory=dict)

    @property
    def certificates(self) -> Path:
        """Beside the folder: who renews them has another disk."""
        return self.folder.parent / "certs"

    def start_party(self, name: str) -> None:
        """Start (or start again) one party at its address, with its clock."""
        with self.clocks[name].given(), patch.dict(os.environ, _TIDY_MEMORY):
            super().start_party(name)


@dataclass(frozen=True)
class Stage:
    """What faults work on.

    Attributes:
        federation: as its operator sees it.
        processes: its processes.
        disk: under all state and records.
        dead: parties that were killed, and are to be started once all else is mended.
    """

    federation: Federation
    processes: SoakedProcesses
    disk: Disk
    dead: set[str] = field(default_factory=set)

    @property
    def parties(self) -> list[str]:
        """Names of all, the coordinator's among them."""
        return list(self.processes.settings)

    def revive(self) -> None:
        """Start who was killed."""
        while self.dead:
            self.processes.start_party(self.dead.pop())


class Struck(NamedTuple):
    """What was done.

    Attributes:
        words: as the log of events has it.
        parties: those that may be said not to answer.
    """

    words: str
    parties: tuple[str, ...] = ()


@contextmanager
def killed(stage: Stage, source: Random) -> Iterator[Struck]:
    """Processes end without a word, for `Stage.revive` to start again: none starts on a full disk."""
    names = source.sample(stage.parties, source.choice((1, 1, 1, 2, len(stage.parties))))
    for name in names:
        stage.processes.process(name).kill()
    for name in names:
        stage.processes.process(name).wait()
    stage.dead.update(names)
    yield Struck(f"kill -9 of {', '.join(names)}", tuple(names))


@contextmanager
def frozen(stage: Stage, source: Random) -> Iterator[Struck]:
    """One process stops, and goes on."""
    name = source.choice(stage.parties)
    process = stage.processes.process(name)
    process.send_signal(signal.SIGSTOP)
    try:
        yield Struck(f"SIGSTOP of {name}", (name,))
    finally:
        process.send_signal(signal.SIGCONT)


@contextmanager
def broken_link(stage: Stage, source: Random) -> Iterator[Struck]:
    """The way from one party to another cuts, delays, truncates, flips bits or swallows all."""
    caller, callee = source.choice(sorted(stage.processes.proxies))
    fault = source.choice(_LINK_FAULTS)
    proxy = stage.processes.proxies[caller, callee]
    proxy.strike(fault)
    try:
        yield Struck(f"link from {caller} to {callee}: {fault}", (caller, callee))
    finally:
        proxy.heal()


@contextmanager
def full_disk(stage: Stage, source: Random) -> Iterator[Struck]:
    """Nobody can write state or records."""
    stage.disk.break_(stage.processes)
    try:
        yield Struck(f"disk: {stage.disk.says}")
    finally:
        stage.disk.mend(stage.processes)


@contextmanager
def stepped_clock(stage: Stage, source: Random) -> Iterator[Struck]:
    """One party's time of day jumps, and is set right again."""
    name, step = source.choice(stage.parties), source.choice(_STEPS)
    stage.processes.clocks[name].set(step)
    time.sleep(_CLOCK_SECONDS)
    try:
        yield Struck(f"clock of {name}: {step:+,d} s", (name,))
    finally:
        stage.processes.clocks[name].set(0)
        time.sleep(_CLOCK_SECONDS)


@contextmanager
def renewed(stage: Stage, source: Random) -> Iterator[Struck]:
    """Everybody has a new certificate."""
    renew_certificates(stage.processes.certificates)
    yield Struck("certificates renewed")


@contextmanager
def cancelled(stage: Stage, source: Random) -> Iterator[Struck]:
    """The operator cancels whatever is at work."""
    with suppress(FederationFailed):
        stage.federation.cancel()
    yield Struck("the job cancelled")


@contextmanager
def undisturbed(stage: Stage, source: Random) -> Iterator[Struck]:
    """Nothing: what is asked for must succeed."""
    yield Struck("nothing")


MakeFault = Callable[[Stage, Random], AbstractContextManager[Struck]]
# The clock is left alone where there is no libfaketime.
FAULTS: tuple[MakeFault, ...] = (killed, frozen, broken_link, full_disk, renewed, cancelled, undisturbed)
