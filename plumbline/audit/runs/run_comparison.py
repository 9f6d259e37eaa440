"""Two runs side by side: what was asked differently, and what became of verdict, columns and model."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plumbline.audit.runs.past_runs import asked_in, results_in
from plumbline.judge.federation_part import HEADLINE

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
        verdicts=Difference("verdict", _sentence(one), _sentence(other)),
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


def _sentence(results: Mapping[str, Any]) -> str:
    return str(results.get("answer", {}).get("sentence", ""))


def _parts(results: Mapping[str, Any]) -> dict[str, float | None]:
    """The federation's part of each column, the most exposed first."""
    found = {}
    for column in results.get("answer", {}).get("columns", []):
        parts = [level["part"] for level in column["levels"] if level["level"] == HEADLINE]
        found[f"{column['party']}.{column['column']}"] = parts[0]["mean"] if parts and parts[0] else None
    return found
