"""Values of a grid in a file: what stands there is checked, and lists multiply."""

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, get_type_hints

from vfl.plugin_registry import fits, in_words
from vfl.suggestions import did_you_mean

# A month of measurements of two seconds; more are a slip, or work for several files.
MOST_MEASUREMENTS = 1_000_000
# Whole numbers of tables of results have 64 bits, seeds of numpy 32.
LARGEST, LARGEST_SEED = 2**63 - 1, 2**32 - 1


class SweepFileError(ValueError):
    """A sweep that can't be run; the text says which part of its file is wrong, and what to do."""


@dataclass(frozen=True)
class Keyed:
    """A table of a file: its keys, and where it stands.

    Attributes:
        place: as a person finds it: ``split``, ``attacks[2]``; empty for the file itself.
        content: what stands there.
        known: the keys that it may have; None where others decide that.

    Raises:
        SweepFileError: for what is no table, and for an unknown key.
    """

    place: str
    content: Mapping[str, Any]
    known: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.content, Mapping):
            raise SweepFileError(f"{self.place}: expected a table of keys, got {reprlib.repr(self.content)}.")
        for key in self.content:
            if self.known is not None and key not in self.known:
                raise SweepFileError(
                    f"There is no key {self.at(key)!r}; {self.place or 'a sweep'} has {', '.join(self.known)}."
                    f"{did_you_mean(key, self.known)}"
                )

    def at(self, key: str) -> str:
        """A key's place, as a person finds it."""
        return f"{self.place}.{key}" if self.place else key

    def axis(self, key: str, hint: Any, default: Any = None) -> list[Any]:
        """The values of a key, which has one or a list of them; the default alone where it isn't there.

        Raises:
            SweepFileError: for an empty list, and for a value that isn't what the hint says.
        """
        if key not in self.content:
            return [default]
        return axis_of(self.at(key), self.content[key], hint)

    def one(self, key: str, hint: Any, default: Any) -> Any:
        """The value of a key that has one only. Raises SweepFileError."""
        if key not in self.content:
            return default
        if not fits(value := self.content[key], hint):
            raise SweepFileError(_expected(self.at(key), in_words(hint), value))
        return value

    def listed(self, key: str, default: Sequence[Any] = ()) -> Iterator[tuple[str, Any]]:
        """The entries of a list, or the one that stands alone, each with its place. Raises SweepFileError."""
        entries = self.content.get(key, default)
        for number, entry in enumerate(_several(self.at(key), entries), start=1):
            yield (f"{self.at(key)}[{number}]" if isinstance(entries, list) else self.at(key)), entry


def axis_of(place: str, given: Any, hint: Any) -> list[Any]:
    """The values at a place: a list's, or the one that stands there. A list that the hint asks for is one value.

    Raises:
        SweepFileError: for an empty list, and for a value that isn't what the hint says.
    """
    values = [given] if not isinstance(given, list) or (given and fits(given, hint)) else _several(place, given)
    for value in values:
        if not fits(value, hint) or isinstance(value, Mapping):
            raise SweepFileError(_expected(place, f"{in_words(hint)}, or a list of such", value))
        if isinstance(value, int) and abs(value) > LARGEST:
            raise SweepFileError(f"{place}: {value} is no number that a table can hold: choose a smaller one.")
    return values


def option_sets(
    place: str, options: Mapping[str, Any], plugin: Any, check: Callable[..., object]
) -> list[dict[str, Any]]:
    """Every combination of a plugin's options, each of them checked.

    Args:
        place: of the options.
        options: a value or a list of values by option.
        plugin: the class whose fields are the options.
        check: takes options by name, and raises ValueError for those that the plugin doesn't take.

    Raises:
        SweepFileError: for an empty list, and for options that the plugin doesn't take.
    """
    hints = _hints(plugin)
    axes = [axis_of(f"{place}.{option}", value, hints.get(option, Any)) for option, value in options.items()]
    check_size(place, *axes)
    found = [dict(zip(options, values, strict=True)) for values in product(*axes)]
    for one in found:
        checked(place, check, **one)
    return found


def checked(place: str, act: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
    """What an act gives; what it refuses is told with the place.

    Raises:
        SweepFileError: for a ValueError of the act, or a library that it lacks.
    """
    try:
        return act(*arguments, **options)
    except ValueError as error:
        raise SweepFileError(f"{place}: {error}") from error
    except ModuleNotFoundError as error:
        raise SweepFileError(f"{place} needs {error.name}, which isn't here: pip install 'plumbline[lab]'.") from error


def check_size(place: str, *axes: Sequence[Any]) -> None:
    """Raises SweepFileError when lists multiply to more than ``MOST_MEASUREMENTS``, before anything is made of them."""
    count = prod(len(axis) for axis in axes)
    if count > MOST_MEASUREMENTS:
        raise SweepFileError(
            f"{place} multiplies to {count:,}, and a sweep has at most {MOST_MEASUREMENTS:,} measurements: shorten "
            "lists, or make several files of it; they may share a store."
        )


def _hints(plugin: Any) -> Mapping[str, Any]:
    try:
        return get_type_hints(plugin)
    except Exception:
        return {}  # another package's annotations may name what exists for its type checker only


def _several(place: str, given: Any) -> list[Any]:
    values = list(given) if isinstance(given, list | tuple) else [given]
    if not values:
        raise SweepFileError(
            f"{place} is empty: a grid without a value there has no measurement. Give one, or drop the key."
        )
    return values


def _expected(place: str, words: str, value: Any) -> str:
    return f"{place}: expected {words}, got {reprlib.repr(value)}."
