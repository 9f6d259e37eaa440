"""What other packages have registered under an entry-point group, found without importing any of it."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

# A name stands in lists with commas, in labels with parentheses, and in files' names.
_NAME = re.compile(r"[\w.+-](?:[\w.+ -]{0,98}[\w.+-])?")
_MOST_LETTERS = 200


@dataclass(frozen=True)
class InstalledPlugins:
    """What a group of entry points has.

    Attributes:
        points: entry points by their name; several where packages contradict each other.
        misnamed: entry points whose name nobody could ask for.
    """

    points: Mapping[str, tuple[EntryPoint, ...]]
    misnamed: tuple[EntryPoint, ...]


def installed_plugins(group: str) -> InstalledPlugins:
    """Read a group's entry points, anew where a folder of ``sys.path`` has changed."""
    return _read(group, tuple((place, _changed(place)) for place in sys.path))


def origin(point: EntryPoint) -> str:
    """Say which package brings a plugin, and where in it: ``mean-guess 1.0 (mean_guess:MeanGuess)``."""
    try:
        package = f"{point.dist.name} {point.dist.version}" if point.dist and point.dist.name else ""
    except Exception:
        package = ""  # its metadata is broken
    return one_line(f"{package or 'a package without a name'} ({point.value})")


def one_line(text: str) -> str:
    """Make a stranger's words one printable line of bounded length."""
    cut = text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 1] + "…"
    return " ".join("".join(letter if letter.isprintable() else " " for letter in cut).split())


def error_line(error: BaseException) -> str:
    """Say in one line what a stranger's code raised; its own words may fail as well."""
    name = type(error).__name__
    try:
        return one_line(f"{name}: {error}".rstrip(": "))
    except Exception:
        return one_line(name)


@lru_cache(maxsize=4)
def _read(group: str, _places: tuple[tuple[str, int], ...]) -> InstalledPlugins:
    points: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=group):
        namesakes = points.get(point.name, ())
        if point.value not in [one.value for one in namesakes]:
            points[point.name] = (*namesakes, point)
    misnamed = [points.pop(name)[0] for name in list(points) if not _NAME.fullmatch(name)]
    return InstalledPlugins(points, tuple(misnamed))


def _changed(place: str) -> int:
    try:
        return Path(place).stat().st_mtime_ns
    except (OSError, ValueError):
        return 0
