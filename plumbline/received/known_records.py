"""Records of other persons that a receiver has in full: read from one table, and set beneath the three judged ones."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from plumbline.audit.tables import rules_of, short_name
from plumbline.received.judge_request import OWN, RECEIVED, JudgeRequest
from vfl.data import TableError, TypedTable
from vfl.data.faults import name_list
from vfl.data.selection import Selection
from vfl.data.typed_tables import read_selected

# Before their ids: a person who is in the judged tables as well is there under the bare one.
PREFIX = "known: "


def with_known(request: JudgeRequest, tables: Mapping[str, TypedTable]) -> dict[str, TypedTable]:
    """Read ``--known-from`` as each table's columns are read, and set it beneath each; as they are where there is none.

    Raises:
        TableError: where it lacks one of their columns, or has in it what isn't of that column's kind.
    """
    options = request.tables
    if not options.known_from:
        return dict(tables)
    names = Counter(plan.name for table in tables.values() for plan in table.kept)
    if twice := sorted(name for name, count in names.items() if count > 1):
        raise TableError(
            f"--known-from can't tell which of two columns {name_list(twice)} is: rename it in one of the tables."
        )
    settings = options.settings_of(RECEIVED, options.known_from)
    try:
        return {part: _beneath(table, _read(request, part, table, settings)) for part, table in tables.items()}
    except TableError as error:
        raise TableError(*(f"known ({short_name(options.known_from)}): {one}" for one in error.problems)) from None


def is_known(ids: Sequence[str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Tell which records the receiver has from ``--known-from``, (records,)."""
    return np.array([one.startswith(PREFIX) for one in ids])


def _read(request: JudgeRequest, part: str, table: TypedTable, settings: Mapping[str, Any]) -> TypedTable:
    options = request.tables
    label = options.label if part == OWN and options.label else None
    encode = {plan.name: plan.coarsening or plan.encoding for plan in table.kept}

    def select(present: Sequence[str]) -> Selection:
        # What isn't there is missed once, as a column, not as one to encode as well.
        there = {name: encoding for name, encoding in encode.items() if name in present}
        return Selection(options.id_column, label, list(encode), (), there)

    return read_selected(options.known_from, select, options.limits, rules=rules_of(settings))


def _beneath(table: TypedTable, known_table: TypedTable) -> TypedTable:
    import pandas as pd

    frame = pd.concat([table.frame[[plan.name for plan in table.kept]], known_table.frame], ignore_index=True)
    for name in frame:
        if table.frame[name].dtype == "category":
            frame[name] = pd.Categorical(frame[name].astype(object))
    labels = (
        None
        if table.labels is None or known_table.labels is None
        else np.concatenate([table.labels, known_table.labels])
    )
    return replace(table, ids=[*table.ids, *(PREFIX + one for one in known_table.ids)], frame=frame, labels=labels)
