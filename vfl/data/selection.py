"""Which columns of a table are used: by name or pattern, with a word on every name that nothing answers to."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vfl.data.columns import ENCODINGS
from vfl.data.faults import Problems, TableError, name_list, quoted
from vfl.data.labels import reads_as_number
from vfl.suggestions import did_you_mean

# How pandas names a row index that was saved as if it were a column.
_NAMELESS_COLUMN = re.compile(r"Unnamed: \d+")
# Part of a header's names that are numbers when it is none.
_NUMBERS_OF_A_ROW = 0.2
# What names a column, of an audit and of a service.
_OPTIONS = {role: f"--{role} (of a service, PLUMBLINE_{role.upper()}_COLUMN)" for role in ("id", "label")}


@dataclass(frozen=True)
class Selection:
    """What a person says of a table's columns.

    Attributes:
        id_column: holds the ids.
        label_column: holds the labels; None for a passive party.
        columns: names and patterns such as ``c*`` of the columns to use; None for all but id and label.
        drop: names and patterns of those to leave out.
        encode: what a column becomes, by its name.
    """

    id_column: str
    label_column: str | None
    columns: Sequence[str] | None = None
    drop: Sequence[str] = ()
    encode: Mapping[str, str] = field(default_factory=dict)

    @property
    def exact(self) -> list[str]:
        """Columns whose values are kept as the source writes them."""
        return [self.id_column] if self.label_column is None else [self.id_column, self.label_column]

    def read(self, present: Sequence[str], problems: Problems) -> list[str]:
        """Name the columns to read, as far as they are there under a name of their own: id, label and features.

        Problems are noted.

        Raises:
            TableError: when the header isn't one.
        """
        features, count = self.features(present, problems), Counter(present)
        return [name for name in dict.fromkeys([*self.exact, *features]) if count[name] == 1]

    def features(self, present: Sequence[str], problems: Problems) -> list[str]:
        """Name the feature columns, in their order; what can't be is noted as a problem.

        Raises:
            TableError: when the header isn't one.
        """
        if self.id_column not in present and looks_like_data(present):
            # Only this: a message that lists the columns would show a person's cells.
            raise TableError(
                "The first line looks like a row of data: put a line with the columns' names above it, or check the "
                f"name of the id column, {quoted(self.id_column)}."
            )
        if len(set(present)) < len(present):
            twice = sorted(name for name, count in Counter(present).items() if count > 1)
            problems.add(f"Two columns have the same name ({name_list(twice)}): rename one of them.")
        self._check_exact(present, problems)
        candidates = [name for name in present if name not in self.exact]
        wanted = candidates if self.columns is None else self._named(present, problems)
        dropped = set(matching(self.drop, present, "column to drop", problems))
        features = [name for name in dict.fromkeys(wanted) if name not in dropped]
        self._check_encode(features, present, problems)
        if not features:
            left = " left" if candidates else ""
            problems.add(f"The table has no feature columns{left}: name at least one column besides id and label.")
        return features

    def _named(self, present: Sequence[str], problems: Problems) -> list[str]:
        """List the columns that are asked for; a pattern never means the id or the label."""
        for name in self.columns or ():
            if name in self.exact:
                problems.add(f"Column {quoted(name)} is the id or the label: take it off the list of features.")
        names = matching(self.columns or (), present, "feature column", problems)
        return [name for name in names if name not in self.exact]

    def _check_exact(self, present: Sequence[str], problems: Problems) -> None:
        if self.label_column == self.id_column:
            problems.add(f"Column {quoted(self.id_column)} cannot be both the id and the label: name two columns.")
        for name, role in zip(self.exact, ("id", "label"), strict=False):
            if name not in present:
                problems.add(f"There is no {role} column {quoted(name)}{_what_there_is(name, present, _OPTIONS[role])}")

    def _check_encode(self, features: Sequence[str], present: Sequence[str], problems: Problems) -> None:
        for name, encoding in self.encode.items():
            if encoding not in ENCODINGS:
                problems.add(
                    f"Column {quoted(name)} can't be encoded as {quoted(encoding)}: choose one of "
                    f"{', '.join(ENCODINGS)}." + did_you_mean(encoding, ENCODINGS)
                )
            if name in self.exact:
                problems.add(f"Column {quoted(name)} is the id or the label and isn't encoded: take it out of encode.")
            elif name not in present:
                problems.add(f"There is no column {quoted(name)} to encode{_what_there_is(name, present)}")
            elif name not in features and encoding != "drop":
                problems.add(f"Column {quoted(name)} is left out and encoded: say one of both.")


def matches(pattern: str, names: Iterable[str]) -> list[str]:
    """Names that a name or a pattern (``*``, ``?``, ``[a-c]``) means: a column of just this name before any other."""
    names = list(names)
    return [pattern] if pattern in names else [name for name in names if fnmatch.fnmatchcase(name, pattern)]


def is_nameless(name: str) -> bool:
    """Tell whether a column had no name in the header."""
    return not name.strip() or _NAMELESS_COLUMN.fullmatch(name) is not None


def strict_features(present: list[str], selection: Selection) -> list[str]:
    """Name the feature columns of a table of numbers, which must have names.

    Raises:
        TableError: for whatever `Selection.features` notes, and columns without a name.
    """
    problems = Problems()
    features = selection.features(present, problems)
    columns = selection.columns
    if columns is None and any(is_nameless(name) for name in features):
        problems.add(
            "A column has no name in the header (often a row index saved with the data): remove it, name it, or list "
            "the columns to use."
        )
    if columns is not None and len(set(columns)) < len(columns):
        problems.add("The list of feature columns names a column twice: name each once.")
    problems.tell()
    return features


def matching(patterns: Sequence[str], present: Sequence[str], role: str, problems: Problems) -> list[str]:
    """Names that any of the patterns means; a problem is noted for each that means none, by the ``role`` it was for."""
    names: list[str] = []
    for pattern in patterns:
        named = matches(pattern, present)
        if not named:
            problems.add(f"There is no {role} {quoted(pattern)}{_what_there_is(pattern, present)}")
        names.extend(named)
    return names


def looks_like_data(present: Sequence[str]) -> bool:
    """Tell whether a header has such numbers that it must be a row: years as names are few beside others, and whole."""
    return sum(reads_as_number(name) for name in present) >= _NUMBERS_OF_A_ROW * len(present) or _fractions(present) > 0


def check_header(names: Sequence[str]) -> None:
    """Raise TableError for a first line that a row of data has run into, as its fractions among the names tell.

    Where most names are fractions, they are names, such as the wavelengths of a spectrum.
    """
    if 0 < _fractions(names) < len(names) / 2:
        raise TableError(
            "The first line looks like a row of data, or one has run into it: put a line with the columns' names above "
            "the rows, and no numbers with decimals among the names."
        )


def _fractions(names: Sequence[str]) -> int:
    """Count the names that are numbers with decimals, or below 0."""
    return sum(reads_as_number(name) and not name.strip().isdigit() for name in names)


def _what_there_is(name: str, present: Sequence[str], option: str = "") -> str:
    """End a sentence on a name that isn't there; ``option`` is what names one."""
    meant = did_you_mean(name, present)
    advice = f" Name one of these with {option}." if option else " Name one of these."
    return f"; the columns are {name_list(present)}.{meant}{advice if option or not meant else ''}"
