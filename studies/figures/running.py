"""Runs a study section by section, and writes each as it ends: whoever interrupts it keeps what is done.

How far it is: a bar on a terminal, a line every ten seconds where a bar can't move.
"""

import logging
import math
import platform
import re
import subprocess
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from plumbline.job_progress import Clock, left_words
from plumbline.telling.numbers import seconds
from services.common.errors import FederationError
from studies.claims.claim import ALL
from studies.claims.statement import Statement
from studies.measurements.jobs import quieted
from studies.measurements.store import SweepStopped
from studies.page.section import Section
from studies.page.writing import stored_sections, write_study
from studies.speed.machine import this_machine
from studies.study import MeasurementTally, Study, StudyRun
from vfl.suggestions import did_you_mean

_ROOT = Path(__file__).resolve().parents[2]
_VERSIONS = ("plumbline", "numpy", "scipy", "scikit-learn", "pymanopt", "torch", "opacus")
# Between two lines of a log or a pipe.
_QUIET_SECONDS = 10.0
# The share after which a pace is one: before it, most time went into starting.
_TELLING = 0.03


@dataclass(frozen=True)
class StudyOutcome:
    """How a study ended.

    Attributes:
        page: of all sections.
        written: sections that were measured in this run, in their order.
        failures: why the others failed, by name.
        left_out: what measurements say that failed in sections that were written.
        undrawn: attacks and defences that were brought along and are in no measurement of these sections.
    """

    page: Path
    written: tuple[str, ...]
    failures: Mapping[str, str]
    left_out: tuple[str, ...] = ()
    undrawn: tuple[str, ...] = ()


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


def chosen_sections(study: Study, sections: Sequence[str] | None) -> list[str]:
    """The sections to run, each once, in the order given; all of the study for None.

    Raises:
        ValueError: for a name that no section has, or without any.
    """
    known = ", ".join(study.sections)
    chosen = list(dict.fromkeys(study.sections if sections is None else sections))
    if not chosen:
        raise ValueError(f"No section was chosen: choose from {known}.")
    for name in chosen:
        if name not in study.sections:
            suggestion = did_you_mean(name, study.sections)
            raise ValueError(f"{study.name} has no section {name!r}: choose from {known}.{suggestion}")
    return chosen


def run_study(
    study: Study,
    folder: Path,
    run: StudyRun,
    *,
    sections: Sequence[str] | None = None,
    command: str = "",
    console: Console,
) -> StudyOutcome:
    """Run sections of a study, and write each into ``folder`` as it ends (``write_study``).

    A section that fails leaves its reason on the page and a traceback beside it, and the others go on.

    Args:
        study: whose sections to run.
        folder: for the files.
        run: what sections are measured with.
        sections: names; all by default.
        command: that the user typed, for the page.
        console: for progress, the time that is left, and a line per section.

    Raises:
        ValueError: for a section that isn't known, and as ``stored_sections``.
        OSError: where something can't be written; sections that were written before stay.
        SweepStopped: when finished measurements can't be kept, or a sweep can't go on.
    """
    chosen = chosen_sections(study, sections)
    stored_sections(folder, study.name)  # a folder that can't be used is refused before anything is measured
    failures: dict[str, str] = {}
    left_out: list[str] = []
    said: set[str] = set()
    undrawn = {one.name: one.words for one in (*run.attacks, *run.defences)}
    page = folder / f"{study.name}.html"
    # Distorted equations often have no solution; that attacks then take longer is not worth a line each time.
    with shown_study_progress(console, study, chosen) as progress, quieted(["attacks"], logging.ERROR):
        for name in chosen:
            progress.begin(name)
            tally = MeasurementTally()
            made = _attempted(study, name, replace(run, done=progress.at, tally=tally), folder)
            settings = _settings(run, command, tally)
            if isinstance(made, Section):
                page = write_study(folder, study, {name: made}, settings)
                left_out += [f"{name}: {words}" for words in tally.failed]
                undrawn = {plugin: words for plugin, words in undrawn.items() if not _measures(made, plugin)}
            else:
                page = write_study(folder, study, {}, settings, {name: made})
                failures[name] = made
            progress.end(_ended_words(made, tally, progress))
            for words in (one for one in tally.data if one not in said):
                console.print(words, highlight=False, markup=False, soft_wrap=True)
            said.update(tally.data)
    written = tuple(name for name in chosen if name not in failures)
    return StudyOutcome(page, written, failures, tuple(left_out), tuple(undrawn.values()))


def _measures(section: Section, plugin: str) -> bool:
    """Whether some row of a section says in words that it is of a plugin."""
    texts = section.data.select_dtypes(exclude="number")
    return any(texts[column].map(lambda value: isinstance(value, str) and plugin in value).any() for column in texts)


def _attempted(study: Study, name: str, run: StudyRun, folder: Path) -> Section | str:
    """A section's measurements, or why there are none."""
    trace = folder / f"{study.name}-{name}-failure.txt"
    trace.unlink(missing_ok=True)
    try:
        made = _function(study.sections[name])(run)
        statements = tuple(of_samples(one, run.tally.samples) for one in made.statements)
        return replace(made, statements=statements)
    except SweepStopped:
        raise  # every other section would end so as well
    except (ValueError, OSError, FederationError, ImportError) as error:
        trace.write_text(traceback.format_exc(), encoding="utf-8")
        return str(error)
    except Exception as error:
        trace.write_text(traceback.format_exc(), encoding="utf-8")
        if run.tally.failed:
            # A section whose measurements failed may lack what it is drawn of: they are the reason.
            return (
                f"Its measurements failed, the first of them {run.tally.failed[0]} {trace.name} says what that led to."
            )
        return f"Something unexpected happened ({type(error).__name__}: {error}). {trace.name} says where."


def of_samples(statement: Statement, samples: Mapping[str, int]) -> Statement:
    """A statement whose subject says of which data sets there is a sample only."""
    every = statement.subject == ALL
    found = {name: rows for name, rows in samples.items() if every or re.search(rf"\b{name}\b", statement.subject)}
    words = ", ".join(f"{name}: a sample of {rows:,} rows" for name, rows in found.items())
    return replace(statement, subject=f"{statement.subject} ({words})") if found else statement


def _function(place: str) -> Callable[[StudyRun], Section]:
    module, _, attribute = place.partition(":")
    function: Callable[[StudyRun], Section] = getattr(import_module(module), attribute)
    return function


def _settings(run: StudyRun, command: str, tally: MeasurementTally) -> dict[str, Any]:
    """How a section was made, for its part of the page."""
    return {
        "seed": run.seed,
        "quick": run.quick,
        "options": {name: list(value) if isinstance(value, tuple) else value for name, value in run.options.items()},
        "brought": [one.words for one in (*run.attacks, *run.defences)],
        "made": datetime.now().isoformat(" ", "minutes"),
        "command": command,
        "cells": vars(tally),
        "versions": _versions(),
        "machine": this_machine().words,
        "commit": _commit(),
    }


def _ended_words(made: Section | str, tally: MeasurementTally, progress: StudyProgress) -> str:
    """What a terminal says of a section that has ended."""
    if isinstance(made, str):
        return f"failed. {made}"
    words = [seconds(progress.seconds)]
    if tally.measured + tally.known:
        words.append(f"{tally.measured:,} measurements made, {tally.known:,} known")
    if tally.failed:
        words.append(f"{len(tally.failed):,} kinds of measurements failed")
    counts = Counter(one.verdict for one in made.statements)
    return ", ".join([*words, *(f"{count} {verdict}" for verdict, count in counts.items())])


def _commit() -> str:
    """What of a checkout's history is measured; empty for an installed package."""
    if not (_ROOT / ".git").exists():
        return ""
    command = ("git", "describe", "--always", "--dirty")
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    return ""


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _VERSIONS:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
