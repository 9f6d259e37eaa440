"""The tables of all parties, looked at before any process starts: what is wrong with any of them is told at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plumbline.audit.request import AuditRequest
from plumbline.recipe import own_tables
from services.common.settings import environment_values, settings_of
from vfl.data import TableError, TypedTable
from vfl.data.faults import Problems, quoted
from vfl.data.selection import Selection, looks_like_data, matches
from vfl.data.typed_tables import read_selected
from vfl.source_words import without_password
from vfl.suggestions import did_you_mean

# Settings that say how large a table may be.
_OF_TABLES = ("table_megabytes", "table_columns", "table_cells")
# What two forms of the same id may differ by, and how the difference goes away.
_FORMS: Mapping[str, Callable[[str], str]] = {
    "leading zeros": lambda value: value.lstrip("0"),
    "capital letters": str.lower,
    "blanks, points and dashes": lambda value: re.sub(r"[\W_]", "", value),
    "what isn't a digit": lambda value: re.sub(r"\D", "", value),
}


@dataclass(frozen=True)
class ExaminedTables:
    """Every party's table, fit to be federated.

    Attributes:
        tables: by party, the active one first.
        settings: of each party's own data, by field name.
        shared: number of records that are in all tables.
    """

    tables: Mapping[str, TypedTable]
    settings: Mapping[str, Mapping[str, Any]]
    shared: int

    def source(self, party: str) -> str:
        """Name a party's table to a person."""
        return short_name(str(self.settings[party]["data"]))


def short_name(source: str) -> str:
    """Name a file without its folders, or a database without its password."""
    shown = without_password(source)
    return shown if "://" in source else Path(shown).name


def examine_tables(request: AuditRequest) -> ExaminedTables | None:
    """Read every party's table; None for a registered data set.

    Raises:
        TableError: a line for everything that is wrong with any of them, with its party and file.
    """
    if not request.has_tables:
        return None
    settings = own_tables(request.files, label=request.label, id_column=request.id_column)
    wishes = _Wishes(request, tuple(settings))
    said = {**environment_values(), **request.settings}
    limits = settings_of({name: said[name] for name in _OF_TABLES if name in said}).table_limits
    problems, tables = Problems(), {}
    for party, own in settings.items():
        try:
            tables[party] = read_selected(own["data"], wishes.of(party), limits)
        except TableError as error:
            told = {one.partition(": ")[2] for one in problems.found} if request.splits else set()
            new = [one for one in error.problems if one not in told]
            problems.found.extend(f"{party} ({short_name(own['data'])}): {one}" for one in new)
    problems.found.extend([*wishes.unheard(), *wishes.labels_elsewhere()])
    if not problems.found:
        problems.found.extend(_no_overlap(tables, settings))
    problems.tell()
    return ExaminedTables(
        tables,
        {party: {**own, **wishes.settings(party)} for party, own in settings.items()},
        len(_shared(tables)),
    )


@dataclass(frozen=True)
class _Wishes:
    """What the request says of columns, and what of it each party's table answers to.

    Attributes:
        request: names, patterns, and either of them behind a party's name and a colon.
        parties: names of all.
        present: the columns of each table that could be opened.
        chosen: what was made of the request for it.
    """

    request: AuditRequest
    parties: tuple[str, ...]
    present: dict[str, list[str]] = field(default_factory=dict)
    chosen: dict[str, Selection] = field(default_factory=dict)

    def of(self, party: str) -> Callable[[Sequence[str]], Selection]:
        """Says, once it is told the names of a party's columns, which are used and how."""

        def select(present: Sequence[str]) -> Selection:
            if self.request.id_column not in present and looks_like_data(present):
                # Refused as a table without a header: nothing can be said of columns.
                return Selection(self.request.id_column, None)
            self.present[party] = list(present)
            self.chosen[party] = self._selection(party)
            return self.chosen[party]

        return select

    def settings(self, party: str) -> dict[str, Any]:
        """The settings of a party that repeat the selection in its own process."""
        selection = self.chosen[party]
        said = {"columns": tuple(selection.columns or ()), "drop": tuple(selection.drop), "encode": selection.encode}
        return {name: value for name, value in said.items() if value}

    def unheard(self) -> list[str]:
        """Sentences on names and patterns that no table answers to; none unless every table could be opened."""
        if len(self.present) < len(self.parties):
            return []
        request = self.request
        groups = {
            "--columns": request.columns,
            "--drop": request.drop,
            "--encode": tuple(request.encode),
            "--active-columns": request.active_columns,
            "--passive-columns": tuple(name for text in request.passive_columns for name in _names(text)),
        }
        found = []
        for option, patterns in groups.items():
            for pattern in patterns:
                if not any(self._matching([pattern], party) for party in self.parties):
                    known = [name for names in self.present.values() for name in names]
                    meant = did_you_mean(self._split(pattern)[1], known) or " Check the headers of the tables."
                    found.append(f"No table has a column {quoted(pattern)}, which {option} names.{meant}")
        return found

    def labels_elsewhere(self) -> list[str]:
        """Sentences on passive parties whose features would be the label itself."""
        label = self.request.label
        return [
            f"{party} has the label column {quoted(label)} too, so that there is nothing to learn with others: "
            f"leave it out with --drop {party}:{label}, or rename it if it is something else."
            for party, selection in self.chosen.items()
            if party != self.parties[0] and not self.request.splits
            if label in self.present[party] and label not in selection.drop
            if selection.columns is None or label in selection.columns
        ]

    def _selection(self, party: str) -> Selection:
        request, active = self.request, self.parties[0]
        label = request.label if party == active else None
        drop = self._matching(request.drop, party)
        columns = self._columns(party)
        encode = {
            name: encoding
            for key, encoding in request.encode.items()
            for name in self._matching([key], party)
            # The other columns of a table that is split are another party's.
            if columns is None or name in columns or not request.splits
        }
        return Selection(request.id_column, label, columns, tuple(drop), encode)

    def _columns(self, party: str) -> tuple[str, ...] | None:
        """The features of a party, as far as the request chooses them."""
        asked = self._matching(self.request.columns, party)
        if not self.request.splits:
            return tuple(asked) or None
        own = self._share(party)
        return tuple(name for name in own if name in asked or not asked)

    def _share(self, party: str) -> list[str]:
        """A party's columns of a table that is split: those named for it, or what is left."""
        request, present = self.request, self.present[party]
        features = [name for name in present if name not in (request.id_column, request.label)]
        named = [request.active_columns, *map(_names, request.passive_columns)]
        at = self.parties.index(party)
        if at < len(named):
            return [name for name in self._matching(named[at], party) if name in features]
        taken = set(self._matching(request.active_columns, party))
        return [name for name in features if name not in taken]

    def _matching(self, patterns: Sequence[str], party: str) -> list[str]:
        """Columns of a party's table that any of the patterns means; never its id or the label."""
        found = []
        for pattern in patterns:
            only, name = self._split(pattern)
            if only in ("", party):
                found.extend(matches(name, self.present[party]))
        reserved = {self.request.id_column, *([self.request.label] if party == self.parties[0] else [])}
        return [name for name in dict.fromkeys(found) if name not in reserved]

    def _split(self, pattern: str) -> tuple[str, str]:
        """The party that a pattern is for, if it names one, and the rest."""
        party, colon, name = pattern.partition(":")
        return (party, name) if colon and party in self.parties else ("", pattern)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _shared(tables: Mapping[str, TypedTable]) -> set[str]:
    return set.intersection(*(set(table.ids) for table in tables.values()))


def _no_overlap(tables: Mapping[str, TypedTable], settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence when no record is in all tables, with what would make them meet."""
    if _shared(tables):
        return []
    rows = ", ".join(
        f"{party} ({short_name(str(settings[party]['data']))}) has {len(table.ids):,}"
        for party, table in tables.items()
    )
    for what, bare in _FORMS.items():
        alike = len(set.intersection(*({bare(value) for value in table.ids} - {""} for table in tables.values())))
        if alike:
            return [
                f"No id is in all tables ({rows}), but {alike:,} would be if {what} didn't count: write ids alike in "
                "all of them."
            ]
    return [f"No id is in all tables ({rows}): check that --id names the same people's ids in each of them."]
