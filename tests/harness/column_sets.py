"""Sets of columns that were measured, made up: one of which much leaks, and what could be done about it."""

from plumbline.judge.column_sets import Change, ColumnPart, ColumnSet, WhatIf


def columns(auc: float, *changes: str | Change, **parts: float | None) -> ColumnSet:
    """A set that leaves out or changes these columns of one passive party, and gives away these parts of the others."""
    made = [one if isinstance(one, Change) else Change("passive", one) for one in changes]
    told = [ColumnPart("passive", name, part, (part or 0) >= 0.1) for name, part in parts.items()]
    return ColumnSet(tuple(sorted(made)), tuple(told), auc)


WHOLE = columns(0.7921, employed=0.654, rate=0.12, age=0.01)
WITHOUT = columns(0.7812, "employed", rate=0.118, age=0.0)
CLOSED = columns(0.75, "employed", "rate", age=0.0)
COARSER = columns(0.785, Change("passive", "employed", "bins2"), employed=0.4, rate=0.11, age=0.0)
FOUND = WhatIf(WHOLE, WHOLE, without=(WITHOUT,), frontier=(WHOLE, WITHOUT, CLOSED), coarser=(COARSER,), attacks=("ls",))
