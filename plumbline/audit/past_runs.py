"""The runs in a folder: when each was, what it asked, how it ended and what it found; and some of them side by side."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NotRequired, TypeVar

from pydantic import ConfigDict
from typing_extensions import TypedDict

from plumbline.audit.configuration import FILE, read_options
from plumbline.audit.folder import AuditFolder, RunVerdict, read_facts
from plumbline.audit.request import NO_ATTACKS
from plumbline.judge.federation_part import HEADLINE
from plumbline.judge.glance import DISCLOSES, KEEPS
from plumbline.telling.document import NOT_MEASURED
from plumbline.telling.numbers import percent
from services.common.run_files import MOST_SHORT_BYTES, RunFolderError, parsed, read_json
from services.common.run_records import Count
from vfl.learning.score_quality import area_words
from vfl.suggestions import did_you_mean

T = TypeVar("T")
LATEST = "latest"
_REPEAT = "`plumbline report` with the run's folder writes it again."
# What passive parties do with their parameters, in a row's name.
_CASES = {KEEPS: "parameters kept", DISCLOSES: "parameters disclosed"}
# What the name of a run's folder begins with.
_TIME, _TIME_LENGTH = "%Y%m%d-%H%M%S", 15


@dataclass(frozen=True)
class PastRun:
    """One run of a folder.

    Attributes:
        folder: its own.
        when: it began, ISO 8601 without a time zone.
        name: of the run.
        what: which tables, or which data set, and what was mounted, in words.
        status: ``running``, ``finished``, ``failed``, ``stopped``, or ``unknown`` where it never said.
        headline: the verdict in a sentence; why it failed or stopped, where it did.
        light: of the verdict; empty where there is none.
        part: the largest federation's part, 0 to 1; None where none was measured.
        accuracy: of the model on test records; None without any.
        auc: likewise.
        tested_by_class: test records of each class; empty where an older release didn't count them.
    """

    folder: Path
    when: str
    name: str
    what: str
    status: str
    headline: str
    light: str = ""
    part: float | None = None
    accuracy: float | None = None
    auc: float | None = None
    tested_by_class: tuple[int, ...] = ()

    @property
    def area_words(self) -> str:
        """The model's area under the ROC curve with what carries it; empty where none was measured."""
        return "" if self.auc is None else area_words(self.auc, self.tested_by_class)

    @property
    def order(self) -> tuple[str, str]:
        """What a list is sorted by, the newest last."""
        return self.when, self.folder.name


def past_runs(folder: Path) -> tuple[PastRun, ...]:
    """List the runs in a folder, newest first; none where there is no folder. Other folders in it are passed over."""
    if not folder.is_dir():
        return ()
    runs = map(read_run, filter(is_run, folder.iterdir()))
    return tuple(sorted(runs, key=lambda run: run.order, reverse=True))


def is_run(folder: Path) -> bool:
    """Tell whether a folder is one of a run, whatever its files hold."""
    return os.path.isfile(folder / FILE) or os.path.isfile(folder / "config.json")  # noqa: PTH113 - never raises


def find_run(text: str, folder: Path) -> AuditFolder:
    """Find the run that a person means: a folder, ``latest``, the newest of a name, or how one's name begins.

    A folder's name may be given with its time or without.

    Raises:
        ValueError: where there is none, or more than one.
    """
    if (Path(text) / "parties").is_dir() or (Path(text) / FILE).is_file():
        return AuditFolder(Path(text))
    runs = past_runs(folder)
    if Path(text).is_dir() and text not in (run.folder.name for run in runs):
        raise ValueError(
            f"The folder {text} is no run's: a run's has {FILE}. `plumbline runs` lists those of {folder}."
        )
    if not runs:
        raise ValueError(f"There is no run in {folder}: name a run's own folder, or give --runs.")
    if text == LATEST:
        return AuditFolder(runs[0].folder)
    # Of runs that have the name in full, the newest.
    meant = [run for run in runs if text in (run.folder.name, run.name)][:1]
    meant = meant or [run for run in runs if run.folder.name.startswith(text) or run.name.startswith(text)]
    if not meant:
        names = [word for run in runs for word in (run.folder.name, run.name)]
        raise ValueError(f"No run in {folder} is called {text!r}.{did_you_mean(text, names)} See `plumbline runs`.")
    if len(meant) > 1:
        listed = ", ".join(run.folder.name for run in meant[:5])
        raise ValueError(f"{text!r} could be any of {len(meant)} runs ({listed}{', …' * (len(meant) > 5)}): say more.")
    return AuditFolder(meant[0].folder)


class _Part(TypedDict):
    mean: float


class _Level(TypedDict):
    level: str
    part: _Part | None


class _Column(TypedDict):
    party: str
    column: str
    levels: list[_Level]
    headline: NotRequired[str]


class _Trained(TypedDict):
    attack: str
    party: str
    kind: str
    success: float | None


class _Answer(TypedDict, total=False):
    sentence: str
    light: str
    columns: list[_Column]


class _Cell(TypedDict):
    words: str


class _Glance(TypedDict):
    sentence: str
    parameters: list[str]
    sessions: list[int]
    rows: list[tuple[str, list[_Cell]]]


class Results(TypedDict, total=False):
    """What is read again of results.json; the rest of it is as the run wrote it."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    answer: _Answer
    glance: _Glance
    largest_part: float | None
    accuracy: float | None
    auc: float | None
    training_attacks: list[_Trained]
    steps: Count
    bytes_by_message: dict[str, Count]
    tested_by_class: list[int]


def asked_in(folder: Path) -> dict[str, Any]:
    """Read what a run was asked, as options; empty where nothing says so. Raises ValueError for a broken file."""
    if os.path.lexists(folder / FILE):
        return read_options(folder / FILE)[1]
    # Who judges what was received has no federation to repeat.
    run = AuditFolder(folder)
    return read_facts(run).get("request", {}) if os.path.lexists(run.config) else {}


def results_in(folder: Path) -> Results:
    """Read every number of a run's report; empty before there are any. Raises RunFolderError for a broken file."""
    file = AuditFolder(folder).results
    return parsed(Results, read_json(file, _REPEAT, _REPEAT), file, _REPEAT) if os.path.lexists(file) else {}


def read_run(folder: Path) -> PastRun:
    """Read what a list says of a run; a file that can't be read is a sentence of its headline."""
    faults: list[str] = []
    request = _unless_broken(lambda: what_was_asked(asked_in(folder)), faults)
    summary = _unless_broken(lambda: _summary_in(folder), faults)
    status = _unless_broken(lambda: AuditFolder(folder).status, faults)
    verdict = RunVerdict() if summary is None else summary
    headline = status.reason if status is not None and status.reason else verdict.sentence
    # Before runs said of themselves how they ended, results were the last that they wrote.
    ended = status.status if status is not None else "finished" if summary is not None else "unknown"
    when = began(folder)
    return PastRun(
        folder=folder,
        when=when,
        name=folder.name[_TIME_LENGTH + 1 :] if when else folder.name,
        what=request or "",
        status=ended,
        headline=" ".join([*faults, headline]).strip(),
        light=verdict.light,
        part=_measured(verdict.part),
        accuracy=_measured(verdict.accuracy),
        auc=_measured(verdict.auc),
        tested_by_class=verdict.tested_by_class,
    )


def _measured(value: float | None) -> float | None:
    """Read a share, or None where a run that measured none says NaN, or a file says what no share is."""
    return value if value is not None and 0 <= value <= 1 else None


def _summary_in(folder: Path) -> RunVerdict | None:
    """Read a run's verdict in short; from the results where they are newer, as older releases wrote them alone."""
    run = AuditFolder(folder)
    if not os.path.lexists(run.results):
        return None
    is_short = os.path.lexists(run.verdict) and run.verdict.stat().st_mtime_ns >= run.results.stat().st_mtime_ns
    return _outline_in(run.verdict if is_short else run.results).verdict


@dataclass(frozen=True)
class _Outline:
    """What lists and comparisons need of a file of megabytes.

    Attributes:
        verdict: of the run.
        parts: the federation's part of each column, the most exposed first; None where it wasn't measured. Of results.
        leaks: as ``RunComparison.leaks``, of results.
        trained: as ``RunComparison.training``, of results.
        costs: as ``RunComparison.costs``, of results.
    """

    verdict: RunVerdict
    parts: Mapping[str, float | None] = field(default_factory=dict)
    leaks: Mapping[str, str] = field(default_factory=dict)
    trained: Mapping[str, float | None] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)


# Loads of a page come on threads of their own: one file at a time is in memory.
_reading = threading.Lock()


def _outline_in(file: Path) -> _Outline:
    """Read a run's verdict.json or results.json, again only when it has changed. Raises RunFolderError and OSError."""
    facts = file.stat()
    with _reading:
        outline = _outline_of(file, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size)
    if isinstance(outline, str):
        raise RunFolderError(outline)
    return outline


@lru_cache(maxsize=2_000)
def _outline_of(file: Path, _written: int, _changed: int, _size: int) -> _Outline | str:
    """Read a file as it is now; a fault is a sentence, so that what can't be read is kept as well."""
    try:
        if file.name == AuditFolder(file.parent).verdict.name:
            return _Outline(parsed(RunVerdict, read_json(file, _REPEAT, _REPEAT, MOST_SHORT_BYTES), file, _REPEAT))
        results = results_in(file.parent)
    except RunFolderError as error:
        return str(error)
    answer, glance = results.get("answer", {}), results.get("glance")
    verdict = RunVerdict(
        # Older results have no first line.
        sentence=glance["sentence"] if glance else answer.get("sentence", ""),
        light=answer.get("light", ""),
        part=results.get("largest_part"),
        accuracy=results.get("accuracy"),
        auc=results.get("auc"),
        tested_by_class=tuple(results.get("tested_by_class", ())),
    )
    trained = {
        f"{one['kind']}: {one['attack']} by {one['party']}": _measured(one["success"])
        for one in results.get("training_attacks", [])
        if one["kind"]
    }
    costs = dict[str, float]()
    if "steps" in results and "bytes_by_message" in results:
        megabytes = sum(results["bytes_by_message"].values()) / 1e6
        costs = {"training steps": results["steps"], "on the wire, MB": megabytes}
    return _Outline(verdict, _parts(answer.get("columns", [])), _leaks(glance) if glance else {}, trained, costs)


def began(folder: Path) -> str:
    """Tell when a run began, by its folder's name: ISO 8601 without a time zone; empty where that doesn't say."""
    try:
        return datetime.strptime(folder.name[:_TIME_LENGTH], _TIME).isoformat()
    except ValueError:
        return ""


def _unless_broken(reader: Callable[[], T], faults: list[str]) -> T | None:
    """Read; None for a broken file, of which the faults say more: other runs are listed all the same."""
    try:
        return reader()
    except ValueError as error:
        faults.append(str(error))
    except OSError as error:
        faults.append(unreadable(error))
    except TypeError:  # options of other types than any request has
        faults.append(f"{FILE} is broken: what it asks for is of no type that it can be. {_REPEAT}")
    return None


def unreadable(error: OSError) -> str:
    """Say what a person is told of a file or folder that can't be read."""
    return f"{error.filename} can't be read ({error.strerror}): check its rights, or a link to it."


def what_was_asked(asked: Mapping[str, Any]) -> str:
    """Describe a request in a few words: its tables, its attacks and its defences."""
    tables = [asked["data"]] if "data" in asked else [asked.get("active", ""), *asked.get("passive", [])]
    tables += [asked[part] for part in ("own", "received", "model", "secret") if part in asked]
    # Of a database's URL the part before the password, if that.
    phrases = [
        " + ".join(str(one).split("://")[0] if "://" in str(one) else Path(str(one)).name for one in tables if one)
    ]
    attacks, defences = asked.get("attacks", []), asked.get("defences", [])
    if attacks and attacks != [NO_ATTACKS]:
        phrases.append(f"{len(attacks)} attack{'s' * (len(attacks) != 1)}")
    if defences:
        phrases.append(f"under {', '.join(defences)}")
    return ", ".join(filter(None, phrases))


# Of a request, what names a run rather than says what it does.
_NAMING = ("name", "runs", "quiet", "verbose", "yes")


@dataclass(frozen=True)
class Fact:
    """One fact of several runs.

    Attributes:
        what: it is about.
        values: of each run, in their order; None where it has none.
    """

    what: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class RunComparison:
    """What runs have in common, and what not.

    Attributes:
        settings: options that differ.
        verdicts: the sentence of each.
        leaks: the cells of the matrix that a report begins with; None where a run has no such case.
        columns: the federation's part of every column at the headline's level, 0 to 1; None where it wasn't measured.
        quality: accuracy and AUC on test records, and how many of these each class has.
        training: what each attack on training had right of what it attacked, 0 to 1, those on labels first; None where
            nothing is scored. Attacks that had nothing in any run are left out.
        costs: steps of training, and megabytes of all messages.
    """

    settings: tuple[Fact, ...]
    verdicts: Fact
    columns: tuple[Fact, ...]
    quality: tuple[Fact, ...]
    leaks: tuple[Fact, ...] = ()
    training: tuple[Fact, ...] = ()
    costs: tuple[Fact, ...] = ()

    @property
    def sections(self) -> tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]:
        """All but the verdicts in words, as tables: titles and rows, each of what it is about and a cell for each run.

        An AUC stands with its interval and the records that carry it.
        """
        accuracy, auc, by_class = (fact.values for fact in self.quality)
        areas = (None if area is None else area_words(area, of) for area, of in zip(auc, by_class, strict=True))
        figures = (None if share is None else f"{share:.4f}" for share in accuracy)
        quality = Fact("accuracy", tuple(figures)), Fact("AUC", tuple(areas))
        tables: tuple[tuple[str, Sequence[Fact], str, Callable[[Any], str]], ...] = (
            ("Settings that differ", self.settings, "-", option_words),
            ("What leaks", self.leaks, "not measured", str),
            ("The federation's part, by column", self.columns, "not measured", percent),
            ("What training told, right", self.training, "not scored", percent),
            ("What it cost", self.costs, "-", "{:,.4g}".format),
            ("The model, on test records", quality, "not measured", str),
        )
        return tuple(
            (title, tuple((fact.what, *_cells(fact, without, write)) for fact in facts))
            for title, facts, without, write in tables
        )


def _cells(fact: Fact, without: str, write: Callable[[Any], str]) -> Iterator[str]:
    return (without if value is None else write(value) for value in fact.values)


def compare_runs(*folders: Path) -> RunComparison:
    """Compare runs by their folders; raises ValueError where one of them has no results."""
    for folder in folders:
        if not os.path.lexists(AuditFolder(folder).results):
            raise ValueError(f"{folder} has no results to compare: it didn't get as far. `plumbline runs` says why.")
    outlines = [_outline_in(AuditFolder(folder).results) for folder in folders]
    options = [_flat({name: value for name, value in asked_in(at).items() if name not in _NAMING}) for at in folders]
    return RunComparison(
        settings=tuple(line for line in _side_by_side(options) if any(one != line.values[0] for one in line.values)),
        verdicts=Fact("verdict", tuple(outline.verdict.sentence for outline in outlines)),
        columns=tuple(_side_by_side([outline.parts for outline in outlines])),
        quality=(
            Fact("accuracy", tuple(_measured(outline.verdict.accuracy) for outline in outlines)),
            Fact("auc", tuple(_measured(outline.verdict.auc) for outline in outlines)),
            Fact("tested_by_class", tuple(outline.verdict.tested_by_class for outline in outlines)),
        ),
        leaks=tuple(
            one
            for one in _side_by_side([outline.leaks for outline in outlines])
            if any(words not in (None, NOT_MEASURED.words) for words in one.values)
        ),
        training=tuple(
            sorted(
                (one for one in _side_by_side([outline.trained for outline in outlines]) if any(one.values)),
                key=lambda one: not one.what.startswith("labels"),
            )
        ),
        costs=tuple(_side_by_side([outline.costs for outline in outlines])),
    )


def _side_by_side(tables: Sequence[Mapping[str, Any]]) -> list[Fact]:
    names = dict.fromkeys(name for table in tables for name in table)
    return [Fact(name, tuple(table.get(name) for table in tables)) for name in names]


def option_words(value: Any) -> str:
    """Write an option's value as one types it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _flat(options: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Options of tables by their names in full: ``settings.epochs``."""
    flat: dict[str, Any] = {}
    for name, value in options.items():
        flat |= _flat(value, f"{before}{name}.") if isinstance(value, dict) else {f"{before}{name}": value}
    return flat


def _leaks(glance: _Glance) -> dict[str, str]:
    """List the cells of a matrix: what leaks of columns, labels and persons, in each case."""
    after = [f"after {'one session' if one == 1 else f'{one} sessions'}" for one in glance["sessions"]]
    cases = [f"{_CASES.get(does, does)}, {when}" for does in glance["parameters"] for when in after]
    return {
        f"{what}, {case}": cell["words"]
        for what, cells in glance["rows"]
        for case, cell in zip(cases, cells, strict=False)
    }


def _parts(columns: Sequence[_Column]) -> dict[str, float | None]:
    """List the federation's part of each column, the most exposed first."""
    shares = {}
    for column in columns:
        parts = [level["part"] for level in column["levels"] if level["level"] == column.get("headline", HEADLINE)]
        shares[f"{column['party']}.{column['column']}"] = _measured(parts[0]["mean"]) if parts and parts[0] else None
    return shares
