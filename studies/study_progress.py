"""How far a study is: a bar on a terminal, a line every ten seconds where a bar can't move."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from plumbline.job_progress import Clock, left_words
from studies.study import Study

# Between two lines of a log or a pipe.
_QUIET_SECONDS = 10.0
# The share after which a pace is one: before it, most time went into starting.
_TELLING = 0.03


class StudyProgress:
    """Adds up how far a study's sections are, and says it.

    The time that is left follows from the pace so far, each section as long as its share says.
    """

    def __init__(
        self,
        console: Console,
        study: Study,
        sections: Sequence[str],
        bar: Progress | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._console, self._clock, self._bar = console, clock, bar
        self._shares = {name: study.shares.get(name, 1.0) for name in sections}
        self._total = sum(self._shares.values())
        self._behind, self._within, self._number = 0.0, 0.0, 0
        self._section = ""
        self._start = self._section_start = clock()
        self._said = -math.inf
        self._task: TaskID | None = (
            None if bar is None else bar.add_task(study.name, total=self._total, far="", left="")
        )

    @property
    def seconds(self) -> float:
        """How long the section at work has taken."""
        return self._clock() - self._section_start

    def begin(self, name: str) -> None:
        """A section begins."""
        self._section, self._within = name, 0.0
        self._number += 1
        self._section_start = self._clock()
        self._show(begins=True)

    def at(self, share: float) -> None:
        """Such a share of the section is done. It never goes back: a section may measure more than once."""
        self._within = max(self._within, min(share, 1.0))
        self._show()

    def end(self, words: str) -> None:
        """The section is over; says what came of it."""
        self._behind += self._shares[self._section]
        self._within = 0.0
        self._console.print(Text(f"{self._section}: {words}"), soft_wrap=True)
        self._said = self._clock()

    def _show(self, *, begins: bool = False) -> None:
        done = self._behind + self._within * self._shares[self._section]
        far = f"{self._section} ({self._number} of {len(self._shares)}), {done / self._total:.0%}"
        left = left_words(self._seconds_left(done))
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, far=far, left=left)
        elif begins or self._clock() - self._said >= _QUIET_SECONDS:
            self._console.print(Text(", ".join(filter(None, (far, left)))), soft_wrap=True)
            self._said = self._clock()

    def _seconds_left(self, done: float) -> float | None:
        if done < _TELLING * self._total:
            return None
        return (self._clock() - self._start) / done * (self._total - done)


@contextmanager
def shown_study_progress(console: Console, study: Study, sections: Sequence[str]) -> Iterator[StudyProgress]:
    """Shows how far a study is while inside, as a bar or in lines, as the console can."""
    if not console.is_terminal:
        yield StudyProgress(console, study, sections)
        return
    columns = (
        TextColumn("{task.description}", style="bold", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[far]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield StudyProgress(console, study, sections, bar)
