"""Findings in a notebook or a script: as data frames, a page element, a drawing, the report, and a run of MLflow."""

from __future__ import annotations

import json
import math
import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from plumbline.judge.answer import Answer, ColumnAnswer
from plumbline.judge.federation_part import at
from plumbline.judge.findings import Findings
from plumbline.judge.first_screen import document_of
from plumbline.judge.measures import Interval
from plumbline.judge.persons import PersonFindings
from plumbline.judge.predictions import PredictionFindings
from plumbline.judge.training import TrainingFinding
from plumbline.report.html import template
from plumbline.spreadsheets import write_csv
from plumbline.telling.document import COLOURS, Document
from plumbline.telling.numbers import percent
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.words import escaped
from vfl.suggestions import did_you_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Columns that are shown, and letters of a name beside its bar; the frame has all.
_MOST_SHOWN, _MOST_LETTERS = 20, 40
# Lines of findings that are printed, and letters of one.
_MOST_LINES, _MOST_OF_A_LINE = 10, 160


class ShownFindings:
    """Verdicts on columns as data frames, a drawing and a page element, whatever they are of.

    Attributes:
        answer: the verdict in words, with lights.
        predictions: what adversaries estimated.
        training: what attacks on training found.
        persons: what is told of persons.
    """

    answer: Answer
    predictions: PredictionFindings
    training: tuple[TrainingFinding, ...]
    persons: PersonFindings

    @property
    def document(self) -> Document:
        """What console and report begin with, to be shown anywhere else."""
        return document_of(self.answer, getattr(self, "glance", None))

    def to_frame(self, of: str = "columns") -> pd.DataFrame:
        """Make a data frame of what leaked of each column, the most exposed first.

        Args:
            of: ``columns``; ``levels`` for a row per column and level of what the adversary knows beforehand;
                ``attacks`` (on predictions) or ``training`` (attacks on it) for a row of each of these; ``persons``
                for what is told of persons, a row per question.

        Raises:
            ValueError: for anything else.
        """
        if of not in _FRAMES:
            raise ValueError(f"There is no table of {of!r}: choose {', '.join(_FRAMES)}.{did_you_mean(of, _FRAMES)}")
        names, rows = _FRAMES[of]
        return pd.DataFrame(rows(self), columns=pd.Index(names.split()))

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw a bar for each of the most exposed columns: the federation's part with its 95 % interval (matplotlib).

        Args:
            axes: where; None makes a figure.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ModuleNotFoundError('Matplotlib is not installed: pip install "plumbline[notebook]".') from error

        rows = self.to_frame().head(_MOST_SHOWN)[::-1]
        if axes is None:
            _, axes = plt.subplots(figsize=(7, 1 + 0.32 * max(1, len(rows))), layout="constrained")
        parts = rows["part"].fillna(0.0).to_numpy()
        ends = np.abs(rows[["low", "high"]].fillna(0.0).to_numpy().T - parts)
        # A dollar sign would begin a formula.
        names = [escaped(f"{one.party}: {one.column}", _MOST_LETTERS).replace("$", r"\$") for one in rows.itertuples()]
        axes.barh(range(len(rows)), parts, xerr=ends, color=[COLOURS[light] for light in rows["light"]], capsize=3)
        axes.set_yticks(range(len(rows)), names)
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(lambda value, _: percent(value))
        axes.set_xlabel("given away of what could not be guessed anyway")
        return axes

    def __str__(self) -> str:
        """Write the verdict and the most exposed columns, in ten lines at most."""
        answer, columns = self.answer, [f"{one.light}: {one.sentence}" for one in self.answer.columns]
        matrix = self.document.matrix
        joining = [matrix.joining] if matrix is not None and matrix.joining else []
        lines = [self.document.sentence, *joining, *self.document.grounds[:2], *answer.labels[:2]]
        room = _MOST_LINES - len(lines) - 1
        more = [f"And {len(columns) - room:,} more columns: to_frame() has them."] if len(columns) > room else []
        return "\n".join(escaped(line, _MOST_OF_A_LINE) for line in (*lines, *columns[:room], *more))

    # What a prompt shows, and what a notebook keeps beside the fragment.
    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Write the verdict and the most exposed columns as an HTML fragment, in which nobody's words are markup."""
        content = {"answer": self.answer, "document": self.document, "most": _MOST_SHOWN, "colours": COLOURS}
        return template("findings.html").render(content)


class NotebookFindings(ShownFindings, Findings):
    """What one run gave away, with what a notebook or a script does with it."""

    @classmethod
    def of(cls, findings: Findings) -> NotebookFindings:
        """Take the same findings."""
        return cls(**{one.name: getattr(findings, one.name) for one in fields(findings)})

    def report(self, path: Path | str = "report.html") -> Path:
        """Write the report as one page; returns where.

        Raises:
            RunFolderError: where the files of the run are gone: those of a local federation go when it is closed.
        """
        from plumbline.report.page import write_report

        folder, path = self.folder, Path(path)
        if folder is None or not folder.path.exists():
            raise RunFolderError(
                "The files of this run are gone, and the report draws from them: ask for it before the federation is "
                "closed, or give it a run_dir of your own in its settings."
            )
        write_report(path, self, self._facts(folder), folder)
        return path

    def log_to_mlflow(self, run_name: str | None = None) -> str:
        """Log settings, numbers and the report to MLflow: to its run at work, or to one of this name; returns its id.

        Metrics are numbered where a name of a column would have to be one: names are the owner's, and stay in the
        table.

        Raises:
            ModuleNotFoundError: without the extra ``mlflow``.
        """
        # It would tell its makers of every run; who wants that sets the variable to false.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        try:
            import mlflow
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError('MLflow is not installed: pip install "plumbline[mlflow]".') from error

        at_work = mlflow.active_run()
        run = at_work or mlflow.start_run(run_name=run_name or self.summary.name)
        try:
            mlflow.log_params({**self.summary.agreement.plan.terms, "aligned_rows": self.summary.aligned_rows})
            mlflow.log_metrics(self._metrics())
            mlflow.set_tags({"plumbline.light": self.answer.light, "plumbline.verdict": self.answer.sentence})
            with tempfile.TemporaryDirectory(prefix="plumbline-") as folder:
                write_csv(self.to_frame(), columns := Path(folder) / "columns.csv")
                mlflow.log_artifact(str(columns))
                if self.folder is not None and self.folder.path.exists():
                    mlflow.log_artifact(str(self.report(Path(folder) / "report.html")))
        finally:
            if at_work is None:
                mlflow.end_run()
        return str(run.info.run_id)

    def _facts(self, folder: RunFolder) -> dict[str, Any]:
        """Read what the command wrote of the run, or say what there is of one that it didn't start."""
        try:
            facts: dict[str, Any] = json.loads((folder.path.parent / "config.json").read_text())
        except (OSError, ValueError):
            return {
                "versions": {"python": platform.python_version(), "plumbline": version("plumbline")},
                "seconds": sum(epoch.seconds for epoch in self.summary.epochs),
            }
        return facts

    def _metrics(self) -> dict[str, float]:
        summary, lights = self.summary, [one.light for one in self.answer.columns]
        numbers = {
            "accuracy": summary.accuracy,
            "auc": summary.auc,
            "federations_part_largest": self.answer.largest_part,
            "columns_red": float(lights.count("red")),
            "columns_amber": float(lights.count("amber")),
            "bytes_on_the_wire": float(sum(summary.bytes_by_message.values())),
        }
        return {name: value for name, value in numbers.items() if value is not None and not math.isnan(value)}


# -- frames ------------------------------------------------------------------------------------------------------------

_Rows = Iterator[tuple[Any, ...]]


def _columns(findings: ShownFindings) -> _Rows:
    for column in findings.answer.columns:
        verdict = at(column.levels, column.headline)
        yield *_named(column), *_interval(verdict.part), verdict.attack, column.sentence


def _levels(findings: ShownFindings) -> _Rows:
    """Make one row per column and level; shares are NaN where no attack of the level ran."""
    for column in findings.answer.columns:
        for verdict, hits in zip(column.levels, column.known, strict=True):
            hit_share = float("nan") if hits.error is None else 1 - hits.error
            shares = (1 - hits.e0, hit_share, *_interval(verdict.part))
            yield *_named(column), verdict.level, column.known_as, *shares, verdict.attack, verdict.baseline


def _attacks(findings: ShownFindings) -> _Rows:
    for one in findings.predictions.attacks:
        yield one.attack, one.level, one.status, *_interval(one.mse), one.records, one.seconds, one.reason


def _named(answer: ColumnAnswer) -> tuple[str, ...]:
    return answer.party, answer.column, answer.kind, answer.light


def _interval(interval: Interval | None) -> tuple[float, ...]:
    return (float("nan"),) * 3 if interval is None else (interval.mean, interval.low, interval.high)


_LEVELS = "party column kind light level known_as known_by_guessing known part part_low part_high attack guess"
_TRAINED = attrgetter("attack", "party", "kind", "success", "resolved", "seconds", "reason")
_ANSWERED = attrgetter("name", "adversary", "words", "is_measured")
_FRAMES: Mapping[str, tuple[str, Callable[[ShownFindings], _Rows]]] = {
    "columns": ("party column kind light part low high attack finding", _columns),
    "levels": (_LEVELS, _levels),
    "attacks": ("attack knows status mse low high records seconds reason", _attacks),
    "training": ("attack party of right answered seconds reason", lambda findings: map(_TRAINED, findings.training)),
    "persons": ("question adversary finding is_measured", lambda findings: map(_ANSWERED, findings.persons.rows)),
}
