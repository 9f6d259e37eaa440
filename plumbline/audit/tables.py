"""The tables of all parties: looked at before any process starts, shown, and side by side as an auditor has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from plumbline.audit.request import TableOptions
from plumbline.terminal import shown_text
from services.common.identity import Role
from services.common.setting_texts import listed
from services.common.settings import Settings
from services.party.features import load_party_data
from services.party.party_model import with_unlabelled_tested
from vfl.arrays import FloatArray, IntArray
from vfl.data import (
    ColumnPlan,
    EncoderKind,
    Grid,
    TableError,
    TypedTable,
    common_order,
    encode_labels,
    grids_by_column,
    rows_of,
    width_of,
)
from vfl.data.columns import EncodedColumn
from vfl.data.faults import Problems, bounded, quoted
from vfl.data.id_overlap import overlap_words, would_meet
from vfl.data.labels import NO_LABEL
from vfl.data.reading_rules import ReadingRules
from vfl.data.record_ids import id_array
from vfl.data.selection import Selection, looks_like_data, matches
from vfl.data.table_limits import TableLimits
from vfl.data.typed_tables import read_selected
from vfl.source_words import without_password
from vfl.suggestions import did_you_mean

# Rows of a table as it is shown; what is plain is left out first.
_MOST_COLUMNS = 40


@dataclass(frozen=True)
class ExaminedTables:
    """Every party's table, fit to be federated.

    Attributes:
        settings: of each party's own data, by its name and field name; the active one is first.
        tables: by party; empty for a registered data set.
        shared: number of records that are in all tables.
        notes: sentences on ids that would meet as well, were they written alike.
    """

    settings: Mapping[str, Mapping[str, Any]]
    tables: Mapping[str, TypedTable] = field(default_factory=dict)
    shared: int = 0
    notes: tuple[str, ...] = ()

    def source(self, party: str) -> str:
        """Name a party's table to a person."""
        return short_name(str(self.settings[party]["data"]))


def short_name(source: str) -> str:
    """Name a file without its folders, or a database without its password."""
    address = without_password(source)
    return address if "://" in source else Path(address).name


def examine_tables(asked: TableOptions, limits: TableLimits | None = None) -> ExaminedTables:
    """Read every party's table, none of which may be larger than the limits.

    Raises:
        TableError: a line for everything that is wrong with any of them, with its party and file.
    """
    settings = asked.party_settings
    if not asked.has_tables:
        return ExaminedTables(settings)
    choices = _ColumnChoices(asked, tuple(settings))
    problems, tables = Problems(), {}
    for party, party_settings in settings.items():
        try:
            tables[party] = read_selected(party_settings["data"], choices.of(party), limits, rules_of(party_settings))
        except TableError as error:
            sentences = {one.partition(": ")[2] for one in problems.found} if asked.splits else set()
            new = [one for one in error.problems if one not in sentences]
            problems.found.extend(f"{party} ({short_name(party_settings['data'])}): {one}" for one in new)
    problems.found.extend([*choices.unmatched(), *choices.labels_elsewhere()])
    if not problems.found:
        problems.found.extend(_no_overlap(tables, settings, asked.ignore_in_ids))
    problems.tell()
    full_settings = {party: {**own, **choices.settings(party)} for party, own in settings.items()}
    notes = overlap_words({party: table.ids for party, table in tables.items()}, asked.ignore_in_ids)
    return ExaminedTables(full_settings, tables, len(_shared(tables)), tuple(notes))


def rules_of(settings: Mapping[str, Any]) -> ReadingRules:
    """Say how a party's table is read, of the settings of its own data."""
    return ReadingRules(**{one.name: settings[one.name] for one in fields(ReadingRules) if one.name in settings})


@dataclass(frozen=True)
class _ColumnChoices:
    """What is asked of columns, and what of it each party's table answers to.

    Attributes:
        asked: names, patterns, and either of them behind a party's name and a colon.
        parties: names of all.
        present: the columns of each table that could be opened.
        chosen: what was made of it for that table.
    """

    asked: TableOptions
    parties: tuple[str, ...]
    present: dict[str, list[str]] = field(default_factory=dict)
    chosen: dict[str, Selection] = field(default_factory=dict)

    def of(self, party: str) -> Callable[[Sequence[str]], Selection]:
        """Says, once it is told the names of a party's columns, which are used and how."""

        def select(present: Sequence[str]) -> Selection:
            if self.asked.id_column not in present and looks_like_data(present):
                # Refused as a table without a header: nothing can be said of columns.
                return Selection(self.asked.id_column, None)
            self.present[party] = list(present)
            self.chosen[party] = self._selection(party)
            return self.chosen[party]

        return select

    def settings(self, party: str) -> dict[str, Any]:
        """Write the settings of a party that repeat the selection in its own process."""
        selection = self.chosen[party]
        column_settings: dict[str, Any] = {
            "columns": tuple(selection.columns or ()),
            "drop": tuple(selection.drop),
            "encode": selection.encode,
            **{role: tuple(self._matching(getattr(self.asked, role), party)) for role in ("public", "sensitive")},
        }
        return {name: value for name, value in column_settings.items() if value}

    def unmatched(self) -> list[str]:
        """Sentences on names and patterns that no table answers to; none unless every table could be opened."""
        if len(self.present) < len(self.parties):
            return []
        sentences = []
        for option, patterns in self.asked.named_columns.items():
            for pattern in patterns:
                if not any(self._matching([pattern], party) for party in self.parties):
                    column_names = [name for names in self.present.values() for name in names]
                    meant = did_you_mean(self._split(pattern)[1], column_names) or " Check the headers of the tables."
                    sentences.append(f"No table has a column {quoted(pattern)}, which {option} names.{meant}")
        return sentences

    def labels_elsewhere(self) -> list[str]:
        """Sentences on passive parties whose features would be the label itself."""
        label = self.asked.label
        return [
            f"{party} has the label column {quoted(label)} too, so that there is nothing to learn with others: "
            f"leave it out with --drop {party}:{label}, or rename it if it is something else."
            for party, selection in self.chosen.items()
            if party != self.parties[0] and not self.asked.splits
            if label in self.present[party] and label not in selection.drop
            if selection.columns is None or label in selection.columns
        ]

    def _selection(self, party: str) -> Selection:
        options, active = self.asked, self.parties[0]
        label = (options.label or None) if party == active else None
        drop = self._matching(options.drop, party)
        columns = self._columns(party)
        encode = {
            name: encoding
            for key, encoding in options.encode.items()
            for name in self._matching([key], party)
            # The other columns of a table that is split are another party's.
            if columns is None or name in columns or not options.splits
        }
        return Selection(options.id_column, label, columns, tuple(drop), encode)

    def _columns(self, party: str) -> tuple[str, ...] | None:
        """List the features of a party, as far as the request chooses them."""
        named = self._matching(self.asked.columns, party)
        if not self.asked.splits:
            return tuple(named) or None
        share = self._share(party)
        return tuple(name for name in share if name in named or not named)

    def _share(self, party: str) -> list[str]:
        """List a party's columns of a table that is split: those named for it, or what is left."""
        options, present = self.asked, self.present[party]
        features = [name for name in present if name not in (options.id_column, options.label)]
        named = [options.active_columns, *map(listed, options.passive_columns)]
        place = self.parties.index(party)
        if place < len(named):
            return [name for name in self._matching(named[place], party) if name in features]
        active_columns = set(self._matching(options.active_columns, party))
        return [name for name in features if name not in active_columns]

    def _matching(self, patterns: Sequence[str], party: str) -> list[str]:
        """Columns of a party's table that any of the patterns means; never its id or the label."""
        columns = []
        for pattern in patterns:
            only, name = self._split(pattern)
            if only in ("", party):
                columns.extend(matches(name, self.present[party]))
        reserved = {self.asked.id_column, *([self.asked.label] if party == self.parties[0] else [])}
        return [name for name in dict.fromkeys(columns) if name not in reserved]

    def _split(self, pattern: str) -> tuple[str, str]:
        """Split a pattern into the party that it is for, if it names one, and the rest."""
        party, colon, name = pattern.partition(":")
        return (party, name) if colon and party in self.parties else ("", pattern)


def _shared(tables: Mapping[str, TypedTable]) -> set[str]:
    return set.intersection(*(set(table.ids) for table in tables.values()))


def _no_overlap(
    tables: Mapping[str, TypedTable], settings: Mapping[str, Mapping[str, Any]], ignored: Sequence[str]
) -> list[str]:
    """Say that no record is in all tables, and what would make them meet."""
    if _shared(tables):
        return []
    rows = ", ".join(
        f"{party} ({short_name(str(settings[party]['data']))}) has {len(table.ids):,}"
        for party, table in tables.items()
    )
    for hint in would_meet([table.ids for table in tables.values()], ignored):
        return [
            f"No id is in all tables ({rows}), but {hint.count:,} would be if {hint.words} didn't count: write ids "
            f"alike in all of them, or use --ignore-in-ids {hint.option}."
        ]
    return [f"No id is in all tables ({rows}): check that --id names the same people's ids in each of them."]


def print_tables(console: Console, examined: ExaminedTables, encoder: EncoderKind | None) -> None:
    """Show every party's columns, what they were found to be and become, and what their owner should know.

    Args:
        console: where to.
        examined: the tables.
        encoder: how numbers will be scaled; None where all columns are padded to one width.
    """
    for party, table in examined.tables.items():
        grids = {} if encoder is None else grids_by_column(table, encoder)
        digits = {name: digits_words(of_column) for name, of_column in grids.items()}
        console.print(_table_of(party, examined.source(party), table, digits))
        for note in table.notes:
            console.print(shown_text(f"{party}: {note}"), style="yellow")
        warned = [plan for plan in table.plans if plan.warning]
        for plan in warned[:_MOST_COLUMNS]:
            console.print(shown_text(f"{bounded(plan.name)}: {plan.warning}"), style="yellow")
        if len(warned) > _MOST_COLUMNS:
            console.print(f"And {len(warned) - _MOST_COLUMNS:,} more columns with a warning.", style="yellow")
    console.print(f"{examined.shared:,} records are in all tables.", highlight=False)
    for note in examined.notes:
        console.print(note, style="yellow", highlight=False)


_DIGITS = {"binary": "1", "byte": "8", "full": "full"}


def digits_words(grids: Sequence[Grid | None]) -> str:
    """Say how many binary digits the features of one column take: ``8``, ``full and 1``, ``1 each``."""
    digits = [_DIGITS[width_of(grid)] for grid in grids]
    different = list(dict.fromkeys(digits))
    return f"{digits[0]} each" if len(digits) > len(different) == 1 else " and ".join(different)


def _table_of(party: str, source: str, table: TypedTable, digits: Mapping[str, str]) -> Table:
    facts = [source, f"{len(table.ids):,} rows", *([table.read_as] if table.read_as else [])]
    grid = Table(title=shown_text(f"{party}: {', '.join(facts)}"), title_justify="left")
    for heading in ("column", "found", "becomes", "digits"):
        grid.add_column(heading, overflow="fold")
    plans = _most_telling(table.plans)
    for plan in plans:
        grid.add_row(
            shown_text(bounded(plan.name)),
            shown_text(plan.found),
            shown_text(plan.becomes),
            "" if _is_out(plan) else digits.get(plan.name, "full"),
            style="dim" if _is_out(plan) else "",
        )
    if len(plans) < len(table.plans):
        grid.add_row(f"and {len(table.plans) - len(plans):,} more", "numbers", "1 feature each", "")
    return grid


def _most_telling(plans: tuple[ColumnPlan, ...]) -> list[ColumnPlan]:
    """List all plans in the table's order, or, of many, those that say most: plain numbers last."""
    if len(plans) <= _MOST_COLUMNS:
        return list(plans)
    plain = [at for at, plan in enumerate(plans) if plan.encoding == "number" and plan.becomes == "1 feature"]
    left_out = set(plain[max(0, len(plain) - (len(plans) - _MOST_COLUMNS)) :])
    return [plan for at, plan in enumerate(plans) if at not in left_out]


def _is_out(plan: ColumnPlan) -> bool:
    return plan.encoding == "drop"


def _check_roles(settings: Mapping[str, Settings], columns: Sequence[str]) -> None:
    """Raise ValueError for a role of a column that no party has; of a data set that is dealt out no party can tell."""
    for role in ("public", "sensitive"):
        for pattern in dict.fromkeys(pattern for one in settings.values() for pattern in getattr(one, role)):
            if not matches(pattern, columns):
                meant = did_you_mean(pattern, columns) or " See `plumbline audit --dry-run` for the columns."
                raise ValueError(f"No table has a column {quoted(pattern)}, which --{role} names.{meant}")


class JoinedTables:
    """All parties' aligned records, in the order and the split of their session.

    Attributes:
        settings: of each party, the active one first, the others in the agreement's order.
        table_sizes: records of each party's own table, the active party's first.
        data: each party's table, with what its columns become.
        aligned: each party's aligned records, as its session encodes them, before any defence.
        ids: of the aligned records, in the common order.
        split: which of them are trained on, validated with and judged.
        labels: class indices of the aligned records; -1 where one has no label.
        class_names: by class index.

    Raises:
        ValueError: without a label column, and for tables that can't be used.
    """

    def __init__(self, party_settings: Mapping[str, Settings], read: Mapping[str, TypedTable] | None = None) -> None:
        """Take each party's settings, and of the parties whose tables were ``read`` for them before, these."""
        read = read or {}
        passive = sorted(name for name in party_settings if name not in (Role.ACTIVE, Role.COORDINATOR))
        self.settings = {name: party_settings[name] for name in (str(Role.ACTIVE), *passive)}
        self.data = {
            name: load_party_data(settings, with_bias=False, table=read.get(name))
            for name, settings in self.settings.items()
        }
        _check_roles(self.settings, [plan.name for one in self.data.values() for plan in one.table.plans])
        self.table_sizes = tuple(len(one.ids) for one in self.data.values())
        labels = self.data[Role.ACTIVE].labels
        if labels is None:
            raise ValueError("The active party holds the labels: name its label column.")
        indices, self.class_names = encode_labels(labels)
        plan, own_ids = self.settings[Role.ACTIVE].plan(), self.data[Role.ACTIVE].ids
        common = rows_of(own_ids, common_order(set.intersection(*(set(one.ids) for one in self.data.values()))))
        placed = with_unlabelled_tested(common, indices[common], plan)
        self.ids, self.labels = list(id_array(own_ids).take(placed)), indices[placed]
        split = plan.split(len(self.ids))
        self.split = replace(split, test=split.test[self.labels[split.test] != NO_LABEL])
        own_rows = {name: rows_of(one.ids, self.ids) for name, one in self.data.items()}
        self.aligned = {name: one.aligned(own_rows[name], plan) for name, one in self.data.items()}

    def changed(self, asked: Mapping[str, Mapping[str, str]]) -> JoinedTables:
        """Leave columns out or make them coarser, in records and split: what is asked of each, by party.

        Raises:
            ValueError: where a party would have no column, and for categories that are to become coarser.
        """
        plan, changed = self.settings[Role.ACTIVE].plan(), copy(self)
        party_data = {name: self.data[name].changed(of_party) for name, of_party in asked.items()}
        aligned = {name: one.aligned(self.aligned[name].rows, plan) for name, one in party_data.items()}
        changed.data, changed.aligned = {**self.data, **party_data}, {**self.aligned, **aligned}
        return changed

    @property
    def passive_names(self) -> list[str]:
        """Names of the passive parties, in the agreement's order."""
        return [name for name in self.settings if name != Role.ACTIVE]

    def ids_of(self, rows: IntArray) -> list[str]:
        """List the ids of rows of the common order."""
        return [self.ids[row] for row in rows]

    def features(self, name: str, rows: IntArray) -> FloatArray:
        """Encode a party's features of rows of the common order."""
        return self.aligned[name].features[rows]

    def columns(self, name: str) -> tuple[EncodedColumn, ...]:
        """Say what a party's features are of."""
        return self.aligned[name].columns
