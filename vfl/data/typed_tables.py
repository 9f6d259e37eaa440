"""A party's own table as it came, with a type for every column: what becomes of each is decided here, from it alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vfl.data.cells import cells_in_parts
from vfl.data.coarsening import coarser_plan
from vfl.data.columns import ColumnPlan, ColumnRole
from vfl.data.faults import Problems, name_list, quoted, row_list
from vfl.data.labels import Labels, label_array, label_notes
from vfl.data.reading_rules import ReadingRules
from vfl.data.record_ids import record_ids
from vfl.data.selection import Selection, matching
from vfl.data.table_limits import TableLimits, in_memory
from vfl.data.tables import Table

if TYPE_CHECKING:
    import pandas as pd


# Columns of which a message says why they are left out.
_MOST_LEFT_OUT = 3


@dataclass(frozen=True, eq=False)
class TypedTable:
    """One party's rows, typed and not yet encoded.

    Attributes:
        ids: n distinct non-empty strings.
        frame: n rows and a column for each plan that keeps one: float64 for numbers (0 and 1 for booleans) and for
            dates (days since 1970), a pandas categorical of text for categories; NaN where a cell is missing.
        plans: of every column besides id and label, in the table's order; also of those that are left out.
        labels: (n,) object array of str or int, None for a row without one; None for a passive party.
        read_as: how the file was read, in words: ``UTF-8 text separated by semicolons``; empty for nothing to say.
        notes: sentences to its owner on what no column's plan tells: classes, rows without a label.

    Examples:
        >>> table: TypedTable = typed_table_of(Table(("a", "b"), np.array([[31.0], [45.0]]), ("age",)))
        >>> table.with_roles(public=["a*"], sensitive=[]).roles
        {'age': 'public'}
    """

    ids: Sequence[str]
    frame: pd.DataFrame
    plans: tuple[ColumnPlan, ...]
    labels: Labels | None = None
    read_as: str = ""
    notes: tuple[str, ...] = ()

    def with_roles(self, public: Sequence[str], sensitive: Sequence[str], *, is_share: bool = False) -> TypedTable:
        """Take down what its owner says of columns, by names and patterns: the same table otherwise.

        Args:
            public: columns whose values are published.
            sensitive: columns to protect first.
            is_share: of a data set that is dealt out: others' columns may be meant, too.

        Raises:
            TableError: for a name that no column has, and for columns that are said to be both.
        """
        if not public and not sensitive:
            return self
        names, problems = [plan.name for plan in self.plans], Problems()
        roles: dict[ColumnRole, set[str]] = {}
        patterns_by_role: tuple[tuple[ColumnRole, Sequence[str]], ...] = (("public", public), ("sensitive", sensitive))
        for role, patterns in patterns_by_role:
            roles[role] = set(matching(patterns, names, f"column to call {role}", Problems() if is_share else problems))
        if both := sorted(roles["public"] & roles["sensitive"]):
            problems.add(f"{name_list(both)} can't be both public and sensitive: say one of both.")
        problems.tell()
        plans = [
            replace(plan, role=next((role for role, of in roles.items() if plan.name in of), "")) for plan in self.plans
        ]
        return replace(self, plans=tuple(plans))

    def changed(self, changes: Mapping[str, str]) -> TypedTable:
        """Leave columns out or make them coarser: the same rows otherwise.

        Args:
            changes: ``drop`` or one of `vfl.data.columns.COARSENINGS`, by the column's name.

        Raises:
            TableError: for a column of categories that is to become coarser.
        """
        plans = [
            plan
            if plan.name not in changes
            else replace(plan, encoding="drop", becomes="left out, as asked")
            if changes[plan.name] == "drop"
            else coarser_plan(plan, changes[plan.name])
            for plan in self.plans
        ]
        return replace(self, plans=tuple(plans))

    @property
    def roles(self) -> dict[str, ColumnRole]:
        """What its owner says of columns, by name; only those of which something is said."""
        return {plan.name: plan.role for plan in self.plans if plan.role}

    @property
    def kept(self) -> tuple[ColumnPlan, ...]:
        """The plans of the columns that the federation gets features of."""
        return tuple(plan for plan in self.plans if plan.encoding != "drop")


def read_table(
    source: str,
    *,
    id_column: str,
    label_column: str | None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    encode: Mapping[str, str] | None = None,
    limits: TableLimits | None = None,
) -> TypedTable:
    """Read a party's table and decide what each column is.

    Args:
        source: a path or a database URL, see `vfl.data.readers.FORMATS`.
        id_column: holds the ids.
        label_column: holds the labels; None for a passive party.
        columns: names and patterns such as ``c*`` of the columns to use; None takes every column besides id and label.
        drop: names and patterns of columns to leave out.
        encode: what a column becomes, by its name, instead of what would be decided: see `vfl.data.columns.ENCODINGS`.
        limits: how large a table may be.

    Raises:
        TableError: lists everything that has to be mended before the table can be used.

    Examples:
        >>> clients = pd.DataFrame({"id": ["a", "b"], "age": [31, 45], "city": ["Bern", "Basel"]})
        >>> clients.to_csv("clients.csv", index=False)
        >>> [plan.becomes for plan in read_table("clients.csv", id_column="id", label_column=None).plans]
        ['1 feature', '2 features, one per category']
    """
    selection = Selection(id_column, label_column, columns, drop, dict(encode or {}))
    return read_selected(source, lambda _: selection, limits)


def read_selected(
    source: str,
    select: Callable[[Sequence[str]], Selection],
    limits: TableLimits | None = None,
    rules: ReadingRules | None = None,
) -> TypedTable:
    """Read a table of which somebody who sees the names of its columns says what is used.

    Raises:
        TableError: as `read_table`.
    """
    with in_memory():
        return _read(source, select, limits, rules or ReadingRules())


def _read(
    source: str, select: Callable[[Sequence[str]], Selection], limits: TableLimits | None, rules: ReadingRules
) -> TypedTable:
    from vfl.data.inference import typed_columns
    from vfl.data.readers import read_raw

    problems, selections = Problems(), []

    def choose(present: Sequence[str]) -> list[str]:
        selections.append(select(present))
        return selections[0].read(present, problems)

    raw = read_raw(source, choose, limits, rules)
    selection = selections[0]
    problems.found[:0] = raw.faults
    if not len(raw.frame):
        problems.add("The table has no rows: check the file or the query.")
        problems.tell()
    ids: Sequence[str] = ()
    labels = None
    with problems.noted():
        ids = record_ids(_exact(raw.frame, selection.id_column), selection.id_column, rules.ignore_in_ids)
    if not len(ids) and (copies := [row for row, copy in enumerate(raw.frame.duplicated(), start=1) if copy]):
        problems.add(
            f"Copies of an earlier row in all columns that are used: {row_list(copies)} ({len(copies):,} in all). "
            "Remove them."
        )
    with problems.noted():
        if selection.label_column is not None and selection.label_column in raw.frame:
            labels = label_array(
                _exact(raw.frame, selection.label_column),
                selection.label_column,
                ignored=rules.ignore_in_labels,
                may_lack=rules.unlabelled == "predict",
            )
    features = raw.frame.drop(columns=selection.exact, errors="ignore")
    missing = rules.missing_of(list(features.columns))
    frame, plans = typed_columns(features, selection.encode, problems, separator=raw.separator, missing=missing)
    if plans and all(plan.encoding == "drop" for plan in plans):
        problems.add(
            "No column is left to learn from: "
            + "; ".join(f"{quoted(plan.name)} ({plan.becomes})" for plan in plans[:_MOST_LEFT_OUT])
            + (f" and {len(plans) - _MOST_LEFT_OUT:,} more" if len(plans) > _MOST_LEFT_OUT else "")
            + ". Name what a column should become with --encode."
        )
    problems.tell()
    of_labels = () if labels is None else label_notes(labels, str(selection.label_column))
    return TypedTable(ids, frame, plans, labels, raw.read_as, tuple(filter(None, [raw.note, *of_labels])))


def _exact(frame: pd.DataFrame, name: str) -> Iterator[object]:
    """List a column's values one by one; none where it isn't there, which was noted."""
    return cells_in_parts(frame[name]) if name in frame else iter(())


def typed_table_of(table: Table) -> TypedTable:
    """Make a typed table of numbers that need no mending, such as a registered data set's; every column is kept."""
    import pandas as pd

    frame = pd.DataFrame(table.features, columns=pd.Index(table.feature_names))
    plans = tuple(
        ColumnPlan(name, f"numbers from {low:.6g} to {high:.6g}", "number", "1 feature")
        for name, low, high in zip(
            table.feature_names, table.features.min(axis=0), table.features.max(axis=0), strict=True
        )
    )
    return TypedTable(table.ids, frame, plans, table.labels)
