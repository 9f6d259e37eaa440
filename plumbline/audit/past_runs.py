"""The runs in a folder: when each was, what it asked, how it ended and what it found; and two of them side by side."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict
from typing_extensions import TypedDict

from plumbline.audit.configuration import FILE, NO_ATTACKS, read_options
from plumbline.audit.folder import AuditFolder
from plumbline.judge.federation_part import HEADLINE
from services.common.run_files import parsed, read_json
from vfl.suggestions import did_you_mean

T = TypeVar("T")
LATEST = "latest"
_REPEAT = "`plumbline report` with the run's folder writes it again."
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
    """

    folder: Path
    when: str
    name: str
    what: str
    status: str
    headline: str


def past_runs(folder: Path) -> tuple[PastRun, ...]:
    """List the runs in a folder, newest first; none where there is no folder. Other folders in it are passed over."""
    if not folder.is_dir():
        return ()
    found = [_run_in(one) for one in folder.iterdir() if (one / FILE).is_file() or (one / "config.json").is_file()]
    return tuple(sorted(found, key=lambda run: (run.when, run.folder.name), reverse=True))


def find_run(text: str, folder: Path) -> AuditFolder:
    """Find the run that a person means: a folder, ``latest``, or how the name of one begins, with its time or without.

    Raises:
        ValueError: where there is none, or more than one.
    """
    if (Path(text) / "parties").is_dir() or (Path(text) / FILE).is_file():
        return AuditFolder(Path(text))
    runs = past_runs(folder)
    if not runs:
        raise ValueError(f"There is no run in {folder}: name a run's own folder, or give --runs.")
    if text == LATEST:
        return AuditFolder(runs[0].folder)
    meant = [run for run in runs if run.folder.name == text]
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


class _Answer(TypedDict, total=False):
    sentence: str
    columns: list[_Column]


class Results(TypedDict, total=False):
    """What is read again of results.json; the rest of it is as the run wrote it."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    answer: _Answer
    accuracy: float | None
    auc: float | None


def asked_in(folder: Path) -> dict[str, Any]:
    """What a run was asked, as options; empty where nothing says so. Raises ValueError for a broken file."""
    return read_options(folder / FILE)[1] if os.path.lexists(folder / FILE) else {}


def results_in(folder: Path) -> Results:
    """Every number of a run's report; empty before there are any. Raises RunFolderError for a broken file."""
    file = AuditFolder(folder).results
    return parsed(Results, read_json(file, _REPEAT, _REPEAT), file, _REPEAT) if os.path.lexists(file) else {}


def _run_in(folder: Path) -> PastRun:
    faults: list[str] = []
    asked = _unless_broken(lambda: what_was_asked(asked_in(folder)), faults)
    results = _unless_broken(lambda: results_in(folder), faults)
    status = _unless_broken(lambda: AuditFolder(folder).status, faults)
    try:
        when = datetime.strptime(folder.name[:_TIME_LENGTH], _TIME).isoformat()
    except ValueError:
        when = ""
    headline = status.reason if status is not None and status.reason else _verdict(results or {})
    # Before runs said of themselves how they ended, results were the last that they wrote.
    ended = status.status if status is not None else "finished" if results else "unknown"
    name = folder.name[_TIME_LENGTH + 1 :] if when else folder.name
    return PastRun(folder, when, name, asked or "", ended, " ".join([*faults, headline]).strip())


def _unless_broken(read: Callable[[], T], faults: list[str]) -> T | None:
    """What is read; None for a broken file, of which the faults say more: other runs are listed all the same."""
    try:
        return read()
    except ValueError as error:
        faults.append(str(error))
    except TypeError:  # options of other types than any request has
        faults.append(f"{FILE} is broken: what it asks for is of no type that it can be. {_REPEAT}")
    return None


def _verdict(results: Mapping[str, Any]) -> str:
    return str(results.get("answer", {}).get("sentence", ""))


def what_was_asked(asked: Mapping[str, Any]) -> str:
    """A request in a few words: its tables, its attacks and its defences."""
    tables = [asked["data"]] if "data" in asked else [asked.get("active", ""), *asked.get("passive", [])]
    # Of a database's URL the part before the password, if that.
    words = [
        " + ".join(str(one).split("://")[0] if "://" in str(one) else Path(str(one)).name for one in tables if one)
    ]
    attacks, defences = asked.get("attacks", []), asked.get("defences", [])
    if attacks and attacks != [NO_ATTACKS]:
        words.append(f"{len(attacks)} attack{'s' * (len(attacks) != 1)}")
    if defences:
        words.append(f"under {', '.join(defences)}")
    return ", ".join(filter(None, words))


# Of a request, what names a run rather than says what it does.
_NAMING = ("name", "runs", "quiet", "verbose", "yes")


@dataclass(frozen=True)
class Difference:
    """One fact of two runs.

    Attributes:
        what: it is about.
        first: in the first run; None where that has none.
        second: in the second.
    """

    what: str
    first: Any
    second: Any


@dataclass(frozen=True)
class RunComparison:
    """What two runs have in common, and what not.

    Attributes:
        settings: options that differ.
        verdicts: the sentence of each.
        columns: the federation's part of every column at the headline's level, 0 to 1; None where it wasn't measured.
        quality: accuracy and AUC on test records.
    """

    settings: tuple[Difference, ...]
    verdicts: Difference
    columns: tuple[Difference, ...]
    quality: tuple[Difference, ...]


def compare_runs(first: Path, second: Path) -> RunComparison:
    """Compare two runs by their folders; raises ValueError where one of them has no results."""
    results = [results_in(folder) for folder in (first, second)]
    for folder, found in zip((first, second), results, strict=True):
        if not found:
            raise ValueError(f"{folder} has no results to compare: it didn't get as far. `plumbline runs` says why.")
    one, other = results
    options = [
        _flat({name: value for name, value in asked_in(at).items() if name not in _NAMING}) for at in (first, second)
    ]
    return RunComparison(
        settings=tuple(line for line in _side_by_side(*options) if line.first != line.second),
        verdicts=Difference("verdict", _verdict(one), _verdict(other)),
        columns=tuple(_side_by_side(_parts(one), _parts(other))),
        quality=tuple(Difference(name, one.get(name), other.get(name)) for name in ("accuracy", "auc")),
    )


def _side_by_side(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    return [Difference(name, first.get(name), second.get(name)) for name in {**first, **second}]


def _flat(options: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Options of tables by their names in full: ``settings.epochs``."""
    flat: dict[str, Any] = {}
    for name, value in options.items():
        flat |= _flat(value, f"{before}{name}.") if isinstance(value, dict) else {f"{before}{name}": value}
    return flat


def _parts(results: Mapping[str, Any]) -> dict[str, float | None]:
    """The federation's part of each column, the most exposed first."""
    found = {}
    for column in results.get("answer", {}).get("columns", []):
        parts = [level["part"] for level in column["levels"] if level["level"] == HEADLINE]
        found[f"{column['party']}.{column['column']}"] = parts[0]["mean"] if parts and parts[0] else None
    return found
