"""Before anything is sent: which column of it tells most, and what is told of fewer or coarser ones.

Each set of columns is judged by the models of ``plumbline.received.mounting``, on at most 500 records, with no control.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from plumbline.charts.axes import Axis, frame, padded
from plumbline.charts.drawings import PERCENT, WIDTH
from plumbline.charts.marks import Chart, Trace
from plumbline.judge.answer import listed
from plumbline.judge.column_sets import WITHIN_PART
from plumbline.judge.evidence import Predictor
from plumbline.judge.federation_part import at
from plumbline.judge.predictions import judge_predictions
from plumbline.judge.truth import Truth
from plumbline.received.coarser_columns import WAYS, coarser, kept
from plumbline.received.judge_request import SECRET
from plumbline.received.kinds import numbers_or_codes
from plumbline.received.mounting import mounted
from plumbline.received.received_findings import KNOWING, at_records, received_answer
from plumbline.received.received_tables import ReceivedRecords
from plumbline.received.skewed_columns import guesses
from plumbline.telling.numbers import percent
from services.common.durable import write_durably
from services.common.run_files import parsed, read_json
from services.common.run_folder import RunFolder
from services.common.run_records import Estimates
from vfl.arrays import FloatArray
from vfl.data.faults import counted

# Records that sets are judged by, and sets of columns that are left out by themselves.
MOST_JUDGED, MOST_LEFT_OUT = 500, 16
HEADINGS = ("what is sent", "largest part", "exposed", "left of it")
_HEIGHT = 260
Row = tuple[str, str, str, str]


@dataclass(frozen=True)
class SentSet:
    """What could be sent.

    Attributes:
        title: what is sent, in words.
        part: the largest part of a secret column that it tells; None where none was measured.
        column: whose.
        exposed: how many secret columns it tells a tenth of, or more, beyond chance.
        columns: how many there are.
        kept: share of what was meant to be sent that it has, 0 to 1: see ``coarser_columns.kept``.
    """

    title: str
    part: float | None
    column: str
    exposed: int
    columns: int
    kept: float

    @property
    def row(self) -> Row:
        """Write it as a row of a table under ``HEADINGS``."""
        part = "not measured" if self.part is None else f"{percent(self.part)} ({listed([self.column])})"
        return self.title, part, f"{self.exposed} of {self.columns}", percent(self.kept)


@dataclass(frozen=True)
class Before:
    """What is told by all that is meant to be sent, by less of it, and by coarser versions.

    Attributes:
        whole: all of it.
        without: a column, or a few beside each other, left out.
        frontier: 1, 2, 4 ... of these left out together, first those without which least is told.
        coarser: every column coarser, a set for each way.
        records: how many were judged.
    """

    whole: SentSet
    without: tuple[SentSet, ...]
    frontier: tuple[SentSet, ...]
    coarser: tuple[SentSet, ...]
    records: int

    @property
    def groups(self) -> tuple[tuple[str, list[Row]], ...]:
        """The sets in tables under ``HEADINGS``, each with its title; empty ones left out."""
        titles = ("All that is sent", "Without a part of it", "Ever less of it", "Every column coarser")
        sets = ((self.whole,), self.without, self.frontier, self.coarser)
        return tuple((title, [one.row for one in some]) for title, some in zip(titles, sets, strict=True) if some)

    @property
    def sentences(self) -> list[str]:
        """Say what follows for who sends."""
        advice, least = [], min(self.without, key=_told, default=None)
        if least is not None and _told(least) < _told(self.whole) - WITHIN_PART:
            advice.append(f"Least is told {least.title}: {least.row[1]} in place of {self.whole.row[1]}.")
        elif least is not None:
            advice.append("No sent column tells most by itself: without any of them, others tell nearly as much.")
        tried = (*self.without, *self.frontier, *self.coarser)
        if closed := [one for one in tried if not one.exposed]:
            best = max(closed, key=lambda one: one.kept)
            advice.append(
                f"No column is shown to lose a tenth where this is sent: {best.title}; {best.row[3]} is left of it."
            )
        elif self.whole.exposed and tried:
            best = min(tried, key=_told)
            advice.append(f"Nothing that was tried closes it; least is told {best.title}: {best.row[1]}.")
        return [*advice, f"Judged by {counted(self.records, 'record')}, without a shuffled copy: compare, don't cite."]

    def chart(self) -> Chart:
        """Draw what is left of what is sent against the largest part that it tells."""
        sets = (self.whole, *self.without, *self.frontier, *self.coarser)
        across = Axis(0, 1, "largest part of a column", values=PERCENT)
        upward = Axis(*padded([0.0, *(one.kept for one in sets)]), "left of what is sent", values=PERCENT)
        field = frame(WIDTH, _HEIGHT, across, upward)
        dots = [
            Trace(
                ((field.x(_told(one)), field.y(one.kept)),), "s1 point" if one in self.coarser else "dot", title, True
            )
            for one in sets
            for title in (": ".join(one.row[:2]),)
        ]
        key = (("dot", "columns left out"), ("s1 point", "every column coarser"))
        summary = "; ".join(f"{one.row[0]}: {one.row[1]}, {one.row[3]} left" for one in sets)
        return Chart("What is left against what is told", f"{summary}.", WIDTH, _HEIGHT, (*field.marks, *dots), key)


def sets_of(columns: int) -> int:
    """Say how many sets are judged, at most, of so many columns."""
    parts = min(MOST_LEFT_OUT, columns)
    return 1 + parts + parts.bit_length() + len(WAYS)


def _told(sent_set: SentSet) -> float:
    return sent_set.part or 0.0


def weigh(records: ReceivedRecords, seed: int) -> Before:
    """Judge what is meant to be sent, less of it, and coarser versions.

    Args:
        records: of the tables.
        seed: draws noise, and the records that sets are judged by.
    """
    columns = records.facts.columns
    draw = np.random.default_rng([seed, len(columns)])
    sample = np.sort(draw.permutation(records.judged)[:MOST_JUDGED])
    sent = {one.name: numbers_or_codes(records.frame[one.name]) for one in columns}
    with tempfile.TemporaryDirectory(prefix="plumbline-") as scratch:
        folder = RunFolder(Path(scratch))
        records.write(folder)
        truth = Truth(folder, [SECRET], Estimates(sample, {}, records.known))
        measure = partial(_measured, _Bench(folder, truth, tuple(guesses(truth)), records, sent))
        parts = np.array_split(np.arange(len(sent)), min(MOST_LEFT_OUT, len(sent)))
        blocks = [tuple(list(sent)[at] for at in part) for part in parts]

        def less(names: tuple[str, ...]) -> SentSet:
            remainder = {name: one for name, one in sent.items() if name not in names}
            return measure(f"without {listed(list(names))}", remainder)

        everything = measure("all of it", sent)
        without = [less(block) for block in blocks] if len(blocks) > 1 else []
        order = [block for _, block in sorted(zip(map(_told, without), blocks, strict=False), key=lambda one: one[0])]
        steps = [2**power for power in range(1, len(order).bit_length()) if 2**power < len(order)]
        ever_less = [less(tuple(name for block in order[:step] for name in block)) for step in steps]
        by_name = {one.name: one for one in columns}
        versions = [
            measure(words, {name: coarser(one, by_name[name], way, draw) for name, one in sent.items()})
            for way, words in WAYS.items()
        ]
    return Before(everything, tuple(without), tuple(ever_less), tuple(versions), len(sample))


@dataclass(frozen=True, eq=False)
class _Bench:
    folder: RunFolder
    truth: Truth
    imputed: tuple[Predictor, ...]
    records: ReceivedRecords
    sent: Mapping[str, FloatArray]


def _measured(bench: _Bench, title: str, sent: Mapping[str, FloatArray]) -> SentSet:
    """Judge one set of (records,) columns by their names."""
    columns = bench.records.facts.columns
    facts = replace(bench.records.facts, columns=tuple(one for one in columns if one.name in sent))
    sending = replace(bench.records, frame=pd.DataFrame(dict(sent)), facts=facts)
    outcomes = mounted(bench.folder, bench.truth, sending, (0, np.arange(len(sending.frame))))
    findings = judge_predictions(bench.truth, outcomes, bench.folder.estimates(0).by_attack, bench.imputed)
    answers = received_answer(facts, at_records(findings), ()).columns
    parts = {one.column: part.mean for one in answers if (part := at(one.levels, KNOWING).part) is not None}
    largest = max(parts, key=lambda name: parts[name], default="")
    share = [kept(bench.sent[one.name], sent[one.name], one) if one.name in sent else 0.0 for one in columns]
    exposed = sum(one.light in ("red", "amber") for one in answers)
    return SentSet(title, parts.get(largest), largest, exposed, len(answers), round(float(np.mean(share)), 6))


def write_before(run: Path, before: Before) -> None:
    """Write it beside a run's results."""
    write_durably(run / "before.json", json.dumps(asdict(before), indent=1).encode())


def read_before(run: Path) -> Before | None:
    """Read it from a run's folder; None where nobody asked. Raises RunFolderError for a broken file."""
    path = run / "before.json"
    return parsed(Before, read_json(path), path) if os.path.lexists(path) else None
