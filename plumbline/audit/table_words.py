"""What was found in the parties' tables, told to a person before any process starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from plumbline.audit.request import AuditRequest
from plumbline.audit.tables import ExaminedTables, examine_tables
from plumbline.terminal import shown_text
from plumbline.width_words import digits_words
from services.common.settings import environment_values, settings_of
from vfl.data import ColumnPlan, EncoderKind, TypedTable, grids_by_column
from vfl.data.faults import bounded

# Rows of a table; what is plain is left out first.
_MOST_COLUMNS = 40


def examined_and_shown(request: AuditRequest, console: Console) -> Mapping[str, Mapping[str, Any]] | None:
    """Examine the tables, show what becomes of their columns, and return the settings of each party's own data.

    None for a registered data set. Raises TableError with everything that is wrong with any of the tables.
    """
    examined = examine_tables(request)
    if examined is None:
        return None
    if request.verbosity != "quiet":
        said = {**environment_values(), **request.settings}
        # What else is asked for is checked, and refused, with the whole recipe.
        own = settings_of({name: said[name] for name in ("encoder", "pad_widths") if name in said})
        print_tables(console, examined, None if own.pad_widths else own.encoder)
    return examined.settings


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
        warned = [plan for plan in table.plans if plan.warning]
        for plan in warned[:_MOST_COLUMNS]:
            console.print(shown_text(f"{bounded(plan.name)}: {plan.warning}"), style="yellow")
        if len(warned) > _MOST_COLUMNS:
            console.print(f"And {len(warned) - _MOST_COLUMNS:,} more columns with a warning.", style="yellow")
    console.print(f"{examined.shared:,} records are in all tables.", highlight=False)


def _table_of(party: str, source: str, table: TypedTable, digits: Mapping[str, str]) -> Table:
    facts = [source, f"{len(table.ids):,} rows", *([table.read_as] if table.read_as else [])]
    shown = Table(title=shown_text(f"{party}: {', '.join(facts)}"), title_justify="left")
    for heading in ("column", "found", "becomes", "digits"):
        shown.add_column(heading, overflow="fold")
    plans = _most_telling(table.plans)
    for plan in plans:
        shown.add_row(
            shown_text(bounded(plan.name)),
            shown_text(plan.found),
            shown_text(plan.becomes),
            "" if _is_out(plan) else digits.get(plan.name, "full"),
            style="dim" if _is_out(plan) else "",
        )
    if len(plans) < len(table.plans):
        shown.add_row(f"and {len(table.plans) - len(plans):,} more", "numbers", "1 feature each", "")
    return shown


def _most_telling(plans: tuple[ColumnPlan, ...]) -> list[ColumnPlan]:
    """All plans in the table's order, or, of many, those that say most: plain numbers last."""
    if len(plans) <= _MOST_COLUMNS:
        return list(plans)
    plain = [at for at, plan in enumerate(plans) if plan.encoding == "number" and plan.becomes == "1 feature"]
    left_out = set(plain[max(0, len(plain) - (len(plans) - _MOST_COLUMNS)) :])
    return [plan for at, plan in enumerate(plans) if at not in left_out]


def _is_out(plan: ColumnPlan) -> bool:
    return plan.encoding == "drop"
