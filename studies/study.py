"""What a study of a paper is made of, and what its sections are measured with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from studies.measurements import Choice, Measurement, SweepOptions, measure_all
from studies.simulation.rounds import Done, unwatched
from vfl.data import dataset, missing_files, sampled_rows

# What an option of a study may be: its default says which.
OptionValue: TypeAlias = bool | int | tuple[str, ...]


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
        shares: about how long a section takes beside the others, for the time that is left; 1 where it isn't said.
    """

    name: str
    title: str
    paper: str
    sections: Mapping[str, str]
    lead: str
    shares: Mapping[str, float] = field(default_factory=dict)


@dataclass
class MeasurementTally:
    """Counts what became of a section's measurements.

    Attributes:
        measured: anew in this run.
        known: from the store.
        failed: sentences on measurements that failed, each once.
        not_applicable: likewise on attacks and defences that can't work where they were asked for.
        data: sentences on data sets that aren't there, or not whole.
        samples: of data sets of which a published sample is there, its rows.
    """

    measured: int = 0
    known: int = 0
    failed: list[str] = field(default_factory=list)
    not_applicable: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    samples: dict[str, int] = field(default_factory=dict)

    def add(self, frame: pd.DataFrame) -> None:
        """Count the rows that ``measure_all`` returned."""
        known = int(frame.attrs.get("known", 0))
        self.known += known
        self.measured += len(frame) - known
        for status, sentences in (("failed", self.failed), ("not applicable", self.not_applicable)):
            rows = frame[frame["status"] == status] if len(frame) else frame
            for _, row in rows.iterrows():
                sentence = f"{_subject(row)}: {row['reason']}"
                if sentence not in sentences:
                    sentences.append(sentence)


def _subject(row: "pd.Series[Any]") -> str:
    """What was measured, in a word or two: the attack and the defence, or the function."""
    parts = [row.get("attack"), row.get("defence"), row.get("function")]
    words = [str(one) for one in parts if isinstance(one, str) and one != "none"]
    dataset = row.get("dataset")
    return " under ".join(words) + (f" on {dataset}" if isinstance(dataset, str) else "")


@dataclass(frozen=True, eq=False)
class StudyRun:
    """What a section is measured with.

    Attributes:
        sweep: how measurements are run, and where finished ones are kept.
        quick: fewer windows, seeds and records, which the page says.
        seed: the first one; others follow it.
        attacks: plugins that are drawn into every figure where they can be mounted (``--with``).
        defences: likewise.
        options: of this study, by name (``StudyEntry.options``); what isn't given is at its default.
        done: told which share of the section is done.
        tally: counts the section's measurements.
    """

    sweep: SweepOptions
    quick: bool = False
    seed: int = 0
    attacks: tuple[Choice, ...] = ()
    defences: tuple[Choice, ...] = ()
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    done: Done = field(default=unwatched)
    tally: MeasurementTally = field(default_factory=MeasurementTally)

    @property
    def data_dir(self) -> Path | None:
        """Folder of raw files."""
        return self.sweep.data_dir

    def measure(self, measurements: Sequence[Measurement]) -> pd.DataFrame:
        """Measure measurements, those apart that some study measured before: a row each (``measure_all``)."""
        frame = measure_all(measurements, replace(self.sweep, done=self.done))
        self.tally.add(frame)
        return frame

    def available(self, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The data sets that are there, and a sentence for each that isn't, or not whole: how to get it."""
        raw = [name for name in dict.fromkeys(names) if name != "synthetic"]
        missing = {name: files for name in raw if (files := missing_files(name, self.data_dir))}
        sentences = [
            f"{name} is skipped: {', '.join(files)} {'is' if len(files) == 1 else 'are'} missing. Get it with: "
            f"plumbline datasets fetch {name}"
            for name, files in missing.items()
        ]
        samples = {name: rows for name in raw if (rows := sampled_rows(name, self.data_dir))}
        self.tally.samples |= samples
        sentences += [
            f"{name} is a published sample here, {rows:,} of {dataset(name).rows:,} rows: its numbers aren't the whole "
            f"data set's. Get it with: plumbline datasets fetch {name}"
            for name, rows in samples.items()
        ]
        self.tally.data += [one for one in sentences if one not in self.tally.data]
        return tuple(name for name in names if name not in missing), tuple(sentences)
