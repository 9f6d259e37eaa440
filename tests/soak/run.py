"""A run of rounds: train and predict, disturb, mend, and look whether every promise was kept."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

from plumbline.federation import Federation, FederationFailed, TrainingOutcome
from plumbline.processes import ProcessFailed
from tests.harness.clocks import Clock, fake_time_library
from tests.harness.disks import Disk, NoFileSystem, full, limited
from tests.harness.hostile import assert_sound
from tests.harness.processes import QUICK, local_processes
from tests.soak.faults import FAULTS, MakeFault, SoakedProcesses, Stage, Struck, stepped_clock, undisturbed
from tests.soak.resources import Samples, held_by
from tests.soak.served import Answers, Broken, Counts
from vfl.data.faults import counted

STEP_TIMEOUT = 6
# Rounds without end, and sessions without a limit: what is counted goes on being counted.
SETTINGS: dict[str, Any] = {
    **QUICK,
    "step_timeout": STEP_TIMEOUT,
    "alignments_per_day": 1_000_000,
    "most_equations": 1.0,
}
# From the end of the last fault on, on a machine that others use.
PATIENCE = 120.0
_DISK_MEGABYTES = 32
_MOST_ASKED = 40
_SILENT = re.compile(r"([\w-]+) (?:does|did) not answer")


@dataclass
class Soak:
    """One federation under chaos.

    Attributes:
        stage: what faults work on.
        source: what is drawn of rounds and faults.
        say: takes an event as it happens.
        faults: those to draw from.
        tally: how often what happened.
        samples: what processes held after each round.
    """

    stage: Stage
    source: Random
    say: Callable[[str], None]
    faults: tuple[MakeFault, ...]
    answers: Answers
    counts: Counts
    tally: Counter[str] = field(default_factory=Counter)
    samples: Samples = field(default_factory=Samples)
    _retired: set[str] = field(default_factory=set)
    _served: str = ""

    def run(self, until: float) -> None:
        """Train once, then at least one round, and more until this moment of the monotonic clock. Raises Broken."""
        self._served = self.stage.federation.train().session_id
        for number in count(1):
            self._round(number)
            if time.monotonic() >= until:
                return

    def _round(self, number: int) -> None:
        faults = self.source.sample(self.faults, 2 if len(self.faults) > 1 and self.source.random() < 0.25 else 1)
        # No two models are alike: another one's scores can't be taken for the right ones.
        terms: dict[str, Any] = {"epochs": self.source.randint(1, 4), "learning_rate": self.source.uniform(0.1, 0.5)}
        trains = self.source.random() < 0.75
        before, held = self.source.uniform(0, 2.5), self.source.uniform(0.2, 1.5 * STEP_TIMEOUT)
        struck: list[Struck] = []
        with ThreadPoolExecutor(1) as operator:
            job = operator.submit(self.stage.federation.train, **terms) if trains else None
            with self._asking(number):
                time.sleep(before)
                with ExitStack() as stack:
                    for fault in faults:
                        struck.append(stack.enter_context(fault(self.stage, self.source)))
                        self.say(f"round {number}: {struck[-1].words}")
                        self.tally[fault.__name__] += 1
                    if faults != [undisturbed]:
                        time.sleep(held)
                self.stage.revive()
            self._finish(job, {name for one in struck for name in one.parties}, must_succeed=faults == [undisturbed])
        self._settle()
        self._look(number)
        self.tally["rounds"] += 1

    @contextmanager
    def _asking(self, number: int) -> Iterator[None]:
        """Scores are asked for, as long as the block takes. Raises Broken for a wrong one, or an answer that hangs."""
        over = Event()
        with ThreadPoolExecutor(1) as clerk:
            asking = clerk.submit(self._ask, Random(f"{number}"), over)  # noqa: S311 - nothing secret
            try:
                yield
            finally:
                over.set()
            try:
                asking.result(PATIENCE)
            except NotDone as error:
                raise Broken(f"A prediction hangs: no answer within {PATIENCE:g} s.") from error

    def _ask(self, source: Random, over: Event) -> None:
        ids = self.answers.ids
        while not over.wait(0.05):
            try:
                self._predict(source.sample(ids, source.randint(1, _MOST_ASKED)))
            except FederationFailed:
                self.tally["predictions refused"] += 1

    def _predict(self, ids: list[str]) -> None:
        before = self.answers.served()
        scores = self.stage.federation.predict(ids)
        self.answers.check(scores, before, self.answers.served())

    def _finish(self, job: Future[TrainingOutcome] | None, guilty: set[str], *, must_succeed: bool) -> None:
        """Wait for the operator's job. Raises Broken where its failure names a party that nothing was done to."""
        if job is None:
            return
        try:
            outcome = job.result(PATIENCE)
        except NotDone as error:
            raise Broken(f"The job hangs: not over within {PATIENCE:g} s.") from error
        except FederationFailed as error:
            if must_succeed:
                raise Broken(f"Nothing was disturbed, and the job failed: {error}") from error
            if innocent := set(_SILENT.findall(str(error))) - guilty:
                raise Broken(f"Nothing was done to {', '.join(innocent)}, and the job failed: {error}") from error
            self.tally["jobs failed"] += 1
            self.say(f"    the job failed: {error}")
        else:
            self.tally["jobs done"] += 1
            self.say(f"    trained session {outcome.session_id}, {counted(outcome.epochs_run, 'epoch')}")

    def _settle(self) -> None:
        """Wait until nothing is at work, and every record is answered as it must be."""
        deadline, last = time.monotonic() + PATIENCE, ""
        while time.monotonic() < deadline:
            try:
                self.stage.processes.check()
                status = self.stage.federation.status()
                last = status.obstacle or (f"a job is {status.stage}" if status.job is not None else "")
                if not last:
                    self._predict(self.answers.ids)
                    return
            except FederationFailed as error:
                last = str(error)
            except ProcessFailed as error:
                raise Broken(f"A process ended by itself: {error}") from error
            time.sleep(0.1)
        raise Broken(f"Nothing is broken any more, and after {PATIENCE:g} s predictions are refused: {last}")

    def _look(self, number: int) -> None:
        """Look at what must hold between rounds."""
        served = self.answers.served()
        if served in self._retired:
            raise Broken(f"The model of session {served} is served again, after a later one.")
        if served != self._served:
            self._retired.add(self._served)
            self._served = served
        self.counts.check()
        try:
            assert_sound(self.stage.processes)
        except AssertionError as error:
            raise Broken(f"A log has what no log may have: {error}") from error
        for name in self.stage.parties:
            process = self.stage.processes.process(name).pid
            self.samples.add(number, name, process, held_by(process))


@contextmanager
def soaking(folder: Path, protocol: str, seed: int, say: Callable[[str], None]) -> Iterator[Soak]:
    """A federation of this protocol that has just started, ready for a run; what it can't be put through is said."""
    with ExitStack() as stack:
        disk = _disk(stack, folder / "disk", say)
        plain = local_processes(folder / "disk", protocol=protocol, **SETTINGS)
        library = fake_time_library()
        if library is None:
            say("clocks are left alone: there is no libfaketime (on Debian, apt-get install faketime)")
        clocks = {name: Clock(folder / f"{name}.clock", library) for name in plain.settings}
        processes = SoakedProcesses(plain.folder, plain.settings, logs=folder, clocks=clocks)
        federation = stack.enter_context(Federation.start(processes))
        faults = FAULTS if library is None else (*FAULTS, stepped_clock)
        source = Random(f"{seed} {protocol}")  # noqa: S311 - nothing secret: it has to be repeatable
        stage = Stage(federation, processes, disk)
        yield Soak(stage, source, say, faults, Answers(processes), Counts(processes))


def _disk(stack: ExitStack, folder: Path, say: Callable[[str], None]) -> Disk:
    """A file system of its own, or a limit for files where this user may mount none."""
    try:
        return stack.enter_context(full(folder, _DISK_MEGABYTES))
    except NoFileSystem:
        say("a full disk is a limit of what parties may write: this user may mount no file system")
        return stack.enter_context(limited(folder))
