"""What a study of a paper is made of, and what its sections are measured with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from plumbline.simulation.rounds import Done, unwatched
from plumbline.sweep import Cell, Choice, SweepOptions, run_cells
from vfl.data import missing_files


@dataclass(frozen=True)
class Study:
    """One paper's experiments.

    Attributes:
        name: of the command and the folder: ``plumbline figures NAME``.
        title: of the page.
        paper: authors, title, year.
        sections: for each part of the page, by name, ``module:function``: a function ``(StudyRun) -> Section``. Modules
            are imported when their section runs: some need torch.
        lead: one or two sentences on top of the page.
    """

    name: str
    title: str
    paper: str
    sections: Mapping[str, str]
    lead: str


@dataclass(frozen=True, eq=False)
class StudyRun:
    """What a section is measured with.

    Attributes:
        sweep: how cells are run, and where finished ones are kept.
        quick: fewer windows, seeds and records, which the page says.
        seed: the first one; others follow it.
        attacks: plugins that are drawn into every figure where they can be mounted (``--with``).
        defences: likewise.
        done: told which share of the section is done.
    """

    sweep: SweepOptions
    quick: bool = False
    seed: int = 0
    attacks: tuple[Choice, ...] = ()
    defences: tuple[Choice, ...] = ()
    done: Done = field(default=unwatched)

    def measure(self, cells: Sequence[Cell]) -> pd.DataFrame:
        """Measure cells, those apart that some study measured before: a row each (``run_cells``)."""
        return run_cells(cells, replace(self.sweep, done=self.done))

    def available(self, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The data sets that are there, and a sentence for each that isn't: how to get it."""
        missing = {name: missing_files(name, self.sweep.data_dir) for name in names if name != "synthetic"}
        there = tuple(name for name in names if not missing.get(name))
        return there, tuple(
            f"{name} is skipped: {', '.join(files)} is missing. Get it with: plumbline datasets fetch {name}"
            for name, files in missing.items()
            if files
        )
