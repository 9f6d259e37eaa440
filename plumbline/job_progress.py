"""How far a run is, for whoever waits for it: a bar on a terminal, a line every ten seconds where a bar can't move.

A run has stages, and a stage so much work in units of its own: ids, steps, attacks. Both forms say what is at work,
how far it is and how long it may still take.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from plumbline.telling.numbers import seconds as duration
from protos.v1 import active_pb2
from services.common.words import escaped

_MOST_SHOWN = 40
# Between two lines of a log or a pipe.
_QUIET_SECONDS = 10.0
# What a stage's progress counts, by its name.
_UNITS = {"aligning": "ids", "training": "steps", "attacking": "attacks"}

Clock = Callable[[], float]


class RunProgress:
    """Told how far a run is; by itself it shows nothing, for who asked for quiet."""

    def stage(self, name: str, unit: str = "") -> None:
        """Begin a stage, whose work is counted in ``unit``."""

    def at(self, done: int, planned: int, what: str = "") -> None:
        """``done`` of ``planned`` units of the stage are over; ``what`` is at work."""

    def note(self, words: str) -> None:
        """Words that stay beside the progress of the stage: a loss."""


class TimeLeft:
    """Foretells the end of a stage from its pace so far.

    Where its units take times of their own (attacks), ``expected`` says how long each was thought to take. The pace is
    then by how much they took longer or shorter.
    """

    def __init__(self, clock: Clock = time.monotonic, expected: Mapping[str, float] | None = None) -> None:
        self._clock = clock
        self._expected = dict(expected or {})
        self._begin = self._clock()
        self._work_done = 0.0
        self._at_work = ""
        self._done = 0

    def seconds(self, done: int, planned: int, what: str = "") -> float | None:
        """Seconds until ``planned`` units are over; None before the first is."""
        if self._expected and done > self._done:
            self._work_done += self._expected.get(self._at_work, 0.0) * (done - self._done)
        self._done, self._at_work = done, what
        elapsed = self._clock() - self._begin
        if done >= planned:
            return 0.0
        if self._expected:
            remaining = max(sum(self._expected.values()) - self._work_done, 0.0)
            pace = elapsed / self._work_done if self._work_done else 1.0
            return remaining * pace
        return elapsed / done * (planned - done) if done else None


class ProgressLines(RunProgress):
    """Prints a line when a stage begins, and while it goes on one every ten seconds at most."""

    def __init__(
        self, console: Console, clock: Clock = time.monotonic, expected: Mapping[str, float] | None = None
    ) -> None:
        self._console, self._clock, self._expected = console, clock, expected
        self._name, self._unit, self._note = "starting", "", ""
        self._left = TimeLeft(clock)
        self._last = -math.inf

    def stage(self, name: str, unit: str = "") -> None:
        """Begin a stage: that is a line of its own."""
        self._name, self._unit, self._note = name, unit, ""
        self._left = TimeLeft(self._clock, self._expected if unit == "attacks" else None)
        self._print(f"{name} ...")

    def at(self, done: int, planned: int, what: str = "") -> None:
        """Say how far the stage is, unless a line was printed a moment ago."""
        remaining = self._left.seconds(done, planned, what)
        if self._clock() - self._last >= _QUIET_SECONDS and done < planned:
            facts = [far_words(done, planned, self._unit, what), left_words(remaining), self._note]
            self._print(f"{self._name}: {', '.join(filter(None, facts))}")

    def note(self, words: str) -> None:
        """Keep words for the next line."""
        self._note = words

    def _print(self, line: str) -> None:
        self._last = self._clock()
        self._console.print(Text(line), soft_wrap=True)


class ProgressBar(RunProgress):
    """Shows the stage at work as a bar that moves."""

    def __init__(
        self, progress: Progress, clock: Clock = time.monotonic, expected: Mapping[str, float] | None = None
    ) -> None:
        self._progress, self._clock, self._expected = progress, clock, expected
        self._unit = ""
        self._left = TimeLeft(clock)
        self._task = self._added("starting")

    def stage(self, name: str, unit: str = "") -> None:
        """Begin a stage: the bar is empty again."""
        self._unit = unit
        self._left = TimeLeft(self._clock, self._expected if unit == "attacks" else None)
        self._progress.remove_task(self._task)
        self._task = self._added(name)

    def at(self, done: int, planned: int, what: str = "") -> None:
        """Move the bar."""
        remaining = left_words(self._left.seconds(done, planned, what))
        far = far_words(done, planned, self._unit, what)
        self._progress.update(self._task, completed=done, total=planned, far=far, left=remaining)

    def note(self, words: str) -> None:
        """Show words behind the bar."""
        self._progress.update(self._task, note=words)

    def _added(self, name: str) -> TaskID:
        return self._progress.add_task(name, total=None, far="", left="", note="")


@contextmanager
def shown_progress(console: Console, expected: Mapping[str, float] | None = None) -> Iterator[RunProgress]:
    """Show the progress of a run while inside, as a bar or in lines, as the console can.

    Args:
        console: a terminal, or a pipe or a log.
        expected: seconds that each attack is thought to take, by its label.
    """
    if not console.is_terminal:
        yield ProgressLines(console, expected=expected)
        return
    columns = (
        TextColumn("{task.description}", style="bold", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[far]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield ProgressBar(progress, expected=expected)


class JobWatcher:
    """Passes on a training job's events as progress of the run. What the active party says obeys no terminal."""

    def __init__(self, progress: RunProgress) -> None:
        self._progress = progress

    def __call__(self, event: active_pb2.JobEvent) -> None:
        kind = event.WhichOneof("event")
        if kind == "stage":
            name = escaped(event.stage, _MOST_SHOWN)
            self._progress.stage(name, _UNITS.get(name, ""))
        elif kind == "progress":
            progress = event.progress
            self._progress.at(progress.steps_done, progress.steps_planned, escaped(progress.at_work, _MOST_SHOWN))
        elif kind == "epoch" and not math.isnan(event.epoch.validation_loss):
            self._progress.note(f"validation loss {event.epoch.validation_loss:.4f}")


def far_words(done: int, planned: int, unit: str, what: str = "") -> str:
    """Say how far a stage is: ``41,000 of 118,668 ids``; of attacks which one is at work: ``3 of 14 attacks: gia``."""
    if what:
        return f"{f'{min(done + 1, planned):,} of {planned:,} {unit}'.rstrip()}: {what}"
    return f"{done:,} of {planned:,} {unit}".rstrip()


def left_words(seconds: float | None) -> str:
    """Say how long something still takes: ``21 s left``, ``4 min left``; empty for who can't know."""
    return "" if seconds is None else f"{duration(seconds)} left"
